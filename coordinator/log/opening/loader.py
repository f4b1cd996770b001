"""Opening a partition's log: what its directory holds, where it ends, and recovery when the last stop was not clean.

After a clean stop only the newest segment is looked at, and only behind its last index entry. Otherwise all from the
recovery point on is gone through with every CRC checked.

What a clean stop left, and what lies below the recovery point, was whole and on the disk once: bytes there that are no
whole batches are damage and are never cut. A tail behind the recovery point may be an append that a kill cut short.
"""

from __future__ import annotations

import contextlib
from collections import deque

import structlog

from muster.coordinator.log.directory import checkpoints
from muster.coordinator.log.directory.last_stop import LastStop
from muster.coordinator.log.errors import CorruptBatch, DamagedLog, UnreadableLog
from muster.coordinator.log.opening import leftovers
from muster.coordinator.log.opening.leftovers import ASIDE_SUFFIX
from muster.coordinator.log.opening.recovery import (
    Checked,
    check_batch,
    check_segment,
    only_zeros,
    whole_batch_at,
    whole_batch_follows,
)
from muster.coordinator.log.records.headers import HEADER_SIZE, BatchHeader
from muster.coordinator.log.segments import walk
from muster.coordinator.log.segments.leader_epochs import LeaderEpochs, load_epochs, store_epochs
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import LOG_SUFFIX, SUFFIXES, Segment, segment_name
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog

LONG_BYTES = 256 * 1024 * 1024
"""Recovery of more than that tells how far it is, each time so much is done."""
_CHUNK = 1024 * 1024
_logger = structlog.get_logger("muster.log")


def load_log(
    storage: Storage,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    last_stop: LastStop,
    *,
    wall_ms: int = 0,
    sync: SharedSync | None = None,
    wait_for_sync: bool = False,
) -> UnifiedLog:
    """The log in `directory`, which must exist. DamagedLog when a batch does not hold together that was whole once;
    LogOffline or OSError when the disk fails.
    """
    segments = _segments(storage, directory, config, last_stop.start_offset, wall_ms)
    with contextlib.ExitStack() as opened:
        for segment in segments:
            opened.callback(segment.file.close)
        epochs = load_epochs(storage, directory)
        noted = epochs.entries()
        if last_stop.was_clean:
            end_offset = _end_of(segments)
        else:
            end_offset = _recover(
                storage, segments, epochs, last_stop.recovery_point, topic, partition, has_room=wait_for_sync
            )
        start_offset, doubtful_start = _start_of(segments, end_offset, last_stop, topic, partition)
        _tell_of_lost_end(max(start_offset, end_offset), last_stop.recovery_point, topic, partition)
        if start_offset > end_offset:
            # what lay between was deleted on purpose, and the tail was lost: offsets must not be given out twice
            segments = _set_aside(storage, segments, start_offset, topic, partition)
            end_offset = start_offset
        epochs.truncate_from_end(end_offset + 1)
        epochs.truncate_from_start(start_offset)
        if epochs.entries() != noted:
            store_epochs(storage, directory, epochs)
        opened.pop_all()
    return UnifiedLog(
        topic,
        partition,
        LogSegments(
            storage,
            directory,
            segments,
            config,
            start_offset=start_offset,
            end_offset=end_offset,
            doubtful_start=doubtful_start,
        ),
        epochs,
        recovery_point=end_offset if last_stop.was_clean else min(last_stop.recovery_point, end_offset),
        sync=sync,
        wait_for_sync=wait_for_sync,
    )


def _segments(storage: Storage, directory: str, config: LogConfig, start_offset: int, wall_ms: int) -> list[Segment]:
    """The segments in order, or one new one; leftovers of an interrupted change are put right."""
    leftovers.clear(storage, directory)
    segments: list[Segment] = []
    for entry in storage.entries(directory):
        base_offset = leftovers.base_offset_of(entry.name)
        if base_offset is not None and entry.name.endswith(LOG_SUFFIX):
            name = f"{directory}/{segment_name(base_offset)}"
            segment = Segment(storage, name, base_offset, config, entry.modified_ms or wall_ms)
            if entry.size:
                segment.adopt(entry.size)
            segments.append(segment)
    if not segments:
        segment = Segment(storage, f"{directory}/{segment_name(start_offset)}", start_offset, config, wall_ms)
        segment.create()
        segments.append(segment)
    return segments


def _start_of(
    segments: list[Segment], end_offset: int, last_stop: LastStop, topic: str, partition: int
) -> tuple[int, int]:
    """Where the log begins; and the same, if only the checkpoint says so and segments lie before (-1: all is well)."""
    first, noted = segments[0].base_offset, last_stop.start_offset
    if len(segments) > 1 and segments[1].base_offset <= noted <= end_offset:
        # when records are deleted, their segments go before that is noted
        _logger.warning(
            "the start of a log is in doubt",
            topic=topic,
            partition=partition,
            noted=noted,
            what=f"{checkpoints.START_OFFSETS} says that the log begins at offset {noted}, and there are segments "
            "before it: they are kept, and not read",
            what_to_do="if no records were deleted, stop, take the line of the partition out of that file, start again",
        )
        return noted, noted
    return max(noted, first), -1


def _set_aside(
    storage: Storage, segments: list[Segment], start_offset: int, topic: str, partition: int
) -> list[Segment]:
    """Begin anew at `start_offset`, and keep the files of the segments under other names."""
    newest = segments[-1]
    for segment in segments:
        segment.file.close()
        for suffix in SUFFIXES[1:]:
            storage.remove(segment.name + suffix)
        storage.rename(segment.name + LOG_SUFFIX, segment.name + LOG_SUFFIX + ASIDE_SUFFIX)
    directory = newest.name.rpartition("/")[0]
    _logger.warning(
        "segments were set aside",
        topic=topic,
        partition=partition,
        start_offset=start_offset,
        what=f"the log ends before its start, as {checkpoints.START_OFFSETS} says it: it goes on at {start_offset}, "
        f"and the older segments are kept as *{LOG_SUFFIX}{ASIDE_SUFFIX}",
        what_to_do="remove them when you need them no more; if no records were deleted, stop, take that ending "
        "off their names, remove the new segment and the line of the partition in that file, and start again",
    )
    fresh = Segment(
        storage, f"{directory}/{segment_name(start_offset)}", start_offset, newest.config, newest.created_ms
    )
    fresh.create()
    return [fresh]


def _end_of(segments: list[Segment]) -> int:
    """The offset after the last batch of a log that was closed as it should be. DamagedLog when that is not whole."""
    newest = segments[-1]
    last = next((segment for segment in reversed(segments) if segment.size), newest)
    if last.size == 0:
        return newest.base_offset
    broken = ""
    try:
        index = last.index()
    except CorruptBatch as error:
        start, broken = 0, str(error)  # it had to be made anew; the walk finds the place
    else:
        start = index.positions[-1] if len(index) else 0
    ((position, header),) = deque(walk.batches(last, start, last.size), maxlen=1)
    data = last.file.pread(header.size, position)
    _, reason = check_batch(data, 0, len(data), last.base_offset, last.base_offset)
    if reason or broken:
        raise DamagedLog(last.place(position if reason else 0), reason or broken)
    if last is newest:
        return last.restore_marks()
    last.release()
    return newest.base_offset


def _tell_of_lost_end(end_offset: int, recovery_point: int, topic: str, partition: int) -> None:
    """Kafka serves what is left without a word; whoever runs this shall know that it is not all."""
    if end_offset < recovery_point:
        _logger.error(
            "records that were synced are gone",
            topic=topic,
            partition=partition,
            end_offset=end_offset,
            recovery_point=recovery_point,
            what=f"{recovery_point - end_offset} records that were synced are gone: the log ends before them",
        )


def _recover(
    storage: Storage,
    segments: list[Segment],
    epochs: LeaderEpochs,
    recovery_point: int,
    topic: str,
    partition: int,
    *,
    has_room: bool,
) -> int:
    """Check what lies behind the recovery point; cut a torn tail; the log's end offset."""

    def note(header: BatchHeader) -> None:
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)

    next_offset = segments[0].base_offset
    followers = [segment.base_offset for segment in segments[1:]]
    doubtful = sum(one.size for one, base in zip(segments, followers, strict=False) if base > recovery_point)
    doubtful += segments[-1].size
    told = done = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        # one that had room in advance has given it back for good once a record of the next one is synced
        if not is_last and segments[index + 1].base_offset + has_room <= recovery_point:
            continue
        size = segment.size
        if doubtful >= LONG_BYTES and (told == 0 or done - told >= LONG_BYTES):
            _logger.info("a log is being checked", topic=topic, partition=partition, bytes_checked=done, bytes=doubtful)
            told = max(done, 1)
        done += size
        if size == 0:
            next_offset = max(next_offset, segment.base_offset)
            continue
        checked = check_segment(segment, size, max(next_offset, segment.base_offset), note, has_room=has_room)
        next_offset = checked.next_offset
        if checked.left:
            _cut_tail(storage, segments, index, size, checked, recovery_point, topic, partition)
        if not is_last:
            segment.store_indexes()
            segment.release()
    return max(next_offset, segments[-1].base_offset)


def _keep_tail(storage: Storage, segment: Segment, position: int, size: int) -> str:
    """What is cut off stays beside, in the file whose path is returned. Raises OSError."""
    kept = storage.file(_free_name(storage, f"{segment.name}{LOG_SUFFIX}.{position}"))
    with contextlib.closing(kept):
        for at in range(position, size, _CHUNK):
            kept.pwrite(segment.file.pread(min(_CHUNK, size - at), at), at - position)
        kept.sync()
    storage.sync_directory(segment.name.rpartition("/")[0])
    return kept.path


def _free_name(storage: Storage, path: str) -> str:
    """One that nothing was set aside under earlier."""
    directory, _, name = path.rpartition("/")
    names = {entry.name for entry in storage.entries(directory)}
    number, free = 1, name + ASIDE_SUFFIX
    while free in names:
        number += 1
        free = f"{name}.{number}{ASIDE_SUFFIX}"
    return f"{directory}/{free}"


def _cut_tail(
    storage: Storage,
    segments: list[Segment],
    index: int,
    size: int,
    checked: Checked,
    recovery_point: int,
    topic: str,
    partition: int,
) -> None:
    segment = segments[index]
    position = size - checked.left
    reason = checked.reason
    if checked.is_unknown:
        raise UnreadableLog(segment.place(position), reason)
    later = [one for one in segments[index + 1 :] if not only_zeros(one.file, 0, min(one.size, HEADER_SIZE))]
    if later and not checked.is_short:
        raise DamagedLog(segment.place(position), f"{reason or 'zeros'}, and segments follow")
    if reason and whole_batch_at(segment.file, position, size) is not None:
        # it may be the one before it that is damaged
        before = segment.locate(checked.next_offset - 1) if position else None
        place = segment.place(position if before is None else before[0])
        raise DamagedLog(place, f"{reason}, and the batch is whole")
    follower = whole_batch_follows(segment.file, position, size, segment.base_offset) if reason else None
    if follower is not None:
        raise DamagedLog(segment.place(position), f"{reason}, and a whole batch follows at byte {follower}")
    if checked.next_offset < recovery_point:
        reason = f"{reason or 'zeros'}, and all up to offset {recovery_point - 1} was synced"
        raise DamagedLog(segment.place(position), reason)
    kept = ""
    if reason and not only_zeros(segment.file, position, size):
        try:
            kept = _keep_tail(storage, segment, position, size)
        except OSError as error:
            # a full disk is what tears most tails: it must not keep the log from being opened
            if not checked.is_torn:
                cause = error.strerror or str(error)
                raise DamagedLog(segment.place(position), f"{reason}, and it cannot be set aside: {cause}") from None
    segment.file.truncate(position)
    if reason and not checked.is_torn:
        _logger.error(
            "a damaged tail was set aside",
            topic=topic,
            partition=partition,
            path=segment.file.path,
            position=position,
            bytes=checked.left,
            reason=reason,
            end_offset=checked.next_offset,
            kept=kept,
            what="no append that a crash cut short leaves such bytes: the log goes on before them, and they are kept",
            what_to_do="restore the file from a backup if it held records; remove what is kept when you need it no "
            "more",
        )
    elif later:
        # A power cut: this end had not reached the disk when the segments behind it did, so nothing of either was
        # acknowledged as synced. What is whole stays.
        _logger.error(
            "a torn segment was cut off",
            topic=topic,
            partition=partition,
            path=segment.file.path,
            position=position,
            reason=reason or "zeros",
            lost_from_offset=checked.next_offset,
            lost_before_offset=later[0].base_offset,
        )
    elif reason:
        _logger.warning(
            "a torn tail was cut off",
            topic=topic,
            partition=partition,
            path=segment.file.path,
            position=position,
            bytes=checked.left,
            reason=reason,
            end_offset=checked.next_offset,
        )
