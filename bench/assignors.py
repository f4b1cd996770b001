"""Compares the CPU time of strategies with other implementations: `python -m bench.assignors` writes assignors.md.

The group has ten topics and an even assignment, and has lost one member. Subscriptions are decoded before the measure.
The user data of sticky is not, since every implementation decodes it as part of its work. The figure is the minimum of
several runs. For Java, the CPU time of the assigning thread counts. There are two figures: the first run in a fresh
virtual machine, and the median of a warm one.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka.coordinator.assignors.range as aiokafka_range
import aiokafka.coordinator.assignors.roundrobin as aiokafka_roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor as aiokafka_sticky
import kafka.coordinator.assignors.cooperative_sticky as python_cooperative
import kafka.coordinator.assignors.range as python_range
import kafka.coordinator.assignors.roundrobin as python_roundrobin
import kafka.coordinator.assignors.sticky.sticky_assignor as python_sticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from muster.assignors.assignor import Member, Topic
from tests.assignors.cases import Case
from tests.assignors.histories import ASSIGNORS, with_assignment
from tests.conformance.java_assignors import ask_java
from tests.support.servers import kafka_available

RESULT = Path(__file__).with_name("assignors.md")
SIZES = [(members, partitions) for members in (10, 100, 1000) for partitions in (100, 1_000, 10_000, 100_000)]
GOAL = (1000, 10_000)
GOALS_MS = {"range": 12.0, "roundrobin": 12.0, "sticky": 60.0, "cooperative-sticky": 40.0}
TOPICS = 10
RUNS = 5
JAVA_RUNS = "40"
PATIENCE_MS = 5000.0
"""When another implementation takes longer than this, it is not measured with larger groups."""
AIOKAFKA = {
    "range": aiokafka_range.RangePartitionAssignor,
    "roundrobin": aiokafka_roundrobin.RoundRobinPartitionAssignor,
    "sticky": aiokafka_sticky.StickyPartitionAssignor,
}
KAFKA_PYTHON = {
    "range": python_range.RangePartitionAssignor,
    "roundrobin": python_roundrobin.RoundRobinPartitionAssignor,
    "sticky": python_sticky.StickyPartitionAssignor,
    "cooperative-sticky": python_cooperative.CooperativeStickyAssignor,
}


def after_a_loss(strategy: str, members: int, partitions: int, uneven: bool = False) -> Case:
    """The input of a strategy after the loss of one member."""
    rng = random.Random(f"{members} {partitions}")
    topics = {f"topic-{i}": Topic(partitions // TOPICS, (), rng.randbytes(16)) for i in range(TOPICS)}
    names = tuple(topics)
    group = [
        Member(f"consumer-group-{i}-{rng.getrandbits(128):032x}", names[:7] if uneven and i % 2 else names)
        for i in range(members)
    ]
    assignment = ASSIGNORS[strategy].assign(group, topics)
    group = [with_assignment(ASSIGNORS[strategy], member, assignment, 1) for member in group]
    del group[members // 2]
    return Case(strategy, group, topics)


@dataclass
class Cluster:
    """The part of a client's cluster metadata that strategies use."""

    sizes: Mapping[str, int]

    def topics(self) -> set[str]:
        """All topics."""
        return set(self.sizes)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """All partitions of the topic."""
        return set(range(self.sizes[topic]))


def of_muster(case: Case) -> Callable[[], object]:
    """The call of Muster's strategy for a case."""
    return lambda: ASSIGNORS[case.strategy].assign(case.members, case.topics)


def of_aiokafka(case: Case) -> Callable[[], object]:
    """The call of aiokafka's strategy for a case."""
    strategy: Any = AIOKAFKA[case.strategy]
    cluster = Cluster({name: topic.partitions for name, topic in case.topics.items()})
    members = {m.member_id: ConsumerProtocolMemberMetadata(0, list(m.topics), m.user_data or b"") for m in case.members}
    return lambda: strategy.assign(cluster, members)


def of_kafka_python(case: Case) -> Callable[[], object]:
    """The call of kafka-python's strategy for a case."""
    strategy: Any = KAFKA_PYTHON[case.strategy]()
    cluster = Cluster({name: topic.partitions for name, topic in case.topics.items()})
    members = [
        SimpleNamespace(member_id=m.member_id, group_instance_id=None, metadata=_metadata(m)) for m in case.members
    ]
    return lambda: strategy.assign(cluster, members)


def _metadata(member: Member) -> Any:
    owned = [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=list(partitions))
        for topic, partitions in member.owned.items()
    ]
    return ConsumerProtocolSubscription(
        version=3,
        topics=list(member.topics),
        user_data=member.user_data or b"",
        owned_partitions=owned,
        generation_id=member.generation,
    )


def median_ms(call: Callable[[], object], runs: int = RUNS) -> float:
    """The median CPU time of some runs, as for Java. If the first run takes long, the time of this run."""
    found: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        call()
        found.append((time.process_time() - start) * 1e3)
        if found[-1] > 1000:
            break
    return statistics.median(found)


def others_ms(
    prepare: Callable[[Case], Callable[[], object]], cases: Mapping[tuple[int, int], Case]
) -> dict[Any, float]:
    """The times of another implementation for each case, until one takes too long."""
    found: dict[Any, float] = {}
    too_much = False
    for size, case in sorted(cases.items(), key=lambda item: (item[0][1], item[0][0])):
        if not too_much:
            found[size] = median_ms(prepare(case))
            too_much = found[size] > PATIENCE_MS
    return found


def java_ms(case: Case) -> tuple[float, float]:
    """The times of Java: of the first run in a fresh virtual machine, and the median of a warm one."""
    cold, warm = ask_java([case.line()], JAVA_RUNS)[0]
    return cold / 1e6, warm / 1e6


def table(
    strategy: str, sizes: Sequence[tuple[int, int]], with_java: bool
) -> tuple[list[str], dict[tuple[int, int], float]]:
    """The rows of the table for one strategy, and Muster's times."""
    cases = {size: after_a_loss(strategy, *size) for size in sizes}
    ours = {size: median_ms(of_muster(case)) for size, case in cases.items()}
    theirs = others_ms(of_aiokafka, cases) if strategy in AIOKAFKA else {}
    python = others_ms(of_kafka_python, cases) if strategy in KAFKA_PYTHON else {}
    rows = [
        f"## {strategy}",
        "",
        "| members x partitions | Muster | aiokafka | kafka-python | Java, cold | Java, warm |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for size in sizes:
        java = java_ms(cases[size]) if with_java else (None, None)
        figures = " | ".join(map(number, (ours[size], theirs.get(size), python.get(size), *java)))
        rows.append(f"| {size[0]:,} x {size[1]:,} | {figures} |")
        print(rows[-1], strategy, flush=True)
    return [*rows, ""], ours


def number(ms: float | None) -> str:
    """Format a number with about three significant digits; None becomes an empty text."""
    if ms is None:
        return ""
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 3 else f"{ms:.2f}"


def uneven(with_java: bool) -> list[str]:
    """Measure sticky in a group where half of the members do not subscribe to three of the ten topics."""
    rows = [
        "## sticky, differing subscriptions",
        "",
        "Every other member is subscribed to seven of the ten topics.",
        "",
        "| members x partitions | Muster | Java, cold | Java, warm |",
        "|---|---:|---:|---:|",
    ]
    for size in ((10, 100), (100, 1_000), (1000, 10_000), (1000, 100_000)):
        case = after_a_loss("sticky", *size, uneven=True)
        ours = median_ms(of_muster(case))
        java = java_ms(case) if with_java and size[0] < 1000 else (None, None)
        rows.append(f"| {size[0]:,} x {size[1]:,} | {' | '.join(map(number, (ours, *java)))} |")
        print(rows[-1], "uneven", flush=True)
    return [*rows, ""]


def main() -> None:
    """Measure all strategies, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.assignors", description=__doc__)
    parser.add_argument("--without-java", action="store_true", help="leave Kafka's own classes out")
    with_java = not parser.parse_args().without_java and kafka_available()
    body: list[str] = []
    goals = ["| strategy | to reach, ms | measured, ms | | ten times the partitions take |", "|---|---:|---:|---|---:|"]
    for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform"):
        rows, ours = table(strategy, SIZES, with_java)
        body += rows
        if strategy in GOALS_MS:
            goal, growth = GOALS_MS[strategy], ours[1000, 100_000] / ours[GOAL]
            verdict = "yes" if ours[GOAL] <= goal else "**no**"
            goals.append(f"| {strategy} | ≤ {goal:g} | {number(ours[GOAL])} | {verdict} | {growth:.1f} x |")
    intro = [
        "# What an assignment costs",
        "",
        f"Written by `make bench-assignors`: {platform.python_implementation()} {platform.python_version()}.",
        "The figures are milliseconds of CPU for one call of the strategy, the median of several calls. The group has",
        "ten topics, was balanced, and lost a member. Libraries that would take half a minute are left out. Java's",
        "figures are those of the assigning thread: the first call in a fresh virtual machine, and the median once it",
        "is warm.",
        "",
        f"## Figures to reach, {GOAL[0]:,} members x {GOAL[1]:,} partitions",
        "",
        *goals,
        "",
    ]
    RESULT.write_text("\n".join([*intro, *body, *uneven(with_java)]).rstrip() + "\n")


if __name__ == "__main__":
    main()
