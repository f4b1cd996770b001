"""Every strategy answers as Kafka 4.4's own class does: on random groups, and through histories of groups.

`MUSTER_FREEZE=1` writes the sample that `make test` compares with (tests/assignors/kafka-4.4.jsonl.gz) again.
"""

from __future__ import annotations

import gzip
import json
import os
import random

import pytest

from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.simple import SimpleAssignor
from tests.assignors.cases import Case, answer, as_recorded, draw_case
from tests.assignors.histories import ASSIGNORS, draw_history, draw_share_history, with_assignment
from tests.assignors.mission import EXAMPLES
from tests.assignors.test_frozen import SAMPLE
from tests.conformance.java_assignors import ask_java

GROUPS = 3000
HISTORIES = 500
FROZEN_GROUPS = 60
FROZEN_HISTORIES = 10
KNOWN_FAILURE = "java.lang.NullPointerException"
"""An error of Kafka's general sticky algorithm (see docs/assignors.md): then nothing can be compared."""
KNOWN_FAILURE_OF_SIMPLE = "java.util.NoSuchElementException"
"""An error of Kafka's "simple" when a last target has more readers of a partition than "simple" ever gives it."""


def assigned(case: Case) -> Assignment:
    """What Muster's strategy answers to a case."""
    if case.strategy == "simple":
        return SimpleAssignor().assign(case.members, case.topics, case.assignable)
    return ASSIGNORS[case.strategy].assign(case.members, case.topics)


def differences(cases: list[Case], known_failure: str = KNOWN_FAILURE, most_failed: float = 0.01) -> list[str]:
    """The cases to which Java's class answers otherwise. `known_failure` ends at most this share of the calls."""
    answers = ask_java(case.line() for case in cases)
    assert len(answers) == len(cases)
    failed = [said for said in answers if isinstance(said, str)]
    assert [said for said in failed if not said.startswith(known_failure)] == []
    assert len(failed) <= len(cases) * most_failed
    return [
        case.line()
        for case, said in zip(cases, answers, strict=True)
        if not isinstance(said, str) and as_recorded(case, answer(case, assigned(case))) != as_recorded(case, said)
    ]


@pytest.mark.parametrize("strategy", ASSIGNORS)
def test_random_groups_get_the_assignments_of_kafka(strategy: str) -> None:
    rng = random.Random(f"{strategy} 4.3")
    assert differences([draw_case(rng, strategy) for _ in range(GROUPS)]) == []


@pytest.mark.parametrize("strategy", ASSIGNORS)
def test_histories_of_groups_get_the_assignments_of_kafka(strategy: str) -> None:
    """Cooperative rounds are played to their end; each call of each round is compared."""
    rng = random.Random(f"{strategy} over time")
    cases = [case for _ in range(HISTORIES) for case in draw_history(rng, strategy)]
    assert len(cases) > HISTORIES
    assert differences(cases) == []


def test_random_share_groups_get_the_assignments_of_kafka() -> None:
    """The last targets of these groups are random, so Kafka fails for some."""
    rng = random.Random("simple 4.4")
    cases = [draw_case(rng, "simple") for _ in range(GROUPS)]
    assert differences(cases, KNOWN_FAILURE_OF_SIMPLE, most_failed=0.1) == []


def test_histories_of_share_groups_get_the_assignments_of_kafka() -> None:
    rng = random.Random("simple over time")
    cases = [case for _ in range(HISTORIES) for case in draw_share_history(rng)]
    assert differences(cases, KNOWN_FAILURE_OF_SIMPLE, most_failed=0) == []


def test_the_named_examples_get_the_assignments_of_kafka() -> None:
    """The test includes story 13: two topics of two partitions on three members, one leaves; ten members of five
    partitions each, one leaves.
    """
    cases = [
        Case(
            example.strategy,
            [Member(name, tuple(example.subscriptions.get(name, example.topics))) for name in example.assignment],
            {name: Topic(count, (), name.encode().ljust(16)) for name, count in example.topics.items()},
        )
        for example in EXAMPLES.values()
    ]
    answers = [answer(case, example.assignment) for case, example in zip(cases, EXAMPLES.values(), strict=True)]
    assert ask_java(case.line() for case in cases) == answers
    for strategy in ("sticky", "cooperative-sticky"):
        cases += one_leaves(strategy, ["c1", "c2", "c3"], {"t1": 2, "t2": 2}, "c2")
        cases += one_leaves(strategy, [f"c{number}" for number in range(10)], {"t1": 50}, "c4")
    assert differences(cases) == []


def one_leaves(strategy: str, names: list[str], counts: dict[str, int], leaver: str) -> list[Case]:
    """A group's first assignment, and its assignment after a member has left."""
    topics = {name: Topic(count, (), name.encode().ljust(16)) for name, count in counts.items()}
    group = [Member(name, tuple(topics)) for name in names]
    first = ASSIGNORS[strategy].assign(group, topics)
    left = [with_assignment(ASSIGNORS[strategy], m, first, 1) for m in group if m.member_id != leaver]
    return [Case(strategy, group, topics), Case(strategy, left, topics)]


def draw_large(
    rng: random.Random, strategy: str, members: int, partitions: int, equal: bool, racks: bool
) -> list[Case]:
    """A large group of twenty topics: its first assignment, and one after every tenth member was lost."""
    names = [f"topic-{number}" for number in range(20)]
    places = ["x", "y", "z"] if racks else []
    topics = {}
    for name in names:
        replicas = [rng.sample(places, 2) for _ in range(partitions)] if racks else ()
        topics[name] = Topic(partitions, replicas, rng.randbytes(16))
    group = [
        Member(
            f"consumer-group-{number}-{rng.getrandbits(128):032x}",
            tuple(names if equal else rng.sample(names, rng.randint(1, 20))),
            rack=rng.choice(places) if racks else None,
        )
        for number in range(members)
    ]
    first = ASSIGNORS[strategy].assign(group, topics)
    left = [with_assignment(ASSIGNORS[strategy], m, first, 1) for number, m in enumerate(group) if number % 10]
    return [Case(strategy, group, topics), Case(strategy, left, topics)]


@pytest.mark.parametrize("racks", [False, True], ids=["", "racks"])
@pytest.mark.parametrize("strategy", ASSIGNORS)
def test_large_groups_get_the_assignments_of_kafka(strategy: str, racks: bool) -> None:
    rng = random.Random(f"{strategy} large")
    cases = draw_large(rng, strategy, 500, 200, equal=True, racks=racks)
    cases += draw_large(rng, strategy, 80, 40, equal=False, racks=racks)
    assert differences(cases) == []


def test_the_frozen_sample_of_assignments_is_kafkas() -> None:
    rng = random.Random("frozen")
    cases = []
    for strategy in ASSIGNORS:
        cases += [draw_case(rng, strategy) for _ in range(FROZEN_GROUPS)]
        cases += [case for _ in range(FROZEN_HISTORIES) for case in draw_history(rng, strategy)]
    cases += [draw_case(rng, "simple") for _ in range(FROZEN_GROUPS)]
    cases += [case for _ in range(FROZEN_HISTORIES) for case in draw_share_history(rng)]
    rows = [
        {"case": json.loads(case.line()), "answer": said}
        for case, said in zip(cases, ask_java(case.line() for case in cases), strict=True)
        if not isinstance(said, str)
    ]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    if os.environ.get("MUSTER_FREEZE"):
        SAMPLE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    assert gzip.decompress(SAMPLE.read_bytes()).decode() == text
