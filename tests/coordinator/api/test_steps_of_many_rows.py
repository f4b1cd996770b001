"""Requests of many refused rows: no step does more work for more rows. The work is counted in instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.api.cluster.find_coordinator import _finding
from muster.coordinator.api.security.acls import handle_create_acls, handle_delete_acls
from muster.coordinator.api.topics.create_topics import handle_create_partitions, handle_create_topics
from muster.coordinator.api.topics.delete_topics import handle_delete_topics
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import OffloadedWork, PendingResult
from muster.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from muster.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.coordinator.api.data_plane import data_node
from tests.coordinator.api.harness import Refusing, make_context, make_group_node
from tests.support.opcodes import instructions

ROWS = 6_000
MAX_OF_A_STEP = 20_000
"""Instructions: enough for 500 rows, and fewer than 4 for each row of the request."""


def longest_step(job: Any) -> tuple[int, Any]:
    """The instructions of the longest step of a job, and its result."""
    longest, value, results = 0, None, list[Any]()

    def step() -> None:
        nonlocal asked
        try:
            asked = job.send(value)
        except StopIteration as end:
            results.append(end.value)

    while not results:
        asked: Any = None
        longest = max(longest, instructions(step))
        assert asked is None or isinstance(asked, OffloadedWork | PendingResult)
        value = None if asked is None else asked.work() if isinstance(asked, OffloadedWork) else asked.value
    return longest, results[0]


def create_partitions(names: list[str]) -> Any:
    return CreatePartitionsRequest([CreatePartitionsTopic(name, 10, None) for name in names], 1_000)


def create_topics(names: list[str]) -> Any:
    return CreateTopicsRequest([CreatableTopic(name, 10_000, 1) for name in names], 1_000)


def delete_topics(names: list[str]) -> Any:
    return DeleteTopicsRequest([], names, 1_000)


def create_acls(names: list[str]) -> Any:
    return CreateAclsRequest([AclCreation(2, name, 3, "User:nobody", "*", 3, 3) for name in names])


def delete_acls(names: list[str]) -> Any:
    return DeleteAclsRequest([DeleteAclsFilter(2, name, 3, None, None, 1, 1) for name in names])


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("handle", "request_of", "answered"),
    [
        (handle_create_partitions, create_partitions, "results"),
        (handle_create_topics, create_topics, "topics"),
        (handle_delete_topics, delete_topics, "responses"),
        (handle_create_acls, create_acls, "results"),
        (handle_delete_acls, delete_acls, "filter_results"),
    ],
)
def test_no_step_does_more_work_for_more_refused_rows(
    handle: Callable[..., object], request_of: Callable[[list[str]], Any], answered: str, times: int
) -> None:
    request = request_of([f"no{i}" for i in range(ROWS // times)] * times)
    node = data_node()
    job = handle.__wrapped__(node, make_context(0, 5), request)
    longest, answer = longest_step(job)
    assert longest < MAX_OF_A_STEP
    rows = getattr(answer, answered)
    assert len(rows) == (ROWS if request_of in (create_acls, delete_acls) else ROWS // times)
    assert all(row.error_code for row in rows)


def test_no_step_asks_the_authorizer_about_all_keys_of_find_coordinator() -> None:
    node = data_node()
    node.authorizer = Refusing(*[(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, f"x{i}") for i in range(ROWS)])
    node.transactions = make_group_node().transactions
    node.transactions.routing = Routing([])
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[f"x{i}" for i in range(ROWS)])
    longest, answer = longest_step(_finding(node, make_context(10, 6), request))
    assert {row.error_code for row in answer.coordinators} == {53}
    assert longest <= MAX_OF_A_STEP
