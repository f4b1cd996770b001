"""What happens now, and why a group rebalanced, in sentences."""

from __future__ import annotations

from typing import Any

from muster.coordinator.http.console.now import Does, sentences
from muster.coordinator.http.console.shown_events import KEPT_TIMELINES, Sentences, shown
from muster.coordinator.http.console.sources import StoredEvent
from muster.coordinator.http.console.why import why
from muster.coordinator.http.described_groups import Description, Member
from muster.coordinator.http.live_groups import LiveGroup, Sample

WHO = {"member": "a", "instance": None, "client_id": "c", "host": "/10.0.0.1", "session_timeout_ms": 45_000}


def described(state: str, *members: Member, kind: str = "classic", epoch: int | None = None) -> Description:
    return Description("g", kind, state, "consumer", "range", epoch, epoch, [*members])


def member(name: str, **owned: list[int]) -> Member:
    return Member(name, None, name, "/10.0.0.1", dict(owned))


def live(*samples: tuple[int, int, int, int]) -> LiveGroup:
    one = LiveGroup("g")
    one.samples.extend(Sample(*row) for row in samples)
    one.partitions = 1
    return one


def test_a_rebalance_names_those_that_the_group_waits_for() -> None:
    found = described("PreparingRebalance", member("a"), member("b"))
    doing = {"a": Does("has joined, and waits for the others", True), "b": Does("is to join again", False)}
    assert sentences(found, live((0, 5, 5, 0)), doing, {})[:2] == [
        "A rebalance is in progress: members join again, 2 members until now.",
        "The group waits for b: it is to join again.",
    ]


def test_a_silent_member_is_named_before_its_session_ends() -> None:
    found = described("Stable", member("a", orders=[0]), member("b", orders=[1]))
    doing = {"a": Does("", True, 3_000, 45_000), "b": Does("", True, 30_000, 45_000)}
    assert sentences(found, live((0, 5, 5, 0)), doing, {})[1] == "b is silent for 30 s: it is removed in 15 s."


def test_partitions_without_an_owner_and_members_without_partitions_are_named() -> None:
    found = described("Stable", member("a", orders=[0, 1]), member("b"))
    assert sentences(found, live((0, 5, 5, 0)), {}, {"orders": 3}) == [
        "The group is Stable: 2 members have 2 partitions.",
        "1 partition of orders has no owner.",
        "1 member has no partitions: b.",
        "All records are read: the lag is 0.",
    ]


def test_members_of_a_streams_group_have_tasks_and_restore_them() -> None:
    lacks = [{"task": "0_1", "role": "active", "behind": 9}]
    one = Member("a", None, "a", "/10.0.0.1", {"0": [0, 1]}, standby={"1": [0]}, lacks=lacks)
    assert sentences(described("Stable", one, kind="streams", epoch=4), live((0, 5, 5, 0)), {}, {})[:3] == [
        "The group is Stable: 1 member has 2 active tasks.",
        "a keeps standby copies of tasks 1:0.",
        "a restores the active task 0_1 (9 records behind), as it last reported.",
    ]


def test_ids_of_members_stay_as_they_are_at_the_start_of_a_sentence() -> None:
    one = Member("a", None, "a", "/10.0.0.1", {}, "consumer", 3, {"orders": [0]})
    now = Description("g", "consumer", "Reconciling", "consumer", "uniform", 4, 3, [one])
    _, target, gets, *_ = sentences(now, live((0, 5, 5, 0)), {}, {})
    assert target.startswith("The target assignment of epoch 4 is not computed yet")
    assert gets == "a gets orders:0 with its next heartbeat."


def test_the_lag_comes_with_its_pace() -> None:
    found = described("Stable", member("a", orders=[0]))
    assert sentences(found, live((0, 10, 20, 10), (10_000, 110, 70, 5)), {}, {"orders": 1})[1] == (
        "5 records are not read yet: 10.0 records a second are read, 5.0 are written, so the group catches up in 1 s."
    )
    stuck = live(*((5_000 * step, 10, 20 + step, 10 + step) for step in range(5)))
    assert sentences(found, stuck, {}, {"orders": 1})[1].endswith("nothing was committed lately.")
    assert sentences(described("Empty"), live(), {}, {})[0] == "The group has no members: nobody reads."


def completed(time_ms: int, took_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "v": 1, "kind": "rebalance_completed", "group": "g", "time": time_ms, "generation": 3, "cause": "member_joined",
        "trigger": {**WHO, "reason": None}, "took_ms": took_ms, "join_phase_ms": took_ms, "sync_phase_ms": 5,
        "protocol": "range", "moves": [], "members": [{**WHO, "joined": time_ms - 10, "protocols": ["bytes"]}], **more,
    }  # fmt: skip


def test_a_question_means_the_rebalance_of_its_minute() -> None:
    events = [
        StoredEvent("1:1", completed(100_000, 3_000)),
        StoredEvent("1:2", {"v": 1, "kind": "member_joined", "group": "g", "time": 300_000, "member": WHO}),
        StoredEvent("1:3", completed(304_000, 4_000)),
        StoredEvent("1:4", completed(900_000, 1)),
    ]
    found = why(events, 300_000)
    assert (found["id"], found["from"], found["until"]) == ("1:3", 300_000, 304_000)
    assert found["sentences"][1:] == [
        "Members needed 4 s to join again; the last to join was member a (client c, 10.0.0.1).",
        "Meanwhile 1 member joined.",
    ]
    assert found["sentences"][0].startswith("Rebalance 2 → 3, 4 s: member a (client c, 10.0.0.1) joined")
    assert why(events, 10_000_000)["id"] is None
    assert why(events[1:2], 300_000)["id"] is None


def test_pages_get_no_bytes_of_clients() -> None:
    (row,) = shown([StoredEvent("1:1", completed(100_000, 3_000))])
    assert (row["id"], row["member_count"]) == ("1:1", 1)
    assert "protocols" not in row["members"][0]


def test_an_unknown_event_has_its_kind_as_a_sentence_and_few_groups_are_remembered() -> None:
    kept = Sentences()
    for number in range(KEPT_TIMELINES + 5):
        value = {"v": 2, "kind": "of_tomorrow", "group": f"g{number}", "time": 1}
        assert kept.of(StoredEvent("1:1", value))["text"] == "of tomorrow"
    broken = {"v": 2, "kind": "rebalance_completed", "group": "g", "time": 1, "members": None}
    assert kept.of(StoredEvent("1:1", broken))["text"] == "rebalance completed"
