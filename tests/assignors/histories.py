"""Groups over time: members join and leave, topics grow, and every assignment starts from the one before."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from muster.assignors.assignor import Assignment, Assignor, Member, RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS, SERVER_ASSIGNORS
from muster.assignors.simple import SimpleAssignor
from tests.assignors.cases import Case, draw_case

ASSIGNORS: Mapping[str, Assignor] = {
    **CLIENT_ASSIGNORS,
    "uniform": SERVER_ASSIGNORS["uniform"],
    "server-range": SERVER_ASSIGNORS["range"],
}
ROUNDS = 3


def with_assignment(assignor: Assignor, member: Member, assignment: Assignment, generation: int) -> Member:
    """The member as it joins next, after it got this assignment."""
    mine = assignment[member.member_id]
    data = assignor.user_data(mine, generation)
    # an eager member gives everything up before it joins: only its user data can say what it had
    owned = mine if RebalanceProtocol.COOPERATIVE in assignor.protocols else {}
    return replace(member, owned=owned, generation=generation, user_data=data)


def rounds(case: Case, generation: int, most: int = ROUNDS) -> tuple[list[Case], list[Member]]:
    """Assignments until members have what they are assigned; the calls, and the members after them."""
    assignor = ASSIGNORS[case.strategy]
    calls, members = [], list(case.members)
    for number in range(most):
        call = Case(case.strategy, members, case.topics)
        calls.append(call)
        assignment = assignor.assign(members, case.topics)
        lost = any(
            set(partitions) - set(assignment[m.member_id].get(topic, ()))
            for m in members
            for topic, partitions in m.owned.items()
        )
        members = [with_assignment(assignor, m, assignment, generation + number) for m in members]
        if not lost or RebalanceProtocol.EAGER in assignor.protocols[:1]:
            break
    return calls, members


def draw_history(rng: random.Random, strategy: str) -> list[Case]:
    """A group from its first assignment on, through some changes; all calls of the strategy."""
    start = draw_case(rng, strategy)
    members: Sequence[Member] = [replace(m, owned={}, generation=-1, user_data=None) for m in start.members]
    topics, calls, generation = dict(start.topics), [], 1
    for _ in range(rng.randint(2, 5)):
        made, members = rounds(Case(strategy, members, topics), generation)
        calls += made
        generation += len(made)
        members, topics = _changed(rng, list(members), topics, generation)
    return calls


def _changed(
    rng: random.Random, members: list[Member], topics: dict[str, Topic], generation: int
) -> tuple[list[Member], dict[str, Topic]]:
    change = rng.random()
    one = rng.randrange(len(members))
    if change < 0.4 and len(members) > 1:
        del members[one]
    elif change < 0.65:
        like = members[one]
        members.append(Member(f"new-{generation}-{rng.getrandbits(32):x}", like.topics, rack=like.rack))
    elif change < 0.75:
        members[one] = replace(members[one], topics=members[one].topics[1:])
    elif change < 0.9 and topics:
        name = rng.choice(list(topics))
        grown = topics[name]
        more = rng.randint(1, 5)
        racks = [*grown.racks, *[grown.racks[0]] * more] if grown.racks else ()
        topics = {**topics, name: replace(grown, partitions=grown.partitions + more, racks=racks)}
    rng.shuffle(members)
    return members, topics


def draw_share_history(rng: random.Random) -> list[Case]:
    """A share group from its first assignment on, while members join and leave; all calls of "simple"."""
    start = draw_case(rng, "simple")
    members: list[Member] = [replace(m, owned={}) for m in start.members]
    assignable, calls = start.assignable, []
    for number in range(5):
        case = Case("simple", members, start.topics, assignable)
        calls.append(case)
        made = SimpleAssignor().assign(case.members, case.topics, case.assignable)
        members = [replace(m, owned=made[m.member_id]) for m in members]
        if len(members) > 1 and rng.random() < 0.5:
            members.pop(rng.randrange(len(members)))
        if rng.random() < 0.5:
            members.append(Member(f"new{number}-{rng.getrandbits(32):08x}", rng.choice(members).topics))
        assignable = rng.choice([assignable, None])
    return calls
