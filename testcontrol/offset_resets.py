"""Offsets that a test sets in a group without members: committed offsets, and the start offsets of share groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from muster.coordinator.groups.offsets.commit import CommitCommand
from muster.coordinator.server import Server
from muster.coordinator.server.group_views import Offsets
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.errors import error_name
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.topics import topic_of

NEWEST_COMMIT: Final = 10
"""The version of OffsetCommit in which a reset is written."""
_CLIENT: Final = Client("muster-testcontrol", "/127.0.0.1")
Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""The place to which offsets are reset: a name, one offset for each partition, or offsets by topic and partition."""


def wanted(server: Server, to: Reset, names: Iterable[str]) -> dict[str, dict[int, int]]:
    """The new offsets by topic and partition. Raises CannotBeDone."""
    found: dict[str, dict[int, int]] = {}
    if isinstance(to, Mapping):
        for (topic, index), offset in to.items():
            if not 0 <= index < len(topic_of(server, topic).partitions):
                raise CannotBeDone(f"there is no partition {topic}-{index}")
            found.setdefault(topic, {})[index] = offset
        return found
    for name in names:
        for index, partition in enumerate(topic_of(server, name).partitions):
            if partition is None:
                raise CannotBeDone(f"{name}-{index} is offline")
            if to == "earliest":
                offset = partition.log.start_offset
            else:
                offset = partition.log.durable_offset if to == "latest" else int(to)
            found.setdefault(name, {})[index] = offset
    if not found:
        raise CannotBeDone("name the topics whose offsets are to be reset")
    return found


async def commit(server: Server, shard: Any, group_id: str, offsets: Offsets) -> None:
    """Commit these offsets. Raises CannotBeDone."""
    rows = []
    for name, numbers in offsets.items():
        partitions = [OffsetCommitRequestPartition(*row) for row in sorted(numbers.items())]
        rows.append(OffsetCommitRequestTopic(name, topic_id=topic_of(server, name).topic_id, partitions=partitions))
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = OffsetCommitRequest(group_id, topics=rows)
    shard.runtime.submit(CommitCommand(request, answered.set_result, _CLIENT, NEWEST_COMMIT))
    for topic in (await answered).topics:
        for one in topic.partitions:
            if one.error_code:
                place = f"{topic.name}-{one.partition_index}"
                raise CannotBeDone(f"the offset of {place} was refused: {error_name(one.error_code)}")


async def set_starts(shard: Any, group_id: str, offsets: Offsets) -> None:
    """Set the start offsets of a share group, as its administrators do. Raises CannotBeDone."""
    rows = [
        AlterShareGroupOffsetsRequestTopic(
            name, [AlterShareGroupOffsetsRequestPartition(*row) for row in sorted(numbers.items())]
        )
        for name, numbers in offsets.items()
    ]
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = AlterShareGroupOffsetsRequest(group_id, rows)
    shard.runtime.submit(Command(request, answered.set_result, _CLIENT))
    answer = await answered
    errors = [answer.error_code, *(row.error_code for topic in answer.responses for row in topic.partitions)]
    refused = next(filter(None, errors), 0)
    if refused:
        raise CannotBeDone(f"the start offsets of group {group_id} were refused: {error_name(refused)}")
