"""The deadlines of a member besides its session: one for each kind, as Kafka has a timer for each."""

from __future__ import annotations

from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.state_machine.deadlines import Deadline, Deadlines


def start(deadlines: Deadlines, member: ConsumerMember, kind: str, due_ms: int) -> None:
    """Let this deadline fall due at that time, and at no other."""
    if member.timers is None:
        member.timers = {}
    deadline = member.timers.get(kind)
    if deadline is None:
        deadline = member.timers[kind] = Deadline(kind, member.group_id, member.member_id)
    deadlines.set(deadline, due_ms)


def start_if_absent(deadlines: Deadlines, member: ConsumerMember, kind: str, due_ms: int) -> None:
    """`start`, unless the deadline runs already: then it continues unchanged."""
    if member.timers is None or kind not in member.timers:
        start(deadlines, member, kind, due_ms)


def stop(deadlines: Deadlines, member: ConsumerMember, kind: str) -> None:
    """The deadline will not fall due. Harmless when it does not run."""
    if member.timers is None or kind not in member.timers:
        return
    deadlines.cancel(member.timers.pop(kind))
    if not member.timers:
        member.timers = None


def stop_all(deadlines: Deadlines, member: ConsumerMember) -> None:
    """None of the deadlines will fall due."""
    for deadline in (member.timers or {}).values():
        deadlines.cancel(deadline)
    member.timers = None
