"""The fold of a KIP-848 group's records: hand-made histories with known answers, random ones compared with the model
that wrote them, and records of Kafka 4.3.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipeline.decode import decode
from muster.pipeline.infer.epoch_image import CLASSIC, EPOCH, PATTERN, Hold, Record, State, Take
from muster.pipeline.infer.epochs import fold, operations
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.tables.epoch_states import record_of
from tests.pipeline.infer.epoch_model import Server

LOG = Path(__file__).parents[1] / "tables" / "data" / "kafka-4.3-epochs.tar.xz"


def states(server: Server) -> list[State]:
    return [one for one in fold(server.records, server.names) if isinstance(one, State)]


def holds(records: Iterable[Record], names: dict[str, str]) -> list[tuple[str, int, str, int, int | None]]:
    found = [one for one in fold(records, names) if isinstance(one, Hold)]
    rows = [(one.topic, one.partition, one.member.member_id, one.start_ms, one.end_ms) for one in found]
    return sorted(rows, key=str)


def shares(state: State) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return {one.member_id: [(share.topic, share.partitions) for share in one.assigned] for one in state.members}


def test_a_join_makes_another_member_revoke_partitions() -> None:
    server = Server({"t": 4})
    server.join(0, "a1")
    server.join(1_000, "b1")
    server.beat(2_000, "a1")  # its answer revokes 1 and 3
    server.beat(2_300, "b1")  # still waits
    server.beat(2_500, "a1")  # it has given them up
    server.beat(4_000, "b1")  # it has them
    first, second = states(server)
    assert (first.epoch, first.began_ms, first.at_ms) == (2, 0, 0)
    assert shares(first) == {"a1": [("t", (0, 1, 2, 3))]}
    assert first.change is not None
    assert (first.change.before, first.change.members_before, first.change.joined) == (1, 0, ("a1",))
    assert (second.epoch, second.began_ms, second.at_ms) == (3, 1_000, 4_000)
    assert shares(second) == {"a1": [("t", (0, 2))], "b1": [("t", (1, 3))]}
    assert second.change is not None
    assert (second.change.before, second.change.members_before, second.change.joined) == (2, 1, ("b1",))
    assert [(one.partition, one.at_ms, one.paused_ms) for one in second.takes] == [(1, 4_000, 2_000), (3, 4_000, 2_000)]
    # while a1 gives 1 and 3 up, its commits are its own
    taken = second.takes[0].offset
    assert [one[1:] for one in second.owners if one[1] == 1] == [(1, 0, "a1"), (1, taken, "b1")]
    assert holds(server.records, server.names) == server.holds()


def test_an_overtaken_epoch_ends_where_the_next_begins() -> None:
    server = Server({"t": 2})
    server.join(0, "a1")
    server.join(1_000, "b1")
    server.leave(1_500, "b1")
    server.settle(2_000)
    found = states(server)
    assert [(one.epoch, one.began_ms, one.at_ms, len(one.members)) for one in found] == [
        (2, 0, 0, 1), (3, 1_000, 1_500, 2), (4, 1_500, 2_001, 1),
    ]  # fmt: skip
    change = found[2].change
    assert change is not None
    assert [(one.member.member_id, one.at_ms) for one in change.gone] == [("b1", 1_500)]
    assert (change.members_before, found[1].takes, found[2].takes) == (2, (), ())


def test_records_of_one_moment_are_separated_into_epochs() -> None:
    server = Server({"t": 2})
    server.join(0, "a1")
    server.join(0, "b1")
    server.leave(0, "a1")
    assert [len(one) for one in operations(server.records)] == [5, 6, 6]
    assert [(one.epoch, len(one.members)) for one in states(server)] == [(2, 1), (3, 2), (4, 1)]


def test_a_static_member_that_returns_is_recognized() -> None:
    server = Server({"t": 2})
    server.join(0, "a1", instance="i")
    server.stop(1_000, "a1")
    server.back(3_000, "a1", "a2")
    first, again = states(server)
    assert (again.epoch, again.began_ms, again.change) == (first.epoch, 3_000, None)
    assert shares(again) == {"a2": [("t", (0, 1))]}
    assert {(one[1], one[3]) for one in again.owners} == {(0, "a2"), (1, "a2")}
    # it stayed the owner while it was away, and the next epoch misses no member
    assert holds(server.records, server.names) == server.holds()
    server.join(4_000, "b1")
    change = states(server)[-1].change
    assert change is not None
    assert (change.joined, change.gone, change.members_before) == (("b1",), (), 1)


def test_a_static_member_that_does_not_return_was_absent() -> None:
    server = Server({"t": 2})
    server.join(0, "a1", instance="i")
    server.join(10, "b1")
    server.settle(100)
    server.stop(1_000, "a1")
    server.leave(46_000, "a1")
    change = states(server)[-1].change
    assert change is not None
    assert [(one.away_ms, one.at_ms) for one in change.gone] == [(1_000, 46_000)]


def test_an_absent_static_member_is_not_waited_for() -> None:
    server = Server({"t": 2})
    server.join(0, "a1", instance="i")
    server.join(10, "b1")
    server.settle(100)
    server.stop(1_000, "a1")
    server.grow(2_000, "t", 4)
    server.beat(2_500, "b1")
    assert (states(server)[-1].epoch, states(server)[-1].at_ms) == (4, 2_500)


def test_changed_subscriptions_and_topics_make_epochs() -> None:
    server = Server({"t": 2, "u": 1})
    server.join(0, "a1")
    server.subscribe(1_000, "a1", "t", "u")
    server.beat(1_100, "a1")
    server.grow(2_000, "u", 2)
    server.beat(2_100, "a1")
    _, second, third = states(server)
    assert second.change is not None
    assert third.change is not None
    assert (second.change.resubscribed, third.change.resubscribed) == (("a1",), ())
    assert third.change.topics_changed
    assert third.takes == (Take("u", 1, "a1", server.records[-1].offset, 2_100, None),)


def test_partitions_that_nobody_subscribes_to_do_not_pause() -> None:
    server = Server({"t": 1, "u": 1})
    server.join(0, "a1", "t", "u")
    server.subscribe(1_000, "a1", "t")
    at_ms = server.settle(1_100)
    server.subscribe(at_ms + 60_000, "a1", "t", "u")
    server.settle(at_ms + 60_100)
    assert [(one.topic, one.paused_ms) for one in states(server)[-1].takes] == [("u", None)]


def test_an_empty_group_has_no_missing_members_and_may_be_deleted() -> None:
    server = Server({"t": 1})
    server.join(0, "a1")
    server.leave(1_000, "a1")
    server.join(9_000, "b1")
    server.leave(10_000, "b1")
    server.delete(11_000)
    server.join(12_000, "c1")
    found = states(server)
    assert [one.epoch for one in found] == [2, 3, 4, 5, None, 2]
    assert [one.paused_ms for one in found[2].takes] == [None]
    assert found[1].at_ms == 1_000
    assert found[5].change is not None
    assert (found[5].change.before, found[5].change.members_before) == (1, 0)


def test_a_classic_group_continues_as_a_consumer_group() -> None:
    server = Server({"t": 2}, first=8)
    server.upgrade(0, "a1", "b1")
    server.join(0, "c1")
    first, second = states(server)
    assert (first.epoch, first.change and first.change.is_conversion) == (7, True)
    assert second.change is not None
    assert (second.epoch, second.change.is_conversion, second.change.joined) == (8, False, ("c1",))
    assert first.members[0].session_timeout_ms == 6_000


def test_compacted_epochs_are_unknown() -> None:
    server = Server({"t": 2})
    for number in range(4):
        server.join(number * 10_000, f"a{number}")
        server.settle(number * 10_000 + 100)
    whole, left = states(server), list(fold(compacted(server.records), server.names))
    first = next(one for one in left if isinstance(one, State))
    assert first.change is not None
    assert (first.change.before, first.change.joined) == (None, ())
    assert (first.epoch, shares(first)) == (whole[-1].epoch, shares(whole[-1]))


def test_topic_ids_become_names_where_known() -> None:
    server = Server({"t": 2, "u": 2})
    server.join(0, "a1", "t")
    server.join(10, "b1", "t", "u")
    server.settle(100)
    found = [one for one in fold(server.records, {}) if isinstance(one, State)][-1]
    # a caller that wants one topic passes only its name
    assert {share.topic for one in found.members for share in one.assigned} == {"t", "id-u"}


def test_the_topics_of_a_pattern_are_known() -> None:
    server = Server({"t": 2})
    server.join(0, "a1", "t", subscribedTopicNames=[], subscribedTopicRegex="t.*")
    topics = {"topics": ["t", "t2"], "version": 1, "timestamp": 0}
    records = [
        *server.records,
        Record(100, 5_000, PATTERN, "t.*", topics),
        Record(101, 5_000, EPOCH, "", {"epoch": 3, "metadataHash": 5}),
    ]
    last = [one for one in fold(records, server.names) if isinstance(one, State)][-1]
    assert last.members[0].topics == ("t", "t2")
    assert last.change is not None
    assert (last.change.topics_changed, last.change.resubscribed) == (True, ())


# ---- random histories

NAMES = "abcd"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "beat", "beat", "beat", "settle", "subscribe", "grow", "restart"]),
        st.integers(0, 3),
        st.integers(0, 1_000),
    ),
    max_size=40,
)


def played(steps: list[tuple[str, int, int]]) -> Server:
    server, at_ms, number = Server({"t": 3, "u": 2}), 0, 0
    for what, which, wait_ms in steps:
        at_ms += wait_ms
        there = list(server.members)
        one = there[which % len(there)] if there else None
        number += 1
        if what == "join":
            instance = f"i{number}" if which == 0 else None
            server.join(at_ms, f"{NAMES[which]}{number}", *(("t", "u")[: 1 + which % 2]), instance=instance)
        elif one is None:
            continue
        elif what == "leave":
            server.leave(at_ms, one)
        elif what == "beat":
            server.beat(at_ms, one)
        elif what == "settle":
            at_ms = server.settle(at_ms)
        elif what == "subscribe":
            server.subscribe(at_ms, one, *(("u",) if "t" in server.members[one]["topics"] else ("t", "u")))
        elif what == "grow":
            server.grow(at_ms, "t", server.topics["t"] + 1)
        elif server.members[one]["instance"] is not None:
            server.stop(at_ms, one)
            at_ms += 1
            server.back(at_ms, one, f"{one[0]}{number}")
    return server


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_the_owner_of_each_partition_is_known_at_each_millisecond(steps: list[tuple[str, int, int]]) -> None:
    server = played(steps)
    assert holds(server.records, server.names) == server.holds()


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_each_epoch_is_reported_once(steps: list[tuple[str, int, int]]) -> None:
    server = played(steps)
    found = [one for one in states(server) if one.change is not None]
    assert [one.epoch for one in found] == list(range(2, server.epoch + 1))
    for before, after in zip([None, *found], found, strict=False):
        assert after.change is not None
        assert before is None or before.at_ms <= after.at_ms
        assert after.began_ms <= after.at_ms
        # everything is compared: the members, the joins and the departures
        change = after.change
        assert change.members_before + len(change.joined) - len(change.gone) == len(after.members)
    if found and steps[-1][0] == "settle":
        have = {name: sorted(one["has"]) for name, one in server.members.items()}
        summarized = {
            one.member_id: sorted((share.topic, number) for share in one.assigned for number in share.partitions)
            for one in states(server)[-1].members
        }
        assert summarized == have


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_a_compacted_log_gives_the_same_final_state(steps: list[tuple[str, int, int]]) -> None:
    server = played(steps)
    whole, left = states(server), list(fold(compacted(server.records), server.names))
    last = [one for one in left if isinstance(one, State)]
    assert bool(last) == bool(whole)
    if last:
        assert (last[-1].epoch, shares(last[-1])) == (whole[-1].epoch, shares(whole[-1]))


def compacted(records: list[Record]) -> list[Record]:
    """The last record of each key."""
    last = {(one.key_type, one.key): one for one in records}
    return sorted(last.values())


# ---- a real Kafka


def logged(directory: Path) -> dict[str, list[Record]]:
    with tarfile.open(LOG) as files:
        files.extractall(directory, filter="data")
    rows: list[dict[str, Any]] = [
        row for raw in read_segments(str(directory)) for batch in decode(raw) for row in batch.to_pylist()
    ]
    wanted = [row for row in rows if row["kind"] == "consumer" or (row["key_type"] == CLASSIC and row["is_tombstone"])]
    wanted.sort(key=lambda row: (row["group"], row["log_offset"]))
    return {group: [record_of(row) for row in some] for group, some in groupby(wanted, lambda row: row["group"])}


def test_epochs_of_a_real_kafka_log_are_found(tmp_path: Path) -> None:
    """A script drove these groups: `g` (joins, a subscription, a topic that grows, a member that leaves, one that is
    killed), `st` (static members), `re` (patterns), `sl` (a member that gives its partitions up slowly), `rt` (a member
    that does not give them up in time), `up` (a classic group that is upgraded while it works), `mi` (a group that
    becomes classic again).
    """
    groups = logged(tmp_path)
    found = {name: [one for one in fold(records, {}) if isinstance(one, State)] for name, records in groups.items()}

    def summarized(name: str) -> list[tuple[int | None, int, int, int, bool]]:
        changes = [(one, one.change) for one in found[name] if one.change is not None]
        return [
            (one.epoch, len(change.joined), len(change.gone), len(change.resubscribed), change.topics_changed)
            for one, change in changes
        ]

    assert summarized("g") == [
        (2, 1, 0, 0, True), (3, 1, 0, 0, False), (4, 0, 0, 1, True), (5, 1, 0, 0, False), (6, 0, 0, 0, True),
        (7, 0, 1, 0, False), (8, 0, 1, 0, True), (9, 0, 1, 0, True),
    ]  # fmt: skip
    assert [one.at_ms - one.began_ms for one in found["g"]] == [0, 2_000, 580, 2_020, 1_630, 1_323, 434, 0]
    assert summarized("re") == [(2, 2, 0, 0, True), (3, 0, 0, 0, True)]
    assert [(one.epoch, one.change is None) for one in found["st"]] == [
        (2, False), (3, False), (3, True), (4, False), (5, False),
    ]  # fmt: skip
    last = found["st"][-1].change
    assert last is not None
    assert [one.at_ms - one.away_ms for one in last.gone if one.away_ms is not None] == [9_965]
    slow = found["sl"][2]
    assert sorted((one.partition, one.paused_ms) for one in slow.takes) == [
        (2, 7_728), (3, 7_553), (4, 7_553), (5, 7_713),
    ]  # fmt: skip
    late = found["rt"][-1].change
    assert late is not None
    assert [one.at_ms - one.owes_ms for one in late.gone if one.owes_ms is not None] == [9_001]
    assert [(one.epoch, one.change is not None and one.change.is_conversion) for one in found["up"][:2]] == [
        (2, True), (3, False),
    ]  # fmt: skip
    assert [one.epoch for one in found["mi"]] == [2, 3, None]
