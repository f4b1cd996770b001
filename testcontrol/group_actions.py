"""The actions that a test forces on a group: a rebalance, the end of a member's session, its removal.

The core's own functions do the actions, at once. So members, records and the history see the same as when the event
happens without a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.groups.classic import history, rebalance
from muster.coordinator.groups.classic.group import CONSUMER, PREPARING, REBALANCE, TRANSITIONS, ClassicGroup
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import history as consumer_history
from muster.coordinator.groups.consumer import leave, records
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.share import heartbeat as share_heartbeat
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.state_machine.output import Output
from muster.testcontrol.errors import CannotBeDone

REMOVED: Final = "removed by a test"
"""The reason of a removal by a test, in the history."""


def run(shard: GroupShard, group_id: str, decide: Callable[[Step, Any], None]) -> None:
    """Let `decide(step, group)` change the group, as one step of its core. Raises what `decide` raises, and
    `CannotBeDone` when the group does not exist. `shard`: the active shard of the group.
    """
    raised: list[Exception] = []

    def of_core(core: GroupCore, now: Now) -> Output:
        step = Step(core.state, now, shard.max_bytes)
        group = core.state.groups.get(group_id)
        try:
            if group is None:
                raise CannotBeDone(f"there is no group {group_id}")
            decide(step, group)
        except CannotBeDone as refusal:
            raised.append(refusal)
        return step

    shard.runtime.run(of_core)
    if raised:
        raise raised[0]


def rebalanced(step: Step, group: Any) -> None:
    """Begin a rebalance. All members of a classic group have to join again. A consumer group gets a new epoch, and new
    target assignments at the next heartbeat.
    """
    if not getattr(group, "members", None):
        raise CannotBeDone(f"group {group.group_id} has no members: there is nothing to rebalance")
    if isinstance(group, ClassicGroup):
        if (group.state, REBALANCE) not in TRANSITIONS:
            raise CannotBeDone(f"group {group.group_id} is {group.state}: a rebalance is in progress already")
        rebalance.begin(step, group, events.ASKED)
        return
    if isinstance(group, ShareGroup):
        raise CannotBeDone(f"group {group.group_id} is a share group: its members share partitions")
    _require_consumer_group(group)
    state = group.state
    step.record(records.group_epoch(group.group_id, group.epoch + 1, group.metadata_hash))
    consumer_history.epoch_bumped(step, group, events.ASKED, state=state)


def remove(step: Step, group: Any, member_id: str, cause: str) -> None:
    """Remove a member: after SESSION_EXPIRED as if it had been silent, after LEFT as an administrator does."""
    member = getattr(group, "members", {}).get(member_id)
    if member is None:
        raise CannotBeDone(f"group {group.group_id} has no member {member_id}")
    if isinstance(group, ShareGroup):
        share_heartbeat.remove(step, group, member, cause)
        return
    if not isinstance(group, ClassicGroup):
        _require_consumer_group(group)
        leave.remove(step, group, [member], cause)
        return
    if cause == events.LEFT:
        history.left(step, group, member, REMOVED)
        trigger = history.trigger(member, REMOVED)
        rebalance.drop_member(step, group, member_id)
        rebalance.begin_or_complete(step, group, cause, trigger)
        return
    rebalance.remove_member(step, group, member, cause)
    if group.state == PREPARING:
        rebalance.complete_if_joined(step, group, cut_delay=True)
    else:
        rebalance.begin(step, group, cause, history.trigger(member))


def _require_consumer_group(group: Any) -> None:
    if group.kind != CONSUMER:
        raise CannotBeDone(f"group {group.group_id} is a {group.kind} group, which Muster only keeps")
