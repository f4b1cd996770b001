"""The commits of a partition of a topic stay together, wherever the batches are divided."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.tables import commit_rows
from muster.pipeline.tables.commit_rows import (
    COMMIT,
    END,
    MARK,
    OWNED,
    PLACED,
    ROWS,
    packed_rows,
    rows_by_topic,
    unpacked_rows,
)

Row = dict[str, Any]


def rows() -> list[Row]:
    """Rows of three partitions of a topic with two groups each: an end, the owner, its fields, and ten commits."""
    made: list[Row] = []
    for partition in range(3):
        place: Row = {"topic": "t", "partition": partition, "first_ms": 0, "step_ms": 5, "known_until_ms": 99}
        made.append({**place, "what": END, "committed_offset": 100 + partition, "time_ms": 7})
        for group in ("a", "b"):
            own = {**place, "group": group}
            made += (
                {**own, "what": OWNED, "log_offset": 0, "state": state, "member_id": f"{group}-{state}"}
                for state in (1, 2)
            )
            for number in range(12):
                one = {**own, "log_partition": 0, "log_offset": number}
                if number in (0, 6):
                    state = 1 + number // 6
                    made.append({**one, "what": MARK, "state": state, "generation": 10 * state, "members": state})
                else:
                    made.append(
                        {**one, "what": COMMIT, "committed_offset": number, "is_deleted": False, "time_ms": number}
                    )
    return made


@pytest.mark.parametrize("size", [1, 7, 500])
def test_commits_of_a_partition_stay_together(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_rows, "_AT_ONCE", 10)
    batches = pa.Table.from_pylist(rows(), ROWS).to_batches(max_chunksize=size)
    found = list(rows_by_topic(batches, are_placed=False))
    reported = []
    for some in found:
        # each partition is in only one of them, with all its commits
        assert {some.place.starts.size} <= {2, 4, 6}
        columns = (some.partition.values, some.group.array().to_pylist(), some.log_offset)
        who = zip(*columns, some.member_id.array().to_pylist(), some.generation.values, strict=True)
        reported += [
            (int(partition), group, int(offset), member, int(said)) for partition, group, offset, member, said in who
        ]
        assert some.ends.end_offset.tolist() == sorted({100 + int(one) for one in some.partition.values})
    assert reported == [
        (partition, group, offset, f"{group}-{1 + offset // 6}", 10 * (1 + offset // 6))
        for partition in range(3)
        for group in ("a", "b")
        for offset in (*range(1, 6), *range(7, 12))
    ]


def test_commits_with_a_known_state_are_not_changed() -> None:
    one = {"what": COMMIT, "topic": "t", "partition": 0, "group": "g", "log_partition": 0, "log_offset": 1, "state": 4,
           "generation": 9, "members": 2, "member_id": "m", "time_ms": 1, "committed_offset": 3}  # fmt: skip
    (some,) = rows_by_topic(pa.Table.from_pylist([one], ROWS).to_batches(), are_placed=True)
    assert (some.state.values[0], some.generation.values[0], some.members.values[0]) == (4, 9, 2)
    assert some.owner.array().to_pylist() == ["m"]
    assert (some.first_ms, some.step_ms, some.known_until_ms) == (None, None, None)


@pytest.mark.parametrize("size", [1, 2, 500])
def test_packed_commits_are_unpacked_unchanged(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"what": COMMIT, "topic": "t", "partition": 0, "group": "g", "log_partition": 1, "is_deleted": False}
    made = [
        {**place, "log_offset": 1, "time_ms": 5, "committed_offset": 2**63 - 1, "metadata": "one", "state": 4,
         "leader_epoch": 7, "producer_id": 2**40, "producer_epoch": 3, "member_id": "m", "client_id": "c"},
        {**place, "log_offset": 2, "time_ms": 6, "committed_offset": -(2**63), "metadata": "", "topic_id": "id",
         "stated_ms": 9, "generation": 2, "members": 0, "instance_id": "i"},
        {**place, "log_offset": 3, "time_ms": 7, "is_deleted": True},
    ]  # fmt: skip
    (some,) = rows_by_topic(pa.Table.from_pylist(made, ROWS).to_batches(), are_placed=True)
    monkeypatch.setattr(commit_rows, "_AT_ONCE", size)
    values = list(packed_rows(some))
    assert len(values) == -(-len(made) // size)
    batches = list(unpacked_rows(values))
    assert {batch.schema for batch in batches} == {PLACED}
    reported = [row for batch in batches for row in batch.to_pylist()]
    assert reported == [{name: row.get(name) for name in PLACED.names} for row in made]
