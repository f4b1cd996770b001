from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.groups.classic.member import Member, Protocols, Support, elect
from tests.support.opcodes import instructions


def member(member_id: str, *names: str) -> Member:
    return Member("g", member_id, None, "c", "/h", 1, 1, tuple((name, b"") for name in names))


def vote(*members: Member) -> str:
    support = Support()
    for one in members:
        support.add(one.protocols)
    return elect(support, members[0] if members else None)


def test_the_protocol_with_the_most_votes_wins_if_all_members_offer_it() -> None:
    a, b, c = member("a", "range", "rr"), member("b", "rr", "range"), member("c", "rr", "range")
    assert vote(a, b, c) == "rr"
    assert vote(member("a", "range", "rr"), member("b", "rr")) == "rr"
    assert vote(member("a", "x", "range"), member("b", "y", "range"), member("c", "range", "x")) == "range"
    assert vote(member("a", "x", "rr", "range"), member("b", "rr", "range")) == "rr"


def test_the_leader_decides_a_tie() -> None:
    assert vote(member("a", "range", "rr"), member("b", "rr", "range")) == "range"
    assert vote(member("a", "rr", "range"), member("b", "range", "rr")) == "rr"


def test_a_tie_without_a_leader_goes_to_the_protocol_offered_first() -> None:
    support, ones = Support(), [member("a", "range", "rr"), member("b", "rr", "range")]
    for one in ones:
        support.add(one.protocols)
    assert elect(support, None) == "range"


def test_the_leader_decides_among_tied_protocols_even_if_its_first_choice_is_not_tied() -> None:
    members = [member("a", "x", "y", "z"), member("b", "y", "z", "x"), member("c", "y", "z", "x")]
    members += [member("d", "z", "y", "x"), member("e", "z", "y", "x")]
    assert vote(*members) == "y"


def test_a_vote_without_a_common_protocol_raises_an_error() -> None:
    with pytest.raises(ValueError, match="no protocol"):
        vote(member("a", "range"), member("b", "rr"))


def test_a_protocol_offered_twice_by_a_member_counts_once() -> None:
    # on Kafka 4.3.0 the name counts twice, so that no member supports it any more, and the join phase never ends
    support = Support()
    twice: Protocols = (("range", b"1"), ("range", b"2"))
    support.add(twice)
    assert support.candidates() == ["range"]
    assert support.has_common((("range", b""),))
    support.remove(twice)
    assert support.candidates() == []


def test_protocol_support_counts_members_that_join_and_leave() -> None:
    support = Support()
    support.add((("range", b""), ("rr", b"")))
    support.add((("rr", b""),))
    assert support.candidates() == ["rr"]
    assert support.has_common((("x", b""), ("rr", b"")))
    assert not support.has_common((("range", b""),))
    support.remove((("rr", b""),))
    assert support.candidates() == ["range", "rr"]


NAMES = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True)


@given(st.lists(NAMES, min_size=1, max_size=8))
def test_the_winning_protocol_is_offered_by_all_and_has_the_most_votes(lists: list[list[str]]) -> None:
    common = set(lists[0]).intersection(*lists[1:])
    members = [member(str(i), *names) for i, names in enumerate(lists)]
    if not common:
        return
    votes = [next(name for name in names if name in common) for names in lists]
    assert votes.count(vote(*members)) == max(votes.count(name) for name in common)


def test_the_work_of_a_vote_grows_with_the_number_of_different_protocol_lists() -> None:
    names = [*(f"own-{n}" for n in range(200)), "range", "rr"]
    members = [member(str(n), *names) for n in range(100)]
    members += [member(str(n), *(f"{n}-{name}" for name in names), "range", "rr") for n in range(100)]
    support = Support()
    for one in members:
        support.add(one.protocols)
    assert instructions(lambda: elect(support, members[0])) < 10_000  # 40,000 names
    assert instructions(support.votes) < 100  # the history needs the topics again
    assert support.votes() == {"range": 200, "rr": 0}


def test_a_further_member_with_a_known_protocol_list_is_only_counted() -> None:
    support = Support()
    names = [f"p{n}" for n in range(1_000)]
    first, second = member("a", *names), member("b", *names)
    support.add(first.protocols)
    assert instructions(lambda: support.add(second.protocols)) < 300
    assert support.candidates() == names
    support.remove(first.protocols)
    support.remove(second.protocols)
    assert support.candidates() == []
