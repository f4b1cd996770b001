"""Helpers with which tests write groups and assignments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muster.assignors.assignor import Assignment, Assignor, Member, Topic
from tests.assignors.histories import with_assignment


def sizes(**partitions: int) -> dict[str, Topic]:
    """The number of partitions of each topic, by its name."""
    return {name: Topic(count) for name, count in partitions.items()}


def members(**topics: str) -> list[Member]:
    """Members by id, each with its topics, separated by spaces."""
    return [Member(member_id, tuple(names.split())) for member_id, names in topics.items()]


def written(assignment: Assignment) -> dict[str, str]:
    """Assignments as "t1p0 t1p1", sorted."""
    return {
        member_id: " ".join(sorted(f"{topic}p{p}" for topic, partitions in mine.items() for p in partitions))
        for member_id, mine in sorted(assignment.items())
    }


def loads(assignment: Assignment) -> list[int]:
    """How many partitions each member has, most first."""
    return sorted((sum(map(len, mine.values())) for mine in assignment.values()), reverse=True)


def owners(assignment: Assignment) -> dict[tuple[str, int], str]:
    """The owner of each partition. Fails if a partition has two owners."""
    found: dict[tuple[str, int], str] = {}
    for member_id, mine in assignment.items():
        for topic, partitions in mine.items():
            for partition in partitions:
                assert (topic, partition) not in found, f"{topic}-{partition} has two owners"
                found[topic, partition] = member_id
    return found


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions changed owners."""
    had, have = owners(before), owners(after)
    return sum(1 for partition, owner in had.items() if have.get(partition) != owner)


def settled(assignor: Assignor, group: list[Member], topics: Mapping[str, Topic]) -> tuple[list[Member], Assignment]:
    """Assign until members have what they are assigned. Returns the members as they would join next, and their
    partitions.
    """
    assignment: Assignment = {}
    for generation in range(1, 4):
        assignment = assignor.assign(group, topics)
        newest = max([member.generation for member in group] + [0])
        group = [with_assignment(assignor, replace(m), assignment, newest + generation) for m in group]
    return group, assignment
