from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.coordinator.api.harness import FakeTransactions, Refusing, ask, make_channel, make_context, make_group_node


def rows(keys: list[str], key_type: int = 0, **node: Any) -> list[Any]:
    context = make_context(10, 6, channel=make_channel("here.example", 1234))
    return list(
        ask(make_group_node(**node), FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), context)
        .one()
        .coordinators
    )


@pytest.mark.parametrize("key_type", [0, 1])
def test_find_coordinator_has_one_row_per_key_with_the_address_of_the_listener(key_type: int) -> None:
    found = rows(["b", "a", "b", ""], key_type, node_id=3)
    assert [(row.key, row.node_id, row.host, row.port, row.error_code, row.error_message) for row in found] == [
        (key, 3, "here.example", 1234, 0, "") for key in ("b", "a", "b", "")
    ]


def test_find_coordinator_without_keys_has_no_rows() -> None:
    assert rows([]) == []


@pytest.mark.parametrize(("key_type", "has_message"), [(2, False), (9, True), (-1, True)])
def test_find_coordinator_refuses_unknown_key_types(key_type: int, has_message: bool) -> None:
    row = rows(["g"], key_type)[0]
    assert (row.node_id, row.host, row.port, row.error_code) == (-1, "", -1, ErrorCode.INVALID_REQUEST)
    assert bool(row.error_message) is has_message


def test_find_coordinator_finds_the_coordinator_of_a_share_partition() -> None:
    topic = "AAAAAAAAAAAAAAAAAAAAAg"
    found = rows([f"g:{topic}:0", f"g:{topic}:x"], 2, node_id=3)
    assert [(row.node_id, row.error_code) for row in found] == [(3, 0), (-1, ErrorCode.INVALID_REQUEST)]
    node = make_group_node(node_id=3, persister=FakeTransactions(0))
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g"])
    (row,) = ask(node, request).one().coordinators
    assert row.error_code == ErrorCode.INVALID_REQUEST
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{topic}:0"])
    (row,) = ask(node, request, make_context(10, 5)).one().coordinators
    assert row.error_code == ErrorCode.INVALID_REQUEST


def test_find_coordinator_finds_nobody_before_the_offsets_topic_exists() -> None:
    node = make_group_node()
    node.routing = Routing([])
    answers = ask(node, FindCoordinatorRequest(coordinator_keys=["g"]))
    row = answers.one().coordinators[0]
    assert (row.node_id, row.host, row.port, row.error_code) == (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize(
    ("key_type", "resource", "error_code"),
    [
        (0, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_find_coordinator_refuses_keys_without_permission(key_type: int, resource: int, error_code: int) -> None:
    authorizer = Refusing((Operation.DESCRIBE, resource, "a"))
    found = [
        (row.key, row.node_id, row.host, row.port, row.error_code, row.error_message)
        for row in rows(["a", "b", "a"], key_type, node_id=3, authorizer=authorizer)
    ]
    assert found == [
        ("a", -1, "", -1, error_code, ""),
        ("b", 3, "here.example", 1234, 0, ""),
        ("a", -1, "", -1, error_code, ""),
    ]
