"""OffsetFetch 1-7 have one group at the top instead of `groups` (KIP-709).

The place of a whole group's error depends on the version. `failed_group` makes an answer in the newest shape that can
be lowered to each version:

* 8 and higher: in the group's row, without topics, as on Kafka.
* 2-7: at the top, and in each requested partition's row, because some old clients only read the error there.
* 1: in each requested partition's row, because the version has no other place.
"""

from __future__ import annotations

from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_WITH_GROUPS = 8
FIRST_WITH_GROUP_ERROR = 2


def raise_request(_version: int, request: OffsetFetchRequest) -> OffsetFetchRequest:
    """Move the group at the top to the only row. Topics None: all topics in which the group has committed offsets."""
    topics = request.topics
    rows = (
        None
        if topics is None
        else [OffsetFetchRequestTopics(t.name, partition_indexes=t.partition_indexes) for t in topics]
    )
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=rows)
    return OffsetFetchRequest(groups=[group], require_stable=request.require_stable)


def failed_group(group: OffsetFetchRequestGroup, error_code: int) -> OffsetFetchResponseGroup:
    """Return the answer for a group that failed as a whole. Each requested partition's row has the error, too."""
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, committed_leader_epoch=-1, error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error_code)


def lower_response(version: int, response: OffsetFetchResponse) -> OffsetFetchResponse:
    """From version 8 on, remove the topics of failed groups. Below, move the only group to the top."""
    if version >= FIRST_WITH_GROUPS:
        for failed in response.groups:
            if failed.error_code:
                failed.topics = []
        return response
    group = response.groups[0] if response.groups else OffsetFetchResponseGroup()
    topics = [
        OffsetFetchResponseTopic(topic.name, [_older(p, group.error_code) for p in topic.partitions])
        for topic in group.topics
    ]
    error_code = group.error_code if version >= FIRST_WITH_GROUP_ERROR else 0
    return OffsetFetchResponse(throttle_time_ms=response.throttle_time_ms, topics=topics, error_code=error_code)


def _older(row: OffsetFetchResponsePartitions, group_error_code: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=row.partition_index,
        committed_offset=row.committed_offset,
        committed_leader_epoch=row.committed_leader_epoch,
        metadata=row.metadata,
        error_code=row.error_code or group_error_code,
    )
