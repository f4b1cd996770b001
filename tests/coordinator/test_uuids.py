from __future__ import annotations

from random import Random
from uuid import UUID

from muster.coordinator.system.uuids import draw_uuid, draw_uuid_text


def test_drawn_uuids_are_unique_and_have_kafkas_form() -> None:
    texts = {draw_uuid_text() for _ in range(200)}
    assert len(texts) == 200
    for text in texts:
        assert [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
        assert text[14] == "4"
        assert text[19] in "89ab"
    assert {len(draw_uuid()) for _ in range(200)} == {16}
    # urlsafe base64 of a first byte of 0xf8-0xfb begins with a dash
    assert not any(0xF8 <= draw_uuid()[0] <= 0xFB for _ in range(2_000))


def test_the_same_random_bytes_give_the_same_ids() -> None:
    assert draw_uuid(Random(7).randbytes) == draw_uuid(Random(7).randbytes)
    assert draw_uuid_text(Random(7).randbytes) == str(UUID(bytes=Random(7).randbytes(16), version=4))
