"""Who owns what, read from the assignments of a group of consumers, and what a rebalance changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.coordinator.groups.classic import CONSUMER
from muster.coordinator.groups.events import MemberFacts
from muster.protocol.consumer import decode_assignment
from muster.protocol.message import MalformedMessage

Owned = Mapping[str, Sequence[int]]
"""What one member owns: partitions by topic."""


def read(
    protocol_type: str | None, members: Sequence[MemberFacts], before: Mapping[str, bytes]
) -> tuple[dict[str, Owned] | None, dict[str, Owned] | None]:
    """What each member owns now, and what each one owned before. None when these are no consumers, or when their
    assignments cannot be read.
    """
    if protocol_type != CONSUMER:
        return None, None
    return _all({one.member: one.assignment for one in members}), _all(before)


def _all(assignments: Mapping[str, bytes]) -> dict[str, Owned] | None:
    try:
        return {member: _owned(assignment) for member, assignment in assignments.items()}
    except MalformedMessage:
        return None


def _owned(assignment: bytes) -> Owned:
    if not assignment:  # it has none yet
        return {}
    return {one.topic: one.partitions for one in decode_assignment(assignment)[1].assigned_partitions}
