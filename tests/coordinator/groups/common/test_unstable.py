from __future__ import annotations

import pytest

from muster.coordinator.groups.common.events import CRASH_LOOP, FLAPPING, SLOW, unstable_text


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        (CRASH_LOOP, {}, "web-1 crash-loops"),
        (CRASH_LOOP, {"over": True}, "web-1 crash-looped"),
        (CRASH_LOOP, {"died": False}, "web-1 keeps leaving and coming back"),
        (CRASH_LOOP, {"died": False, "over": True}, "web-1 kept leaving and coming back"),
        (FLAPPING, {}, "web-1 take turns in coming and going"),
        (FLAPPING, {"over": True}, "web-1 took turns in coming and going"),
        (SLOW, {}, "web-1 polled too slowly and was put out repeatedly"),
        (SLOW, {"again": False}, "web-1 polled too slowly and was put out"),
        (SLOW, {"again": False, "several": True}, "web-1 polled too slowly and were put out"),
        (CRASH_LOOP, {"several": True}, "web-1 crash-loop"),
        (CRASH_LOOP, {"died": False, "several": True}, "web-1 keep leaving and coming back"),
    ],
)
def test_the_text_about_an_unstable_member_names_its_kind(kind: str, more: dict[str, bool], words: str) -> None:
    assert unstable_text(kind, "web-1", **more) == words
