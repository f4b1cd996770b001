"""Heartbeats and descriptions of members with thousands of names are handled in steps, and their answers are
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.coordinator.api.groups import consumer_groups
from muster.coordinator.api.many_rows import AT_ONCE, ROWS_AT_ONCE, AnswerSize, ask_each
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.checks import MAX_NAMES
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.coordinator.api.harness import FakeTopics, Refusing, ask, make_group_node

READ, DESCRIBE = 3, 8
TOPIC, GROUP = 2, 3


class Counting(Refusing):
    """Records how many names each question has."""

    def __init__(self, *refused: tuple[int, int, str]) -> None:
        super().__init__(*refused)
        self.counts: list[int] = []

    def allowed(self, requester: Any, operation: int, resource_type: int, names: Any, **more: Any) -> set[str]:
        self.counts.append(len(names))
        return super().allowed(requester, operation, resource_type, names, **more)


def beat(names: list[str] | None = None, pattern: str | None = None, member: str = "m") -> Any:
    return ConsumerGroupHeartbeatRequest("g", member, 0, None, None, 60_000, names, pattern, None, [])


def node_of(*refused: tuple[int, int, str], topics: FakeTopics | None = None) -> Any:
    settings = GroupSettings(group_consumer_assignment_interval_ms=0)
    return make_group_node(topics or FakeTopics(t=1), authorizer=Counting(*refused), settings=settings)


@pytest.mark.parametrize("count", [3, 500, 501, 3_000])
def test_many_subscribed_names_are_authorized_in_steps(count: int) -> None:
    names = [f"t{number:05}" for number in range(count)]
    node = node_of()
    assert ask(node, beat([*reversed(names), *names[:7]])).one().error_code == 0
    assert sum(node.authorizer.counts) == count
    assert max(node.authorizer.counts) <= ROWS_AT_ONCE
    (row,) = ask(node, ConsumerGroupDescribeRequest(["g"])).one().groups
    assert list(row.members[0].subscribed_topic_names) == names
    node = node_of((DESCRIBE, TOPIC, names[-1]))
    assert ask(node, beat(names)).one().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node = node_of((READ, GROUP, "g"))
    assert ask(node, beat(names)).one().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert node.authorizer.counts == []


def test_too_many_subscribed_names_are_refused() -> None:
    names = [f"{number}" for number in range(MAX_NAMES + 1)]
    node = node_of((DESCRIBE, TOPIC, "7"))
    assert ask(node, beat(names * 5)).one().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.authorizer.counts == []


def test_a_pattern_is_checked_only_after_the_group_permission() -> None:
    assert ask(node_of(), beat(["t"], "t(.*")).one().error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert ask(node_of(), beat(["t"], "(t.*)")).one().error_code == 0
    for refused in ((READ, GROUP, "g"), (DESCRIBE, TOPIC, "t")):
        answer = ask(node_of(refused), beat(["t"], "t(.*")).one()
        assert answer.error_code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_a_large_group_is_described_in_steps() -> None:
    topics = FakeTopics(**{f"t{number:05}": 1 for number in range(1_300)})
    node = node_of(topics=topics)
    names = [*topics.image.by_name]
    for member in ("A", "B"):
        assert ask(node, beat(names, member=member)).one().error_code == 0
    node.authorizer.counts.clear()
    (row,) = ask(node, ConsumerGroupDescribeRequest(["g"])).one().groups
    assert (row.error_code, [one.member_id for one in row.members]) == (0, ["A", "B"])
    assert sum(len(one.target_assignment.topic_partitions) for one in row.members) == len(names)
    assert max(node.authorizer.counts) <= ROWS_AT_ONCE
    assert sum(node.authorizer.counts) < 4 * len(names)  # their common names were looked up once


@pytest.mark.parametrize("hidden", ["named", "given-up"])
def test_a_group_with_a_topic_without_permission_is_described_without_members(hidden: str) -> None:
    topics = FakeTopics(t=1, named=1, given_up=1)
    node = node_of(topics=topics)
    epoch = ask(node, beat(["given-up"])).one().member_epoch
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topics.image.by_name["given-up"].topic_id, [0])]
    request = ConsumerGroupHeartbeatRequest("g", "m", epoch, None, None, 60_000, ["t", "named"], None, None, owned)
    assert ask(node, request).one().error_code == 0
    (row,) = ask(node, ConsumerGroupDescribeRequest(["g"])).one().groups
    assert [one.topic_name for one in row.members[0].assignment.topic_partitions] == ["given-up"]
    node.authorizer = Counting((DESCRIBE, TOPIC, hidden))
    (row,) = ask(node, ConsumerGroupDescribeRequest(["g"])).one().groups
    assert (row.error_code, row.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


def test_groups_that_do_not_fit_into_an_answer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of()
    names = [f"t{number:05}" for number in range(100)]
    ask(node, beat(names)).one()
    monkeypatch.setattr(consumer_groups, "AnswerSize", lambda *of: AnswerSize(*of, 1_000))
    first, second = ask(node, ConsumerGroupDescribeRequest(["g", "h"])).one().groups
    assert (first.error_code, second.error_code) == (0, ErrorCode.GROUP_ID_NOT_FOUND)
    monkeypatch.setattr(consumer_groups, "MAX_GROUP_BYTES", 500)
    (row,) = ask(node, ConsumerGroupDescribeRequest(["g"])).one().groups
    assert (row.error_code, list(row.members)) == (ErrorCode.INVALID_REQUEST, [])


def test_a_step_takes_one_row_to_ask_for() -> None:
    """The next row may cost a copy of a shard's ids. So many rows in one step would hold the loop."""
    taken: list[int] = []
    collected: list[tuple[int, Any]] = []

    def rows() -> Iterator[int]:
        for row in range(2 * AT_ONCE + 1):
            taken.append(row)
            yield row

    job = ask_each(rows(), lambda row, token: token(row), lambda row, answer: collected.append((row, answer)))
    before = 0
    value: Any = None
    for _ in range(4 * AT_ONCE + 10):
        try:
            asked = job.send(value)
        except StopIteration:
            break
        assert len(taken) - before <= 1
        before = len(taken)
        value = None if asked is None else asked.value
    assert collected == [(row, row) for row in range(2 * AT_ONCE + 1)]
