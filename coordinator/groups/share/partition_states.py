"""The states of a share group's partitions: which are created and deleted, and what follows when that is done.

The group's coordinator asks the persister outside of the core, when the record of its intention is durable. The result
comes back as a command. If no result comes, a later heartbeat asks again (`group.share.initialize.retry.interval.ms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.share import records, states
from muster.coordinator.groups.share.commands import Failures, StatesCreated, StatesWanted
from muster.coordinator.groups.share.group import NOT_QUIET, ShareGroup, share_group
from muster.coordinator.groups.share.states import Named, States
from muster.coordinator.state_machine.interface import Record
from muster.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse

LEADER_CHOOSES: Final = -1
"""The start offset when the leader of the partition is to choose it by `share.auto.offset.reset`."""
FROM_THE_BEGINNING: Final = 0
"""The start offset of partitions that a known topic gets later: their first records are not left out."""


def are_pending(group: ShareGroup) -> bool:
    """Whether the targets do not have exactly the partitions with a state, in any subscribed topic."""
    its = group.states
    if its is None or not its.initialized or not group.names:
        return False
    in_targets: dict[bytes, set[int]] = {}
    for member_target in group.targets.values():
        for topic_id, partitions in member_target:
            in_targets.setdefault(topic_id, set()).update(partitions)
    return any(
        named.name in group.names and in_targets.get(topic_id) != set(named.partitions)
        for topic_id, named in its.initialized.items()
    )


def lacking(step: Step, group: ShareGroup, names: Iterable[str]) -> Named:
    """The partitions of these topics whose state is to be created now."""
    settings = step.state.settings
    retry_ms = max(settings.group_share_initialize_retry_interval_ms, settings.offsets_commit_timeout_ms)
    retries = step.now.wall_ms - group.states_ms >= retry_ms
    return states.missing(group.states or States(), names, step.state.image, retries=retries)


def quiet_version(group: ShareGroup, image: TopicsImage) -> int:
    """The version of the image, if heartbeats change nothing until a record or the image changes; else NOT_QUIET."""
    if group.assignment_epoch < group.epoch or are_pending(group):
        return NOT_QUIET
    its = group.states or States()
    return NOT_QUIET if states.missing(its, group.names, image, retries=True) else image.version


def record_of_new(step: Step, group: ShareGroup, new: Named) -> Record:
    """The record that the states of `new` are about to be created."""
    return record_of(group.group_id, states.initializing(group.states, new), step.state.image)


def record_of(group_id: str, its: States, image: TopicsImage) -> Record:
    """The record of the group's next states."""
    names = {topic_id: states.name_of(topic_id, image) for topic_id in its.deleting}
    return records.states(group_id, its, names)


def wanted(group: ShareGroup, epoch: int, new: Named) -> StatesWanted:
    """The request to create the states of `new`."""
    had = group.states or States()
    offsets: dict[bytes, Mapping[int, int]] = {}
    for topic_id, (_, partitions) in new.items():
        is_known = topic_id in had.initialized or topic_id in had.initializing
        offsets[topic_id] = dict.fromkeys(partitions, FROM_THE_BEGINNING if is_known else LEADER_CHOOSES)
    return StatesWanted(group.group_id, epoch, offsets)


def create(step: Step, group: ShareGroup, request: StatesWanted) -> None:
    """Ask for these states, after the record of them is in the step."""
    group.states_ms = step.now.wall_ms
    helpers = step.state.helpers
    if helpers is None or helpers.change_states is None:
        created(step, StatesCreated(request, {}))
    else:
        step.reply(helpers.change_states, request)


def created(step: Step, result: StatesCreated) -> None:
    """Record that states exist now, or that they could not be created."""
    request, failures = result
    if request.command is not None:
        _note(request.response, failures)
        step.reply(request.command.respond, request.response)
        if failures:
            return  # a heartbeat tries again after the interval
    group = share_group(step.state, request.group_id)
    if group is None or not request.offsets:
        return
    its, image = group.states, step.state.image
    if not failures:
        step.record(record_of(group.group_id, states.initialized(its, request.offsets, image), image))
    elif its is not None and its.initializing:
        left = its._replace(initializing=states.without(its.initializing, request.offsets))
        step.record(record_of(group.group_id, left, image))
    group.states_ms = step.now.wall_ms


def _note(response: AlterShareGroupOffsetsResponse, failures: Failures) -> None:
    """Set the errors of partitions in the answer to an administrator."""
    for topic in response.responses if failures else ():
        for row in topic.partitions:
            if not row.error_code:
                row.error_code, row.error_message = failures.get((topic.topic_id, row.partition_index), (0, None))
