"""What a start makes of the metadata log and of the folders beside it: whether something was lost, and the records that
write it anew.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from muster.coordinator.log import Log, LogConfig, LogManager, MalformedCheckpoint
from muster.coordinator.topics import adopt_offsets as adoption
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import METADATA_TOPIC, METADATA_TOPIC_ID
from muster.coordinator.topics.rebuild_topics import folders_of, made_again, tell
from muster.coordinator.topics.stray_folders import never_held_records
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord

_logger = structlog.get_logger("muster.topics")


def open_metadata_log(logs: LogManager, config: LogConfig) -> tuple[Log, bool]:
    """The metadata log, and whether it begins or ends elsewhere than it should. Raises DamagedLog or LogOffline."""
    was_synced_to = logs.noted_end(METADATA_TOPIC, 0)
    try:
        logs.topic_id_on_disk(METADATA_TOPIC, 0)
    except MalformedCheckpoint as error:  # it is the same everywhere
        _logger.warning("the id of a topic was written again", topic=METADATA_TOPIC, reason=str(error))
        logs.note_topic_id(METADATA_TOPIC, 0, METADATA_TOPIC_ID)
    log = logs.open_log(METADATA_TOPIC, 0, config=config, topic_id=METADATA_TOPIC_ID, wait_for_sync=True)
    return log, log.start_offset > 0 or log.end_offset < was_synced_to


def tells_nothing(logs: LogManager, state: MetadataState) -> bool:
    """Whether the catalogue knows no topic and never did, although there are records of some."""
    is_empty = not state.topics and not state.deleted
    partitions = [one for one in logs.on_disk() if one[0] != METADATA_TOPIC] if is_empty else []
    return any(not never_held_records(logs, f"{name}-{index}") for name, index in partitions)


def lost_topics(
    logs: LogManager,
    state: MetadataState,
    home: Home,
    internal: Callable[[str], NewTopic | None],
    draw_uuid: Callable[[], bytes],
    wall_ms: int,
) -> list[Message]:
    """The metadata log has lost records, which is told: what the folders tell of their topics. `internal`: see
    `made_again`.
    """
    records = made_again(folders_of(logs), state, home, internal, draw_uuid)
    # ids that were given out before must not be given to others: nobody gets through one in a millisecond
    start = max(state.next_producer_id, wall_ms)
    records.append(ProducerIdsRecord(broker_id=home.node_id, broker_epoch=0, next_producer_id=start))
    tell(records)
    return records


def adopted(
    logs: LogManager, state: MetadataState, wanted: NewTopic, home: Home, number_is_given: bool
) -> list[Message]:
    """The offsets topic, which the catalogue does not know, for the partitions on the disk; nothing if there are none.
    `wanted`: how it is made otherwise; `number_is_given`: an operator has said how many partitions there are to be.
    """
    count, topic_id = adoption.found(logs)
    if not count:
        return []
    if number_is_given:
        wanted.partitions = max(count, wanted.partitions)
    else:
        wanted.partitions = adoption.partitions_by_content(logs, wanted.partitions)
    if topic_id is not None and topic_id not in state.topics_by_id:
        wanted.topic_id = topic_id
    records = decide_creation(wanted, home, wanted.partitions, 1)
    adoption.with_epochs(records, logs)
    adoption.take_over(logs, wanted.topic_id, wanted.partitions)
    return records
