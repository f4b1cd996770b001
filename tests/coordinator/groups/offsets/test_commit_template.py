"""Cached commits give the same results as commits that are decoded each time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.groups.classic.group import EMPTY
from muster.coordinator.groups.common.state import pack
from muster.coordinator.groups.offsets import commit as commit_module
from muster.coordinator.groups.offsets.commit import CommitTemplate, commit_prepared, prepare_commit
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.groups.harness import GroupHarness

int64, int32 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
topics = st.sampled_from([("t", b"T" * 16), ("u", ZERO_UUID), ("ü" * 200, b"U" * 16)])
metadata = st.sampled_from([None, "", "m", "ü", "😀", "x" * 126, "x" * 127, "x" * 300])
rows = st.lists(st.tuples(topics, st.integers(0, 3), int64, int32, metadata), min_size=1, max_size=5)


def request(content: list[Any], member: str = "", generation: int = -1, **more: Any) -> OffsetCommitRequest:
    listed = [
        OffsetCommitRequestTopic(name, topic_id, [OffsetCommitRequestPartition(partition, offset, epoch, text)])
        for (name, topic_id), partition, offset, epoch, text in content
    ]
    return OffsetCommitRequest(more.pop("group", "g"), generation, member, topics=listed, **more)


def ready(harness: GroupHarness, asked: OffsetCommitRequest) -> CommitTemplate:
    made = prepare_commit(harness.core.state, asked)
    assert made is not None
    return made


def commit(harness: GroupHarness, made: CommitTemplate, content: list[Any]) -> list[bytes] | None:
    return commit_prepared(
        harness.core.state, made, [row[2] for row in content], [row[3] for row in content], harness.now
    )


@given(rows, st.data())
def test_a_cached_commit_gives_the_same_records_state_and_answer(content: list[Any], data: st.DataObject) -> None:
    usual, quick = GroupHarness(), GroupHarness()
    for harness in (usual, quick):
        harness.commit(topic="t")
        harness.advance(5)
    made = ready(quick, request(content))
    for _ in range(2):
        content = [(*row[:2], data.draw(int64), data.draw(int32), row[4]) for row in content]
        answer = usual.send(request(content))
        written = [pack(record) for record in usual.records[-len(content) :]]
        assert commit(quick, made, content) == written
        assert made.response == answer
        assert made.size == sum(map(len, written))
        assert dict(quick.core.state.offsets.groups()) == dict(usual.core.state.offsets.groups())
        usual.advance(3)
        quick.advance(3)


def test_a_cached_commit_extends_the_session_of_its_member() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    content = [(("t", b"T" * 16), 0, 1, 1, "")]
    made = ready(harness, request(content, a, 2))
    harness.advance(9_000)
    harness.beat(b)
    assert commit(harness, made, content) is not None
    harness.advance(9_000)
    assert a in harness.group().members
    assert harness.group().members[a].due_ms == harness.now.mono_ms + 1_000


def test_a_cached_commit_is_not_used_after_the_group_has_changed() -> None:
    harness = GroupHarness()
    content = [(("t", b"T" * 16), 0, 1, 1, "")]
    made = ready(harness, request(content))
    assert commit(harness, made, content) is None, "its first commit makes the group"
    assert harness.core.state.groups == {}
    harness.commit()
    assert commit(harness, made, content) is not None
    a, _ = harness.stable()
    before = dict(harness.core.state.offsets.groups())
    for stranger in (made, ready(harness, request(content, a, 1)), ready(harness, request(content, "ghost", 2))):
        assert commit(harness, stranger, content) is None
    assert dict(harness.core.state.offsets.groups()) == before


def test_a_cached_commit_works_for_a_group_without_members() -> None:
    harness = GroupHarness()
    harness.commit()
    content = [(("t", b"T" * 16), 0, 1, 1, "")]
    assert commit(harness, ready(harness, request(content)), content) is not None
    assert harness.group().state == EMPTY
    assert harness.only_retention_is_due()


def test_commits_with_retention_time_or_long_metadata_are_not_cached() -> None:
    harness = GroupHarness(offset_metadata_max_bytes=4)
    content = [(("t", b"T" * 16), 0, 1, 1, "")]
    assert prepare_commit(harness.core.state, request(content, retention_time_ms=5)) is None
    assert prepare_commit(harness.core.state, request([(("t", b"T" * 16), 0, 1, 1, "12345")])) is None
    assert prepare_commit(harness.core.state, request([(("t", b"T" * 16), 0, 1, 1, "1234")])) is not None


def test_commit_layouts_are_shared_and_their_number_is_bounded() -> None:
    harness = GroupHarness()
    one, other = (
        ready(harness, request([(("t", b"T" * 16), 0, 1, 1, "")], group=group)).rows[0][2] for group in ("a", "b")
    )
    assert one is other
    for size in range(5):
        ready(harness, request([(("t", b"T" * 16), 0, 1, 1, "x" * size)]))
    assert 0 < commit_module._pack.cache_info().currsize <= 1_000


def test_a_cached_commit_uses_the_strings_of_the_core() -> None:
    harness = GroupHarness()
    member, _ = harness.stable()
    first, other = (
        ready(
            harness,
            request([(("".join("topic"), b"T" * 16), 0, 1, 1, "")], "".join(list(member)), 2, group="".join("g")),
        )
        for _ in range(2)
    )
    assert commit(harness, first, [(None, 0, 7, 1)]) is not None
    group = harness.group()
    assert first.group_id is other.group_id is next(iter(harness.core.state.groups)) is group.group_id
    ((known, topics),) = harness.core.state.offsets.groups()
    assert known is group.group_id
    assert first.rows[0][0] is other.rows[0][0] is next(iter(topics))
    assert first.rows[0][5] is other.rows[0][5], "what follows the timestamp is the topic's id"
