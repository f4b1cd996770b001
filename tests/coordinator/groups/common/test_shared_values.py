from __future__ import annotations

from muster.coordinator.groups.classic.member import Protocols
from muster.coordinator.groups.common.state import KEPT, MAX_SHARED_LENGTH, SharedValues
from tests.coordinator.groups.harness import GroupHarness
from tests.coordinator.groups.test_core import reload


def again(data: bytes) -> bytes:
    """An equal value that is another object."""
    return bytes(bytearray(data))


def offered(*metadata: bytes) -> Protocols:
    return tuple((f"p{i}", again(data)) for i, data in enumerate(metadata))


def test_equal_values_become_one_object() -> None:
    shared, first = SharedValues(), again(b"same")
    assert shared.of(first) is first
    assert shared.of(again(b"same")) is first
    assert shared.of(again(b"other")) == b"other"


def test_falsy_values_are_shared_too() -> None:
    shared = SharedValues()
    assert [shared.of(value) for value in ("", 0, "", 0)] == ["", 0, "", 0]


def test_the_number_of_shared_values_is_bounded() -> None:
    shared, first = SharedValues(), again(b"first")
    shared.of(first)
    for i in range(2 * KEPT):
        shared.of(i)
    second = again(b"first")
    assert shared.of(second) is second


def test_long_names_are_not_shared() -> None:
    shared = SharedValues()
    assert shared.of("x" * (MAX_SHARED_LENGTH + 1)) == "x" * (MAX_SHARED_LENGTH + 1)
    assert not shared._known


def test_protocols_with_equal_metadata_are_shared() -> None:
    shared = SharedValues()
    first = shared.protocols(offered(b"abc", b"abc"))
    assert first == (("p0", b"abc"), ("p1", b"abc"))
    assert first[0][1] is first[1][1]
    assert shared.protocols(offered(b"abc", b"abc")) is first


def test_long_metadata_is_not_shared_between_members() -> None:
    shared = SharedValues()
    long, half = b"x" * (MAX_SHARED_LENGTH + 1), b"y" * MAX_SHARED_LENGTH
    first = shared.protocols(offered(long, half))
    second = shared.protocols(offered(long, half))
    assert first == second
    assert first is not second
    assert first[0][1] is not second[0][1]
    assert first[1][1] is second[1][1]


def test_equal_timestamps_become_one_object() -> None:
    shared = SharedValues()
    early, late = int("1700000000000"), int("1700000000000")
    assert shared.moment(early) is shared.moment(late) is early
    assert shared.moment(early + 1) == late + 1


def test_members_of_a_group_share_their_equal_fields() -> None:
    harness = GroupHarness()
    harness.stable(count=3)
    for one in (harness, reload(harness)):
        a, *others = one.group().members.values()
        for b in others:
            assert b.protocols is a.protocols
            assert b.session_timeout_ms is a.session_timeout_ms
            assert b.rebalance_timeout_ms is a.rebalance_timeout_ms
            assert (b.client_id is a.client_id, b.client_host is a.client_host) == (True, True)


def test_a_single_protocol_is_shared_as_several_are() -> None:
    shared = SharedValues()
    first = shared.protocols([("p0", bytes([1, 2]))])
    assert shared.one_protocol("p0", bytes([1, 2])) is first
    other = shared.one_protocol("p1", bytes([1, 2]))
    assert other == (("p1", first[0][1]),)
    assert other[0][1] is first[0][1]
    assert shared.one_protocol("p1", bytes([1, 2])) is other
    long = b"x" * (MAX_SHARED_LENGTH + 1)
    assert shared.one_protocol("p0", long) is not shared.one_protocol("p0", long)
