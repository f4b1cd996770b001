from __future__ import annotations

from typing import Any

import pytest

from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from tests.coordinator.groups.harness import BOTH, GroupHarness


def describe(harness: GroupHarness, *groups: str) -> list[Any]:
    return list(harness.send(DescribeGroupsRequest(list(groups or ("g",)))).groups)


def test_an_unknown_group_is_dead() -> None:
    (row,) = describe(GroupHarness(), "x")
    assert (row.error_code, row.error_message, row.group_state) == (69, "Group x not found.", "Dead")
    assert (row.protocol_type, row.protocol_data, list(row.members)) == ("", "", [])


def test_the_group_with_the_empty_id_can_be_described() -> None:
    harness = GroupHarness()
    harness.commit(group="")
    (row,) = describe(harness, "")
    assert (row.error_code, row.group_state) == (0, "Empty")


def test_a_stable_group_is_described_with_protocol_metadata_and_assignment() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True, protocols=BOTH)
    (row,) = describe(harness)
    assert (row.error_code, row.error_message, row.group_id, row.group_state) == (0, None, "g", "Stable")
    assert (row.protocol_type, row.protocol_data) == ("consumer", "range")
    got = [
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
        for m in row.members
    ]
    assert got == [(a, "i0", "c", "/10.0.0.1", b"r", b"0"), (b, "i1", "c", "/10.0.0.1", b"r", b"1")]


def test_a_group_that_is_not_stable_is_described_without_protocol_and_metadata() -> None:
    harness = GroupHarness()
    a, _ = harness.stable()
    harness.join(a)
    (row,) = describe(harness)
    assert (row.group_state, row.protocol_data) == ("PreparingRebalance", "")
    assert [(m.member_metadata, m.member_assignment) for m in row.members] == [(b"", b"0"), (b"", b"1")]


def test_an_empty_group_is_described_with_its_protocol_type_and_a_simple_group_without() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    harness.leave(a)
    harness.commit(group="simple")
    rows = describe(harness, "simple", "g", "simple")
    assert [(r.group_id, r.group_state, r.protocol_type) for r in rows] == [
        ("simple", "Empty", ""),
        ("g", "Empty", "consumer"),
        ("simple", "Empty", ""),
    ]


@pytest.mark.parametrize(
    ("states", "kinds", "found"),
    [
        ([], [], ["a", "b", "c"]),
        (["Stable"], [], []),
        (["EMPTY"], [], ["b"]),
        ([" empty ", "completingrebalance"], [], ["a", "b"]),
        (["nonsense"], [], []),
        (["Dead"], [], []),
        ([], ["Classic"], ["a", "b", "c"]),
        ([], ["consumer", "share", "nonsense"], []),
        (["Empty"], ["classic", "consumer"], ["b"]),
    ],
)
def test_list_groups_filters_by_state_and_type(states: list[str], kinds: list[str], found: list[str]) -> None:
    harness = GroupHarness()
    harness.join(group="a")
    harness.commit(group="b")
    harness.join(group="c", kind="connect")
    harness.join(group="c", kind="connect")
    reply = harness.send(ListGroupsRequest(states, kinds))
    assert reply.error_code == 0
    assert [one.group_id for one in reply.groups] == found
    rows = {one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in reply.groups}
    assert rows.get("c", ("connect", "PreparingRebalance", "classic")) == ("connect", "PreparingRebalance", "classic")
    assert rows.get("b", ("", "Empty", "classic")) == ("", "Empty", "classic")
