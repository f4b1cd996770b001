from __future__ import annotations

import pytest

from muster.assignors.assignor import Assignor, Member, RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS, SERVER_ASSIGNORS

ALL = [*CLIENT_ASSIGNORS.values(), *SERVER_ASSIGNORS.values()]


def test_an_impossible_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="a topic of -1 partitions"):
        Topic(-1)
    with pytest.raises(ValueError, match="2 sets of racks for 3 partitions"):
        Topic(3, [{"a"}, {"b"}])


def test_assignors_have_the_names_and_protocols_of_kafka() -> None:
    assert list(CLIENT_ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert list(SERVER_ASSIGNORS) == ["uniform", "range"]
    assert [a.protocols[0] for a in CLIENT_ASSIGNORS.values()] == [RebalanceProtocol.EAGER] * 3 + [
        RebalanceProtocol.COOPERATIVE
    ]


@pytest.mark.parametrize("assignor", ALL, ids=lambda a: type(a).__name__)
def test_each_assignor_refuses_repeated_members_and_accepts_an_empty_group(assignor: Assignor) -> None:
    assert isinstance(assignor, Assignor)
    assert assignor.assign([], {"t": Topic(3)}) == {}
    assert assignor.assign([Member("a", ("gone",)), Member("b")], {}) == {"a": {}, "b": {}}
    assert assignor.assign([Member("a", ("t", "empty"))], {"t": Topic(2), "empty": Topic(0), "other": Topic(1)}) == {
        "a": {"t": [0, 1]}
    }
    with pytest.raises(ValueError, match="member 'a' occurs twice"):
        assignor.assign([Member("a"), Member("b"), Member("a")], {"t": Topic(3)})
