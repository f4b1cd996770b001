"""Member ids that were handed out and not used yet (KIP-394). They are no members, but a join phase waits for them."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.rebalance import complete_if_joined
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.deadlines import Deadline

PENDING: Final = "pending"
"""Kind of the deadline at which an unused id is forgotten."""


def hand_out(step: Step, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
    """The id may be used within the session timeout that its JoinGroup asked for."""
    deadline = Deadline(PENDING, group.group_id, member_id)
    group.pending[member_id] = deadline
    step.state.deadlines.set(deadline, step.now.mono_ms + session_timeout_ms)


def on_pending_deadline(step: Step, group: ClassicGroup, deadline: Deadline) -> None:
    """The id was not used. A join phase that waits only for it ends, even in its initial delay."""
    group.remove(deadline.subject)
    complete_if_joined(step, group, cut_delay=True)
