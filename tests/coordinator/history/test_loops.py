"""Members that join and leave again and again are reported while they do so."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.history.counts import GROUP_RESTLESS, MAX_PLACES, UnstableMembers
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.server.histories import warn_unstable
from muster.pipeline.episodes.claims import Facts
from muster.pipeline.episodes.verdict import verdict
from tests.coordinator.history.test_journal import JournalHarness
from tests.pipeline.episodes.timeline import Group, ms

MINUTE = 60_000


def member(name: str, instance: str | None = None, host: str = "/10.0.0.1") -> MemberFacts:
    return MemberFacts(f"{name}-1", instance, name, host, 45_000, 300_000, (), None, None, None, b"")


class Watched:
    """The groups of one partition, minute by minute."""

    def __init__(self) -> None:
        self.loops = UnstableMembers()
        self.now_ms = 0
        self.written: list[dict[str, Any]] = []

    def see(self, kind: str, name: str, group: str = "g", **facts: Any) -> None:
        instance = facts.pop("instance", None)
        event = Event(kind, group, {"member": member(name, instance), "reason": None, **facts})
        found = self.loops.add(event, self.now_ms)
        if found is not None:
            assert (found.kind, found.group_id) == (GROUP_RESTLESS, group)
            self.written.append(found.facts)

    def restarts(self, name: str, times: int = 1, *, every_ms: int = 2 * MINUTE, how: str = events.MEMBER_LEFT,
                 **facts: Any) -> Watched:  # fmt: skip
        for _ in range(times):
            self.see(how, name, **facts)
            self.now_ms += every_ms // 2
            self.see(events.MEMBER_JOINED, name, **facts)
            self.now_ms += every_ms // 2
        return self


def test_a_member_that_returns_three_times_is_reported_and_again_at_twice_as_many() -> None:
    watched = Watched().restarts("web-1", 2)
    assert watched.written == []
    watched.restarts("web-1", 9, how=events.MEMBER_EXPIRED)
    assert [(one["what"], one["members"], one["times"], one["since"]) for one in watched.written] == [
        ("crash_loop", ["web-1"], 3, 0), ("crash_loop", ["web-1"], 6, 0)
    ]  # fmt: skip
    assert watched.written[0]["text"] == "web-1 crash-loops"


def test_the_pipelines_verdict_about_an_unstable_member_is_the_same() -> None:
    group = Group("web-1", "web-2")
    for number in range(4):
        group.restarts(1_000 + 120 * number, "web-1")
    (written,) = Watched().restarts("web-1", 4).written
    assert written["text"] == "web-1 keeps leaving and coming back"
    found = verdict(group.episodes(), Facts(ms(1_500)))
    assert found.text.startswith(f"{written['text']}: ")
    assert found.kind == written["what"]


@pytest.mark.parametrize(
    ("how", "facts"),
    [
        (events.MEMBER_LEFT, {"reason": "consumer poll timeout has expired."}),
        (events.MEMBER_REMOVED, {"cause": events.JOIN_TIMEOUT}),
    ],
)
def test_a_member_that_did_not_poll_in_time_is_reported_as_a_slow_poller(how: str, facts: dict[str, Any]) -> None:
    (written,) = Watched().restarts("web-1", 3, how=how, **facts).written
    assert (written["what"], written["text"]) == (
        "slow_poller",
        "web-1 polled too slowly and was put out repeatedly",
    )


def test_two_members_in_turn_are_reported_as_flapping_and_three_are_not() -> None:
    watched = Watched()
    for number in range(6):
        watched.restarts("ab"[number % 2])
    (written,) = watched.written
    assert (written["what"], written["members"], written["times"]) == ("flapping", ["a", "b"], 5)
    assert written["text"] == "a and b take turns in coming and going"
    three = Watched()
    for number in range(12):
        three.restarts("abc"[number % 3])
    assert three.written == []


def test_rare_returns_and_returns_in_other_groups_are_not_reported() -> None:
    seldom = Watched().restarts("web-1", 5, every_ms=2 * events.LOOP_MS + MINUTE)
    assert seldom.written == []  # the member left, and was back for longer than a loop allows
    several = Watched()
    for number in range(6):
        several.restarts("web-1", group=f"g-{number % 3}")
    assert several.written == []


def test_an_unstable_static_member_is_recognized_by_its_instance_id() -> None:
    watched = Watched()
    for number in range(3):
        watched.restarts(f"client-{number}", instance="i-1", how=events.MEMBER_EXPIRED)
    assert [one["members"] for one in watched.written] == [["i-1"]]


def test_the_number_of_watched_members_is_bounded() -> None:
    watched = Watched().restarts("web-1", 2)
    for number in range(MAX_PLACES):
        watched.see(events.MEMBER_LEFT, f"other-{number}")
    assert len(watched.loops._places) == MAX_PLACES
    watched.restarts("web-1")
    assert watched.written == []


def test_the_event_of_an_unstable_member_follows_its_causes() -> None:
    harness = JournalHarness()
    for _ in range(3):
        for kind, more in ((events.MEMBER_LEFT, {}), (events.MEMBER_JOINED, {"protocol_type": "consumer"})):
            harness.report(Event(kind, "g", {"member": member("web-1"), "reason": None, **more}))
            harness.advance(1_000)
    value = harness.log.rows[-1][1]
    assert [row["kind"] for _, row in harness.log.rows[-2:]] == ["member_joined", GROUP_RESTLESS]
    assert (value["what"], value["times"], value["members"]) == ("crash_loop", 3, ["web-1"])
    assert Timeline(dates=False).feed(value)[0].endswith(" web-1 keeps leaving and coming back: 3 times")
    assert [one.facts["text"] for one in harness.restless] == ["web-1 keeps leaving and coming back"]
    with capture_logs() as lines:
        warn_unstable(harness.restless[0])
    assert lines == [
        {
            "event": "a group has unstable members",
            "log_level": "warning",
            "group": "g",
            "what": "web-1 keeps leaving and coming back",
        }
    ]
