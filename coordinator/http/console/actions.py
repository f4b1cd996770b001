"""What the console may change: offsets, members and groups, with the rights of the one who asks.

Each action is Kafka's own request. So the broker checks rights and states, as of any client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from muster.coordinator.http.console.sources import Refused, Requester, Source
from muster.coordinator.http.console.views import described, refusal
from muster.coordinator.http.described_groups import SHARE
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.live_groups import LiveGroups
from muster.protocol.api import ApiKey
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

REASON: Final = "member was removed in the console"
MAX_PARTITIONS: Final = 10_000
"""The most partitions that one action changes."""
INACTIVE: Final = ("Empty", "Dead")
EARLIEST: Final = "earliest"
LATEST: Final = "latest"


async def act(source: Source, live: LiveGroups, group: str, given: Mapping[str, Any], who: Requester) -> str:
    """Do an action; the result says what was done. Raises Failure (a wrong value) or Refused."""
    action = _ACTIONS.get(str(given.get("action")))
    if action is None:
        raise Failure("bad-request", f"action: one of {', '.join(_ACTIONS)} was expected")
    if given.get("confirm") != group:
        raise Failure("bad-request", "confirm: the name of the group was expected")
    return await action(source, live, group, given, who)


async def _delete_group(source: Source, _: LiveGroups, group: str, __: Mapping[str, Any], who: Requester) -> str:
    (result,) = (await source.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]), who, group)).results
    if result.error_code:
        raise refusal(result.error_code)
    return f"The group {group} is deleted."


async def _remove_member(source: Source, _: LiveGroups, group: str, given: Mapping[str, Any], who: Requester) -> str:
    member, instance = given.get("member"), given.get("instance")
    if not isinstance(member, str) or not isinstance(instance, str | None):
        raise Failure("bad-request", "member: a member id was expected")
    # as in Kafka's admin clients: a static member is named by its instance id
    row = MemberIdentity("" if instance else member, instance, REASON)
    answer = await source.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group, "", [row]), who, group)
    error = answer.error_code or next((one.error_code for one in answer.members if one.error_code), 0)
    if error:
        raise refusal(error)
    return f"The member {instance or member} is removed."


async def _delete_offsets(
    source: Source, live: LiveGroups, group: str, given: Mapping[str, Any], who: Requester
) -> str:
    topic, partitions = _partitions(live, given)
    make = await described(source, group, who)
    if make is not None and make().type == SHARE:
        whole = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(topic)])
        answer = await source.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, whole, who, group)
        for one in (answer, *answer.responses):
            if one.error_code:
                raise refusal(one.error_code, one.error_message)
        return f"The offsets of {topic} are deleted."
    rows = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(one) for one in partitions])]
    answer = await source.ask(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group, rows), who, group)
    if answer.error_code:
        raise refusal(answer.error_code)
    _check_rows(answer.topics)
    return f"The offsets of {len(partitions)} partitions of {topic} are deleted."


async def _reset_offsets(source: Source, live: LiveGroups, group: str, given: Mapping[str, Any], who: Requester) -> str:
    topic, partitions = _partitions(live, given)
    make = await described(source, group, who)
    found = None if make is None else make()
    state = INACTIVE[0] if found is None else found.state
    if state not in INACTIVE:
        raise Refused(f"offsets can be reset only while the group is inactive, and its state is {state}")
    ends = live.ends.get(topic, {})
    to = given.get("to")
    if to not in (EARLIEST, LATEST) and not (isinstance(to, int) and not isinstance(to, bool) and to >= 0):
        raise Failure("bad-request", f"to: {EARLIEST}, {LATEST} or an offset was expected")
    offsets = {}
    for one in partitions:
        if one not in ends:
            raise Refused(f"the offsets of {topic}-{one} are not known")
        start, end = ends[one]
        offsets[one] = start if to == EARLIEST else end if to == LATEST else min(max(int(to), start), end)
    if found is not None and found.type == SHARE:
        await _alter_shares(source, group, topic, offsets, who)
    else:
        rows = [OffsetCommitRequestPartition(one, offset, -1, "") for one, offset in offsets.items()]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=rows)])
        _check_rows((await source.ask(ApiKey.OFFSET_COMMIT, request, who, group)).topics)
    return f"The offsets of {len(offsets)} partitions of {topic} are set to {to}."


async def _alter_shares(source: Source, group: str, topic: str, offsets: Mapping[int, int], who: Requester) -> None:
    rows = [AlterShareGroupOffsetsRequestPartition(*one) for one in offsets.items()]
    request = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, rows)])
    answer = await source.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, who, group)
    if answer.error_code:
        raise refusal(answer.error_code, answer.error_message)
    _check_rows(answer.responses)


def _partitions(live: LiveGroups, given: Mapping[str, Any]) -> tuple[str, list[int]]:
    topic, partitions = given.get("topic"), given.get("partitions")
    if not isinstance(topic, str):
        raise Failure("bad-request", "topic: a name was expected")
    if partitions is None:
        row = live.topics.get(topic)
        if row is None:
            raise Refused(f"there is no topic {topic}")
        partitions = list(range(row.size))
    if not isinstance(partitions, list) or not all(type(one) is int for one in partitions) or not partitions:
        raise Failure("bad-request", "partitions: a list of numbers was expected")
    if len(partitions) > MAX_PARTITIONS:
        raise Failure("bad-request", f"partitions: at most {MAX_PARTITIONS} can be changed at once")
    return topic, partitions


def _check_rows(topics: Any) -> None:
    for topic in topics:
        for one in topic.partitions:
            if one.error_code:
                raise refusal(one.error_code)


_ACTIONS: Final[Mapping[str, Callable[..., Awaitable[str]]]] = {
    "delete_group": _delete_group,
    "remove_member": _remove_member,
    "delete_offsets": _delete_offsets,
    "reset_offsets": _reset_offsets,
}
