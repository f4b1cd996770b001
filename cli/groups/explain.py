"""`muster groups explain` says why a group rebalanced, from the offsets log of a cluster or of a data directory."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from muster.cli.groups.offsets import fetch_committed
from muster.cli.groups.option_values import check_group, duration_ms
from muster.cli.groups.read_groups import share_offsets
from muster.cli.groups.share_log import STATE_LOG, range_of
from muster.cli.output import fail, print_json, printing, say_sentence
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed
from muster.client.fetch import fetch_ranges
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import EARLIEST, LATEST, NEWEST, Lookup, end_offsets, offsets_at
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.system.uuids import as_text
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.hashing import group_partition

if TYPE_CHECKING:
    from muster.pipeline.explain.answer import Answer, Span
    from muster.pipeline.explain.inputs import Ends, Log

COMMAND: Final = "muster groups explain"
EXTRA: Final = "pip install 'muster-kafka[explain]'"
OFFSETS: Final = "__consumer_offsets"
EVENTS: Final = "__group_events"
MARGIN_MS: Final = 1_800_000
"""The log is read from this long before `--since` on. So the members at that time and their commits are known."""
OWN_RECORDS: Final = 50_000
"""At least this many of the newest records of the group's own partition are read. They have the group's last state."""
OTHER_RECORDS: Final = 200_000
"""The other partitions are read if they have at most this many records in the wanted time."""


def run(options: argparse.Namespace) -> int:
    """Run `muster groups explain`, and return the exit status."""
    try:
        from muster.pipeline.explain import answer  # noqa: F401  # numpy and pyarrow are not in every installation
    except ImportError as error:
        return fail(COMMAND, f"it needs numpy and pyarrow, and {error.name or error} is not installed: {EXTRA}")
    if options.log is None:
        return _of_cluster(options)
    try:
        check_group(options)
        _since_ms(options)
    except ConfigError as error:
        return fail(COMMAND, error, 2)
    return printing(COMMAND, lambda: _of_directory(options))


def _since_ms(options: argparse.Namespace) -> int:
    ms = duration_ms("--since", options.since)
    if ms <= 0:
        raise ConfigError(f"--since {options.since}: a duration such as 30m or 2h was expected")
    return ms


def _of_directory(options: argparse.Namespace) -> int:
    from muster.pipeline.explain.inputs import last_ms, log_of_path
    from muster.pipeline.sources.segment_files import NoSource

    if not options.log.exists():
        return fail(COMMAND, f"{options.log} does not exist: a data directory or copied partitions were expected")
    try:
        log = log_of_path(str(options.log))
        # a copied log may be old, so the time is counted from its last record
        until_ms = last_ms(log) + 1
        return _print(log, _span(options, until_ms), options, [])
    except (NoSource, OSError) as error:
        return fail(COMMAND, error)


@with_client(check_group, _since_ms)
def _of_cluster(client: KafkaClient, options: argparse.Namespace) -> int:
    span = _span(options, wall_now_ms() + 1)
    log, notes = _log_of_cluster(client, options.group, span)
    return _print(log, span, options, notes)


def _span(options: argparse.Namespace, until_ms: int) -> Span:
    from muster.pipeline.explain.answer import Span

    return Span(until_ms - _since_ms(options), until_ms, MARGIN_MS)


def _print(log: Log, span: Span, options: argparse.Namespace, notes: Sequence[str]) -> int:
    from muster.pipeline.explain.answer import answer, json_of, text_of

    found: Answer | None = answer(log, options.group, span, notes)
    if found is None:
        where = options.bootstrap_server if options.log is None else options.log
        read = f"{options.since} and the {MARGIN_MS // 60_000} minutes before"
        return fail(COMMAND, f"{where} has no record of a group {options.group} in the last {read}")
    if options.json:
        print_json(json_of(found))
        return 0
    for line in text_of(found):
        say_sentence(line)
    return 0


def _log_of_cluster(client: KafkaClient, group: str, span: Span) -> tuple[Log, list[str]]:
    """The log of the wanted time, and what was not read."""
    from muster.pipeline.explain.fetched import log_of_bytes

    notes: list[str] = []
    # the ends are read before the log: otherwise the group may have committed for later records
    ends = None
    with suppress(RequestFailed):
        ends = _ends(Lookup(client, fetch_committed(client, group)))
    topics = client.topics(None)
    if OFFSETS not in topics:
        raise RequestFailed(
            f"{client.address} shows no topic {OFFSETS}: no group has committed there, or this user lacks the right "
            f"READ for the topic {OFFSETS}"
        )
    fetched = {OFFSETS: fetch_ranges(client, OFFSETS, _ranges(client, topics, OFFSETS, group, span, notes))}
    if EVENTS in topics:
        own = group_partition(group, len(topics[EVENTS].partitions))
        ranges = _ranges_since(client, EVENTS, [own], span.since_ms - span.margin_ms)
        # who may not read the events gets an answer without them
        with suppress(RequestFailed):
            fetched[EVENTS] = fetch_ranges(client, EVENTS, ranges)
    names = {as_text(one.topic_id): name for name, one in topics.items()}
    # who may not read the state log, or asks about a group of another type, gets an answer without it
    present_ends: Mapping[Partition, int] = {}
    with suppress(RequestFailed):
        present_ends = _add_states(client, group, topics, fetched, notes)
    return log_of_bytes(fetched, ends, names, present_ends), notes


def _add_states(
    client: KafkaClient, group: str, topics: Mapping[str, Any], fetched: dict[str, Any], notes: list[str]
) -> Mapping[Partition, int]:
    """Read the state log of a share group. Returns the present ends of its partitions. Raises RequestFailed."""
    from muster.pipeline.explain.answer import DELIVERIES

    places = [*share_offsets(client, group)] if STATE_LOG in topics else []
    ends = end_offsets(client, places)
    keys = (StateKey(group, topics[topic].topic_id, number) for topic, number in places if topic in topics)
    count = len(topics[STATE_LOG].partitions) if places else 0
    ranges = {
        partition: range_of(client, partition) for partition in {group_partition(str(key), count) for key in keys}
    }
    if sum(end - start for start, end in ranges.values()) > OTHER_RECORDS:
        notes.append(f"{DELIVERIES}: the state log has too many records to read")
        return {}
    fetched[STATE_LOG] = fetch_ranges(client, STATE_LOG, ranges)
    return ends


def _ends(lookup: Lookup) -> Ends:
    """Read the present ends of the group's partitions. Their history is looked up when the commits are known."""
    from muster.pipeline.sources.ends import Lookups, Reach, ends_of_lookups

    def offsets(time_ms: int) -> dict[Partition, int]:
        return {place: found.offset for place, found in lookup.at(time_ms).items()}

    reach = Reach(wall_now_ms(), offsets(LATEST))
    lookups = Lookups(lambda _: offsets(EARLIEST), lambda _: lookup.at(NEWEST), lambda _, then_ms: offsets(then_ms))
    return lambda between, places, until_ms: ends_of_lookups(lookups, reach.of(places), between, until_ms)


def _ranges(
    client: KafkaClient, topics: Mapping[str, Any], topic: str, group: str, span: Span, notes: list[str]
) -> dict[int, tuple[int, int]]:
    """The offsets to read of each partition: of the group's own, more than of the others."""
    own = group_partition(group, len(topics[topic].partitions))
    partitions = [one.partition_index for one in topics[topic].partitions]
    ranges = _ranges_since(client, topic, partitions, span.since_ms - span.margin_ms)
    if own not in ranges:
        raise RequestFailed(f"{topic}-{own}, which has the records of group {group}, cannot be read: no leader answers")
    first = offsets_at(client, [(topic, own)], EARLIEST).get((topic, own), 0)
    start, end = ranges[own]
    others = sum(end - start for partition, (start, end) in ranges.items() if partition != own)
    if others > OTHER_RECORDS:
        notes.append("whether other groups had trouble at the same time: their records are too many to read")
        ranges = {}
    ranges[own] = max(first, min(start, end - OWN_RECORDS)), end
    return ranges


def _ranges_since(
    client: KafkaClient, topic: str, partitions: Sequence[int], since_ms: int
) -> dict[int, tuple[int, int]]:
    places = [(topic, one) for one in partitions]
    last, newer = end_offsets(client, places), offsets_at(client, places, max(since_ms, 0))
    return {place[1]: (end if newer.get(place, -1) < 0 else newer[place], end) for place, end in last.items()}
