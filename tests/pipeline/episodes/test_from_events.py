"""Episodes of a group from the server's events."""

from __future__ import annotations

from typing import Any

from muster.pipeline.episodes.from_events import episodes_of_events
from tests.pipeline.episodes.timeline import START_MS


def member(name: str, number: int) -> dict[str, Any]:
    return {"member": f"{name}-{number}", "instance": None, "client_id": name, "host": "/10.0.0.1"}


def event(at_s: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"v": 1, "kind": kind, "group": "g", "time": START_MS + round(at_s * 1000), **fields}


def completed(at_s: float, generation: int, members: list[dict[str, Any]], cause: str, **fields: Any) -> dict[str, Any]:
    moves = [{"topic": "t", "kept": 2, "moved": 1, "gained": 1, "lost": 0}]
    return event(at_s, "rebalance_completed", generation=generation, members=members, cause=cause, took_ms=2_000,
                 moves=moves, protocol="range", **fields)  # fmt: skip


def started(at_s: float, generation: int, cause: str, trigger: dict[str, Any]) -> dict[str, Any]:
    return event(at_s, "rebalance_started", generation=generation, cause=cause, trigger=trigger, members=1)


def test_a_loop_is_found_in_a_group_older_than_its_events() -> None:
    steady = member("b", 0)
    values, there = [completed(0, 5, [steady, member("a", 0)], "leader_rejoined", trigger=steady)], member("a", 0)
    for number in range(1, 5):
        at_s, generation = 100.0 * number, 4 + 2 * number
        back = member("a", number)
        values += [
            event(at_s, "member_expired", member=there),
            started(at_s, generation - 1, "session_expired", there),
            completed(at_s + 2, generation, [steady], "session_expired", trigger=there),
            event(at_s + 20, "member_joined", member=back),
            started(at_s + 20, generation, "member_joined", back),
            completed(at_s + 22, generation + 1, [steady, back], "member_joined", trigger=back),
        ]
        there = back
    found = episodes_of_events(values, START_MS + 500_000)
    assert [one.kind for one in found.episodes] == ["other", "crash_loop"]
    assert found.verdict is not None
    assert found.verdict.text.startswith("a crash-loops: 8 rebalances, 1 min 4 s unread in all since ")


def test_an_emptied_group_and_one_without_events_have_episodes() -> None:
    alone = member("a", 0)
    values = [
        event(0, "member_joined", member=alone),
        started(0, 0, "member_joined", alone),
        completed(3, 1, [alone], "member_joined", trigger=alone, before=[]),
        event(50, "member_left", member=alone),
        started(50, 1, "member_left", alone),
        event(50, "group_emptied", generation=2, took_ms=0),
        event(60, "group_deleted"),
    ]
    found = episodes_of_events(values, START_MS + 60_000)
    assert [one.kind for one in found.episodes] == ["first_formation", "whole_stop"]
    assert found.verdict is not None
    assert found.verdict.level == "fine"
    assert episodes_of_events([], START_MS) == ([], None)


def test_episodes_are_found_from_epochs_of_a_consumer_group() -> None:
    one, two = member("a", 0), member("b", 0)

    def bumped(at_s: float, epoch: int, cause: str, who: dict[str, Any], members: int) -> dict[str, Any]:
        state = "Empty" if epoch == 2 else "Stable"
        return event(at_s, "epoch_bumped", epoch=epoch, cause=cause, trigger=who, members=members, state=state)

    def reached(at_s: float, epoch: int, paused_ms: int) -> dict[str, Any]:
        return event(at_s, "epoch_reconciled", epoch=epoch, partitions=4, paused_partition_ms=paused_ms, members=1)

    values = [
        event(0, "member_joined", member=one),
        bumped(0, 2, "member_joined", one, 1),
        reached(0, 2, 0),
        event(100, "member_joined", member=two),
        bumped(100, 3, "member_joined", two, 2),
        reached(105, 3, 10_000),
        event(500, "member_expired", member=two),
        bumped(500, 4, "session_expired", two, 1),
        reached(503, 4, 6_000),
        event(900, "member_left", member=one),
        bumped(900, 5, "member_left", one, 0),
    ]
    found = episodes_of_events(values, START_MS + 2_000_000)
    assert [(one.kind, one.rebalances, one.cost_ms) for one in found.episodes] == [
        ("first_formation", 1, 0), ("scale_out", 1, 10_000), ("member_died", 1, 6_000), ("whole_stop", 1, 0),
    ]  # fmt: skip
    assert found.episodes[1].partitions == 4


def test_returning_static_members_are_a_static_restart() -> None:
    old, new = member("a", 0) | {"instance": "i"}, member("a", 1) | {"instance": "i"}
    values = [
        event(0, "member_joined", member=old),
        completed(3, 1, [old], "member_joined", trigger=old, before=[]),
        event(50, "member_replaced", member=new, replaced=old["member"]),
    ]
    restart = episodes_of_events(values, START_MS + 60_000).episodes[1]
    assert (restart.kind, restart.members, restart.static) == ("restart", ("i",), True)


def test_topics_that_are_not_ready_and_a_shutdown_are_in_the_verdict_of_a_streams_group() -> None:
    one = {**member("app", 0), "client_id": "app-StreamThread-1"}
    bumped = {"trigger": {**one, "reason": None}, "topics": []}
    values = [
        event(0, "member_joined", member=one),
        event(0, "epoch_bumped", epoch=2, cause="member_joined", members=1, state="Empty", **bumped),
        event(1, "topics_not_ready", topology_epoch=0, detail="Source topics t are missing."),
        event(9, "topics_not_ready", topology_epoch=0, detail="Source topics u are missing."),
        event(10, "epoch_reconciled", epoch=2, partitions=0),
    ]

    def text(*more: dict[str, Any]) -> str:
        found = episodes_of_events([*values, *more], START_MS + 300_000).verdict
        assert found is not None
        return found.text

    assert text().startswith("its topics are not ready since ")
    assert text().endswith(": Source topics u are missing")
    assert text(event(200, "topics_ready", topology_epoch=0, took_ms=199_000)).startswith(
        "its topics were not ready from"
    )
    empty = event(200, "epoch_bumped", epoch=3, cause="member_left", members=0, state="NotReady", **bumped)
    assert "its topics were not ready from" in text(empty)
    assert "app had an error and ended the whole application" in text(event(250, "application_shutdown", member=one))
