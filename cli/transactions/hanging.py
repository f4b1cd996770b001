"""`muster transactions hanging` finds open transactions that no coordinator will end.

Partition leaders report the producers with an open transaction (DescribeProducers, KIP-664). Coordinators report the
transactions that they know. A transaction that no coordinator knows is checked twice, because it may have ended
meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from muster.cli.output import print_json, print_table, say
from muster.cli.running_server import with_client
from muster.cli.transactions.show import Description, all_transactions, describe_id
from muster.client.connection import Connection, RequestFailed, sentence
from muster.client.kafka_client import KafkaClient
from muster.coordinator.history.words import seconds
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.api import ApiKey
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from muster.protocol.messages.list_transactions import ListTransactionsRequest

MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
BROKER: Final = 4
UNKNOWN: Final = "unknown to its coordinator"
TOO_LONG: Final = f"open for longer than {MAX_TIMEOUT}"
PARTITIONS_AT_ONCE: Final = 1_000


class Open(NamedTuple):
    """An open transaction in a partition. `last_append`: wall ms of the producer's last batch; -1: not known."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_append: int


class Hanging(NamedTuple):
    """A hanging transaction. `open_ms`: the time since its begin or, if that is not known, since its last batch."""

    open: Open
    transactional_id: str | None
    open_ms: int
    why: str


@with_client()
def run_hanging(client: KafkaClient, options: argparse.Namespace) -> int:
    """Run `muster transactions hanging`, and return the exit status."""
    return hanging(client, options.topic, as_json=options.json)


def hanging(client: KafkaClient, topics: Sequence[str] | None, *, as_json: bool) -> int:
    """Print hanging transactions. Exit status 1: some partitions could not be checked."""
    places = _places(client, topics)
    troubles: dict[tuple[str, int], str] = {}
    found = find(client, places, _max_timeout_ms(client.bootstrap, client), troubles)
    for one in found:
        if as_json:
            print_json(_as_json(client, one))
    if not as_json:
        if found:
            _print(client, found)
        elif not troubles:
            say("no transaction hangs")
    for (topic, partition), why in sorted(troubles.items()):
        say(f"muster transactions hanging: {topic}-{partition} cannot be checked: {why}", sys.stderr)
    return 1 if troubles else 0


Places = Mapping[int, Sequence[tuple[str, int]]]
"""Partitions by the node id of their leader; -1: the partitions without a leader."""


def find(
    client: KafkaClient, places: Places, max_timeout_ms: int, troubles: dict[tuple[str, int], str]
) -> list[Hanging]:
    """The hanging transactions, sorted. `troubles` gets partitions that cannot be checked. Raises RequestFailed."""
    troubles.update(dict.fromkeys(places.get(-1, ()), "it has no leader"))
    seen = list(_open_ones(client, places, troubles))
    if not seen:
        return []
    known, now_ms = _known(client, {one.producer_id for one in seen}), wall_now_ms()
    found = [_judge(one, known.get(one.producer_id, ()), max_timeout_ms, now_ms) for one in seen]
    suspects = [one.open for one in found if one is not None and one.why == UNKNOWN]
    if suspects:
        again = {(one.topic, one.partition) for one in suspects}
        where = {node: [place for place in rows if place in again] for node, rows in places.items()}
        still = {one[:5] for one in _open_ones(client, where, troubles)}
        found = [one for one in found if one is not None and (one.why != UNKNOWN or one.open[:5] in still)]
    return sorted(one for one in found if one is not None)


def _judge(one: Open, ids: Iterable[Description], max_timeout_ms: int, now_ms: int) -> Hanging | None:
    for found in ids:
        if one.partition in found.topics.get(one.topic, ()):
            open_ms = 0 if found.began is None else now_ms - found.began
            return Hanging(one, found.transactional_id, open_ms, TOO_LONG) if open_ms > max_timeout_ms else None
    name = next((found.transactional_id for found in ids), None)
    return Hanging(one, name, max(now_ms - one.last_append, 0) if one.last_append >= 0 else 0, UNKNOWN)


def _places(client: KafkaClient, topics: Sequence[str] | None) -> dict[int, list[tuple[str, int]]]:
    found = client.topics(topics)
    missing = sorted(set(topics or ()) - set(found))
    if missing:
        raise RequestFailed(f"--topic {missing[0]}: {client.topic_error(missing[0])}")
    places: dict[int, list[tuple[str, int]]] = {}
    for name, topic in sorted(found.items()):
        for one in topic.partitions:
            places.setdefault(one.leader_id, []).append((name, one.partition_index))
    return places


def _open_ones(client: KafkaClient, places: Places, troubles: dict[tuple[str, int], str]) -> Iterator[Open]:
    for node_id, rows in places.items():
        if node_id < 0:
            continue
        node = client.node(node_id)
        for start in range(0, len(rows), PARTITIONS_AT_ONCE):
            by_topic: dict[str, list[int]] = {}
            for topic, partition in rows[start : start + PARTITIONS_AT_ONCE]:
                by_topic.setdefault(topic, []).append(partition)
            request = DescribeProducersRequest([TopicRequest(topic, some) for topic, some in by_topic.items()])
            answer: DescribeProducersResponse = node.ask(ApiKey.DESCRIBE_PRODUCERS, request)
            yield from _open_in(answer, troubles)


def _open_in(answer: DescribeProducersResponse, troubles: dict[tuple[str, int], str]) -> Iterator[Open]:
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                troubles[topic.name, row.partition_index] = sentence(row.error_code, row.error_message)
            for one in row.active_producers:
                if one.current_txn_start_offset >= 0:
                    yield Open(topic.name, row.partition_index, one.producer_id, one.producer_epoch,
                               one.current_txn_start_offset, one.last_timestamp)  # fmt: skip


def _known(client: KafkaClient, producer_ids: set[int]) -> dict[int, list[Description]]:
    """The transactions of these producers. Raises RequestFailed if a coordinator does not list its transactions."""
    rows, missing = all_transactions(client, ListTransactionsRequest([], sorted(producer_ids)))
    if missing:
        raise RequestFailed(f"{missing[0]}; without it, nobody knows which transactions hang")
    known: dict[int, list[Description]] = {}
    for row in rows:
        known.setdefault(row.producer_id, []).append(describe_id(client, row.transactional_id))
    return known


def _max_timeout_ms(node: Connection, client: KafkaClient) -> int:
    name = str(min(client.nodes))
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, [MAX_TIMEOUT])])
    (result,) = client.node(int(name)).ask(ApiKey.DESCRIBE_CONFIGS, request).results
    if result.error_code or not result.configs:
        why = sentence(result.error_code, result.error_message)
        raise RequestFailed(f"{node.address} does not report {MAX_TIMEOUT}: {why}")
    return int(result.configs[0].value or 0)


def command(client: KafkaClient, one: Open) -> str:
    """The command of Kafka's tool that ends a hanging transaction."""
    return (
        f"kafka-transactions.sh --bootstrap-server {client.bootstrap.address} abort --topic {one.topic} "
        f"--partition {one.partition} --start-offset {one.start_offset}"
    )


def _as_json(client: KafkaClient, one: Hanging) -> dict[str, object]:
    row = {**one.open._asdict(), "transactional_id": one.transactional_id, "open_ms": one.open_ms, "why": one.why}
    return row | {"command": command(client, one.open)}


def _print(client: KafkaClient, found: Sequence[Hanging]) -> None:
    head = ("TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "TRANSACTIONAL ID", "START OFFSET", "OPEN FOR", "WHY")
    rows = [
        (one.open.topic, one.open.partition, one.open.producer_id, one.open.producer_epoch, one.transactional_id,
         one.open.start_offset, seconds(one.open_ms), one.why)
        for one in found
    ]  # fmt: skip
    print_table(head, rows)
    say("")
    say("these commands end them; their records count as aborted then:")
    for one in found:
        say(f"  {command(client, one.open)}")
