"""The inputs of the tables, made in this process. `stage` makes the same inputs with Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.clock import now_ms
from muster.pipeline.decode import decode_all
from muster.pipeline.frames import DataFrame, F, frame_of
from muster.pipeline.schema import DECODED, OFFSET_COMMIT, OFFSETS_TOPIC, OTHER_COMMIT, RAW, STREAMS_GROUP
from muster.pipeline.sources.ends import Between, Place
from muster.pipeline.sources.segment_files import NoSource, SegmentFile
from muster.pipeline.sources.segments import Reading, read_segments
from muster.pipeline.sources.source import TRANSACTION_TOPICS
from muster.pipeline.sources.topics import ends_of_path, names_of_path, reach_of_path
from muster.pipeline.sources.transactions import PARTS, partitions_of, parts_of
from muster.pipeline.staged import Staged, check_found, of_time, parts_within, present_topics
from muster.pipeline.tables import table
from muster.pipeline.tables.commits import committed_between
from muster.pipeline.tables.epoch_states import epochs_in, topic_names
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events, malformed_events
from muster.pipeline.tables.log_times import with_sound_times
from muster.pipeline.tables.share_states import NOTHING as NO_SHARES
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.share_states import ShareInputs
from muster.pipeline.tables.transactions import TransactionInputs, counts_of
from muster.pipeline.wanted import ALL, Wanted, batch_filter, is_wanted, with_last_before


class Ends(Protocol):
    """The present ends of topics, which were read before the log, and a way to their history."""

    def __call__(self, between: Between, places: Collection[Place], until_ms: int | None) -> pa.Table | None:
        """The rows (ends.ENDS) of some partitions. None means that no end is known.

        `between`: the time of the first commit and of the last one. `until_ms`: later ends are left out.
        """


NO_ENDS: Final[Mapping[Place, int]] = {}


class Log(NamedTuple):
    """A log that can be read without Spark."""

    raw: Callable[[str], Iterable[pa.RecordBatch]]
    """Gives the rows (schema.RAW) of a topic. A topic that does not exist has none."""
    ends: Ends | None
    """Gives the ends of the topics with commits; None: they are not known."""
    names: Callable[[], Mapping[str, str]]
    """Gives the names of topics by their ids."""
    parts: Callable[[], Iterable[dict[str, Any]]] | None = None
    """Gives the transactions in the offsets partitions (rows of transactions.PARTS); None: not known."""
    present_ends: Mapping[Place, int] = NO_ENDS
    """The present ends of partitions, as far as they are known before the log is read."""


def log_of_path(path: str) -> Log:
    """The log in a data directory, or in a copy of one. Raises NoSource."""

    def raw(topic: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_segments(path, Reading(topic))
        except NoSource:
            if topic == OFFSETS_TOPIC:
                raise

    def parts() -> Iterator[dict[str, Any]]:
        for files in partitions_of(path):
            yield from parts_of(path, tuple(SegmentFile(*one) for one in files))

    # the ends are read before the log: otherwise groups may have committed for later records
    reach = reach_of_path(path)

    def ends(between: Between, places: Collection[Place], until_ms: int | None) -> pa.Table | None:
        return ends_of_path(reach.of(places), between, until_ms)

    return Log(raw, ends, lambda: names_of_path(path), parts, reach.reach.ends)


def last_ms(log: Log) -> int:
    """When the newest record about groups was logged; 0 without a record."""
    batches = (batch for topic in (OFFSETS_TOPIC, EVENTS_TOPIC, SHARE_TOPIC) for batch in log.raw(topic))
    return max((pc.max(batch.column("timestamp_ms")).as_py() or 0 for batch in batches), default=0)


def inputs_of(log: Log, wanted: Wanted = ALL) -> Inputs:
    """The inputs of the tables. The caller is in the block `frames.in_this_process`."""
    return staged_of(log, wanted).inputs


def staged_of(log: Log, wanted: Wanted = ALL, name: str | None = None) -> Staged:
    """The inputs of the tables, with all that an analysis needs. The caller is in the block `frames.in_this_process`.

    `name`: the name of the source, which must have a group; None: it need not. Raises NoSource.
    """
    newest_ms = 0

    def read() -> Iterator[pa.RecordBatch]:
        nonlocal newest_ms
        for batch in log.raw(OFFSETS_TOPIC):
            newest_ms = max(newest_ms, pc.max(batch.column("timestamp_ms")).as_py() or 0)
            yield batch

    every = pa.Table.from_batches(map(batch_filter(wanted), decode_all(read())), DECODED)
    is_other = pc.equal(every.column("kind"), OTHER_COMMIT)
    staged = frame_of(every.filter(pc.invert(is_other)))
    rows = Counter(kind for kind in every.column("kind").to_pylist() if kind != OTHER_COMMIT)
    raw = _raw(log, EVENTS_TOPIC)
    of_groups = events(raw).where(is_wanted(wanted, F.col("time_ms")))
    found = None if of_groups.isEmpty() else of_groups
    if name is not None:
        check_found(name, staged, rows, wanted, has_events=found is not None)
    sound, odd_times = with_sound_times(staged, now_ms())
    committed = committed_between(table(sound, OFFSET_COMMIT).where(~F.col("is_tombstone")), "log_timestamp_ms")
    ends = None if log.ends is None or committed is None else log.ends(*committed, wanted.until_ms)
    decoded = with_last_before(sound, wanted)
    bad = malformed_events(raw)
    # after the last record, the present topics are those of the wanted time
    is_whole = wanted.until_ms is None or newest_ms < wanted.until_ms
    return Staged(
        Inputs(
            decoded,
            found,
            None if ends is None else frame_of(ends),
            wanted.since_ms,
            epochs_in(decoded, rows, log.names),
            odd_times,
            _transactions(log, staged, found, wanted),
            _shares(log, decoded, wanted),
            others=frame_of(every.filter(is_other)),
            topics=present_topics(log.names) if rows.get(STREAMS_GROUP) and is_whole else None,
            has_streams=bool(rows.get(STREAMS_GROUP)),
        ),
        bad.where(is_wanted(wanted, F.col("log_timestamp_ms"), of_any_group=F.col("group").isNull())),
        rows,
    )


def _raw(log: Log, topic: str) -> DataFrame:
    return frame_of(pa.Table.from_batches(log.raw(topic), RAW))


def _shares(log: Log, decoded: DataFrame, wanted: Wanted) -> ShareInputs:
    raw = _raw(log, SHARE_TOPIC)
    if raw.isEmpty():
        return NO_SHARES
    # after the last record, the present ends are those of the wanted time
    is_whole = wanted.until_ms is None or raw.where(F.col("timestamp_ms") >= wanted.until_ms).isEmpty()
    ends = log.present_ends if is_whole else {}
    return ShareInputs(raw, {**log.names(), **topic_names(decoded)}, ends, wanted)


def _transactions(log: Log, staged: DataFrame, of_groups: DataFrame | None, wanted: Wanted) -> TransactionInputs:
    found: list[DataFrame | None] = []
    for topic in TRANSACTION_TOPICS:
        rows = of_time(_raw(log, topic), wanted)
        found.append(None if rows.isEmpty() else rows)
    parts = None
    is_transactional = (F.col("kind") == OFFSET_COMMIT) & F.col("is_transactional")
    if log.parts is not None and (found[0] is not None or not staged.where(is_transactional).isEmpty()):
        parts = parts_within(frame_of(pa.Table.from_pylist(list(log.parts()), PARTS)), wanted)
    inputs = TransactionInputs(found[0], found[1], parts, of_groups=bool(wanted.groups))
    return inputs._replace(counts=counts_of(of_groups)) if inputs.has_any and of_groups is not None else inputs
