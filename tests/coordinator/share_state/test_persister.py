"""The text of a share partition, which decides who coordinates it."""

from __future__ import annotations

import pytest

from muster.coordinator.share_state.persister import StateKey, read_key

TOPIC = "AAAAAAAAAAAAAAAAAAAAAg"
ID = bytes(15) + b"\2"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"g:{TOPIC}:7", StateKey("g", ID, 7)),
        (f"a:b:{TOPIC}:+7", StateKey("a:b", ID, 7)),
        (f"g:{TOPIC}==:-1", StateKey("g", ID, -1)),
        (f"g:{TOPIC}:7:", StateKey("g", ID, 7)),
        (f" :{TOPIC}:7", None),
        (f"{TOPIC}:7", None),
        ("", None),
        ("g", None),
        (f"g:{TOPIC}:x", None),
        (f"g:{TOPIC}:2147483648", None),
        ("g:no!:7", None),
        ("g:AAAA:7", None),
        (f"g:{TOPIC}AAA:7", None),
    ],
)
def test_a_key_is_read_as_kafka_reads_it(text: str, key: StateKey | None) -> None:
    assert read_key(text) == key


def test_the_text_of_a_key_is_kafkas() -> None:
    assert str(StateKey("a:b", ID, 7)) == f"a:b:{TOPIC}:7"
