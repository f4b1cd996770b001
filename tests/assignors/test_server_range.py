from __future__ import annotations

from dataclasses import replace

from muster.assignors.assignor import Topic
from muster.assignors.range import RangeAssignor, ServerRangeAssignor
from tests.assignors.groups import members, sizes


def test_the_server_range_assignor_is_range_with_sorted_topics() -> None:
    group = members(a="u t", b="t u", c="u")
    got = ServerRangeAssignor().assign(group, sizes(t=5, u=4))
    assert got == RangeAssignor().assign(group, sizes(t=5, u=4))
    assert [list(mine) for mine in got.values()] == [["t", "u"], ["t", "u"], ["u"]]


def test_the_server_range_assignor_ignores_racks() -> None:
    group = [replace(member, rack=rack) for member, rack in zip(members(a="t", b="t"), "xy", strict=True)]
    got = ServerRangeAssignor().assign(group, {"t": Topic(2, [{"y"}, {"x"}])})
    assert got == {"a": {"t": [0]}, "b": {"t": [1]}}
