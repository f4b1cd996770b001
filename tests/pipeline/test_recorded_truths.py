"""What a recording knows is cut to what its log can show."""

from __future__ import annotations

from typing import Any

from tests.pipeline.recording.begins import since
from tests.pipeline.recording.truths import after_nodes
from tests.pipeline.scores_claims import JUDGES, Known, Said
from tests.pipeline.scores_seen import UNSEEN, seen


def line(kind: str, from_ms: int, until_ms: int, **other: Any) -> dict[str, Any]:
    return {"kind": kind, "group": "g", "members": [], **other, "from": from_ms, "until": until_ms}


def rebalance(generation: int, acted: int) -> dict[str, Any]:
    return {"kind": "rebalance", "group": "g", "generation": generation, "acted": acted, "settled": acted + 5}


def test_a_log_that_begins_in_mid_life_knows_nothing_of_what_was_before() -> None:
    begins = {"kind": "begins", "how": "compacted", "at": 100}
    group = {"kind": "group", "group": "g"}
    goes_on = line("incident", 20, 60, what="too_slow")
    formed, loop = line("episode", 10, 105, what="formation"), line("episode", 50, 150, what="crash_loop")
    later = line("episode", 110, 120, what="deaths")
    some = [group, formed, loop, line("incident", 50, 90, what="skip"), goes_on, line("stall", 80, 180), later,
            rebalance(1, 10), rebalance(2, 99), rebalance(3, 100)]  # fmt: skip
    assert list(since([*some, begins])) == [
        group, {**formed, "cut": True}, {**loop, "from": 100}, {**goes_on, "from": 100, "until": 100},
        line("stall", 100, 180), later, rebalance(3, 100), begins,
        {"kind": "unsure", "group": "g", "first": 1, "last": 2},
    ]  # fmt: skip
    assert list(since(some)) == some


def test_after_a_cut_nobody_knows_who_was_a_member_before_the_first_rebalance() -> None:
    begins = {"kind": "begins", "how": "cut", "at": 100}
    stop, deaths = line("episode", 110, 120, what="whole_stop"), line("episode", 130, 140, what="deaths")
    found = list(since([begins, stop, deaths, rebalance(2, 112), rebalance(3, 135)]))
    assert found == [
        begins, {**stop, "cut": True}, deaths, rebalance(3, 135),
        {"kind": "unsure", "group": "g", "first": 1, "last": 2},
    ]  # fmt: skip


def test_a_member_that_is_too_slow_is_too_slow_again_when_it_is_back() -> None:
    began = after_nodes([{"kind": "node", "members": ["g-2", "h-2"], "from": 30, "until": 50}])
    assert began(line("incident", 10, 90, members=["g-2"]))["from"] == 50
    assert began(line("incident", 60, 90, members=["g-2"]))["from"] == 60
    assert began(line("incident", 10, 90, members=["g-1", "g-2"]))["from"] == 10


COMMITTED = [{"group": "g", "topic": "t", "partition": 0, "time_ms": 0, "committed_offset": 7}]
"""Without any commit of its partition, nobody sees a stall."""


def test_a_partition_stands_still_until_its_group_is_stopped_for_good() -> None:
    stuck = line("stall", 0, 90_000, topic="t", partitions=[0], how="stick")
    stop = line("episode", 90_000, 95_000, what="whole_stop")
    truth = [stuck, stop, {"kind": "end", "group": "g", "at": 300_000}]
    assert [(one["until"], one["open"]) for one in seen(truth, COMMITTED, ()) if one["kind"] == "stall"] == [
        (95_000, False)
    ]
    again = {"kind": "act", "group": "g", "client_id": "g-1", "at": 99_000, "what": "starts", "line": ""}
    some = seen([*truth, again], COMMITTED, ())
    assert [(one["until"], one["open"]) for one in some if one["kind"] == "stall"] == [(300_000, True)]


def test_a_stall_is_hardly_shorter_by_a_coordinator_that_moves() -> None:
    moved = {"kind": "silence", "how": "rolling-brokers", "from": 20_000, "until": 25_000, "groups": ["g"]}
    stuck = line("stall", 0, 60_000, topic="t", partitions=[0], how="sleep")
    assert [one["kind"] for one in seen([moved, {**stuck, "until": 111_000}], COMMITTED, ())] == ["silence", "stall"]
    assert [one["kind"] for one in seen([moved, {**stuck, "until": 109_000}], COMMITTED, ())] == ["silence"]


def test_a_skip_before_all_commits_of_the_log_is_unseen() -> None:
    skip = line("incident", 50, 60, what="skip", topic="t", partitions=[0])
    commit = {"group": "g", "topic": "t", "partition": 0, "committed_offset": 7}
    assert [one["what"] for one in seen([skip], [{**commit, "time_ms": 49}], ())] == ["skip"]
    assert [one["what"] for one in seen([skip], [{**commit, "time_ms": 70}], ())] == [UNSEEN]


def test_only_the_groups_of_a_coordinator_that_is_away_are_silent() -> None:
    away = {"kind": "silence", "how": "away-broker", "from": 50_000, "until": 170_000, "groups": ["g"]}
    stuck = line("stall", 60_000, 160_000, topic="t", partitions=[0], how="sleep")
    assert [one["kind"] for one in seen([away, stuck], COMMITTED, ())] == ["silence"]
    lost, silent = (Said(rule, "h", "", (), 60_000, 70_000) for rule in ("coordinator_or_network_trouble", "silence"))
    known = Known([away])
    assert JUDGES[lost.rule](lost, known) is None  # the broker may have led a partition of its topic
    assert JUDGES[silent.rule](silent, known) is not None
    elsewhere = seen([{**away, "groups": ["h"]}, stuck], COMMITTED, ())
    assert [one["kind"] for one in elsewhere] == ["silence", "stall"]
