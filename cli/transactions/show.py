"""Runs `muster transactions list`, `describe` and `history`."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.cli.groups.option_values import short_duration_ms
from muster.cli.options.groups import TRANSACTION_STATES
from muster.cli.output import print_json, print_rows, print_table, say
from muster.cli.running_server import one_of, with_client
from muster.client.connection import RequestFailed, sentence
from muster.client.event_reader import OF_GROUPS, OF_TRANSACTIONS, Events, Value
from muster.client.kafka_client import TRANSACTIONAL_ID, KafkaClient
from muster.coordinator.history.transaction_timeline import OFFSETS_TOPIC, TransactionTimeline
from muster.coordinator.history.words import ranges, seconds
from muster.coordinator.system.wall_time import format_wall, wall_now_ms
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NO_DURATION: Final = -1
COUNTS: Final = {"transaction_committed": "transactions_committed", "transaction_aborted": "transactions_aborted"}
"""Each event for the end of a transaction, and the matching event in the history of its groups."""
EARLIER_MS: Final = 100
"""How much earlier than the group's event a transaction may end, because two clocks are compared."""
COUNTED_MS: Final = 5_000
"""One event can stand for several transactions. The last of them ended at most this long after the first."""


def _check_list(options: argparse.Namespace) -> None:
    options.state = one_of("--state", options.state, TRANSACTION_STATES)
    if options.open_longer_than is not None:
        options.open_longer_than = short_duration_ms("--open-longer-than", options.open_longer_than)


@with_client(_check_list)
def run_list(client: KafkaClient, options: argparse.Namespace) -> int:
    """Run `muster transactions list`, and return the exit status."""
    return list_transactions(
        client, options.state, options.producer_id, options.pattern, options.open_longer_than, as_json=options.json
    )


@with_client()
def run_describe(client: KafkaClient, options: argparse.Namespace) -> int:
    """Run `muster transactions describe`, and return the exit status."""
    return describe(client, options.ids, as_json=options.json)


def list_transactions(
    client: KafkaClient,
    states: Sequence[str],
    producer_ids: Sequence[int],
    pattern: str | None,
    open_ms: int | None,
    *,
    as_json: bool,
) -> int:
    """Print all transactional ids, sorted by name. Exit status 1: a node does not list its transactions."""
    request = ListTransactionsRequest(
        list(states), list(producer_ids), NO_DURATION if open_ms is None else open_ms, pattern
    )
    rows, missing = all_transactions(client, request)
    cells = [(one.transactional_id, one.producer_id, one.transaction_state) for one in rows]
    print_rows(("TRANSACTIONAL ID", "PRODUCER ID", "STATE"), cells, as_json=as_json)
    if not (rows or missing or as_json):
        kind = " of that kind" if states or producer_ids or pattern is not None or open_ms is not None else ""
        say(f"there are no transactional ids{kind}")
    for why in missing:
        say(f"muster transactions list: {why}", sys.stderr)
    return 1 if missing else 0


def all_transactions(client: KafkaClient, request: ListTransactionsRequest) -> tuple[list[TransactionState], list[str]]:
    """The transactional ids of all nodes, sorted, and why a node lists none. Raises RequestFailed."""
    found: list[TransactionState] = []
    missing: list[str] = []
    for node in client.every_node():
        try:
            answer: ListTransactionsResponse = node.ask(ApiKey.LIST_TRANSACTIONS, request)
        except UnrepresentableField as error:
            raise RequestFailed(
                f"{node.address} cannot list transactions by duration or pattern: it is too old; leave "
                "--open-longer-than and --pattern out"
            ) from error
        if answer.error_code:
            missing.append(f"{node.address} does not list its transactions: {sentence(answer.error_code)}")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise RequestFailed(
                f"--state {unknown}: {node.address} does not know that state; Empty, Ongoing, PrepareCommit, "
                "PrepareAbort, CompleteCommit and CompleteAbort are states"
            )
        found.extend(answer.transaction_states)
    return sorted(found, key=lambda one: one.transactional_id), missing


class Description(NamedTuple):
    """A transactional id. `began`: wall ms, or None when no transaction is open; `coordinator`: HOST:PORT."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began: int | None
    coordinator: str
    topics: dict[str, list[int]]


def describe(client: KafkaClient, ids: Sequence[str], *, as_json: bool) -> int:
    """Print each transactional id. Exit status 1: an id does not exist, or cannot be described."""
    status = 0
    for number, name in enumerate(dict.fromkeys(ids)):
        try:
            found = describe_id(client, name)
        except RequestFailed as failure:
            say(f"muster transactions describe: {failure}", sys.stderr)
            status = 1
            continue
        if as_json:
            print_json(found._asdict())
        else:
            if number:
                say("")
            _print(found)
    return status


def describe_id(client: KafkaClient, name: str) -> Description:
    """Describe one transactional id. Raises RequestFailed."""
    node, answer = client.ask_coordinator(
        name,
        ApiKey.DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest([name]),
        lambda answer: [one.error_code for one in answer.transaction_states],
        TRANSACTIONAL_ID,
    )
    (row,) = answer.transaction_states
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise RequestFailed(f"there is no transactional id {name}: muster transactions list shows the existing ones")
    if row.error_code:
        raise RequestFailed(f"transactional id {name} cannot be described: {sentence(row.error_code)}")
    began = row.transaction_start_time_ms if row.transaction_start_time_ms > 0 and row.topics else None
    return Description(
        name,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        began,
        node.address,
        {one.topic: sorted(one.partitions) for one in sorted(row.topics, key=lambda one: one.topic)},
    )


def _print(found: Description) -> None:
    about = f"timeout {seconds(found.timeout_ms)}, coordinator {found.coordinator}"
    say(
        f"transactional id {found.transactional_id}: {found.state}, producer {found.producer_id} epoch "
        f"{found.producer_epoch} ({about})"
    )
    if found.began is not None:
        open_for = seconds(max(wall_now_ms() - found.began, 0))
        say(f"open since {format_wall(found.began, '%Y-%m-%d %H:%M:%S')}, for {open_for}")
    if found.topics:
        print_table(("TOPIC", "PARTITIONS"), [(topic, ranges(rows)) for topic, rows in found.topics.items()])


class Groups:
    """Finds the groups that ended transactions have committed offsets for."""

    def __init__(self, client: KafkaClient, ended: Iterable[Value]) -> None:
        """`ended`: events of transactions. The group history is read only if one of them has committed offsets."""
        partitions: set[int] = set()
        producers: set[int] = set()
        for value in ended:
            topics = (value.get("topics") or {}) if value["kind"] in COUNTS else {}
            if topics.get(OFFSETS_TOPIC):
                partitions.update(topics[OFFSETS_TOPIC])
                producers.add(value["producer_id"])
        self._counts = list(_counts(client, partitions, producers)) if partitions else []

    def of(self, value: Mapping[str, Any]) -> Sequence[str]:
        """The groups of the transaction that this event ended; empty if it has no groups, or they are not known."""
        kind, epoch, at_ms = COUNTS[value["kind"]], value["producer_epoch"], value["time"]
        found = {
            one["group"]
            for one in self._counts
            if one["kind"] == kind
            and one["producer_id"] == value["producer_id"]
            and one["first_epoch"] <= epoch + 1  # the epoch in the transaction's marker may be one higher
            and epoch <= one["last_epoch"]
            and one["time"] - EARLIER_MS <= at_ms <= one["time"] + COUNTED_MS
        }
        return sorted(found)


def _counts(client: KafkaClient, partitions: set[int], producers: set[int]) -> Iterable[Value]:
    kinds = set(COUNTS.values())
    try:
        events = Events(client, OF_GROUPS)
        for partition in sorted(partitions):
            for value in events.of_partition(partition):
                if value["kind"] in kinds and value.get("producer_id") in producers:
                    yield value
    except RequestFailed:  # the group history is switched off, or this user may not read it
        return


@with_client()
def run_history(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print the history of a transactional id. Exit status 1: there is no event of this id."""
    name = options.id
    values: Iterable[Value] = Events(client, OF_TRANSACTIONS).upto_now(name)
    if options.last is not None:
        values = deque(values, options.last)
    values = list(values)
    if not values:
        raise RequestFailed(
            f"there is no history of a transactional id {name}: no producer has used it since its events are kept; "
            "muster transactions list shows the existing ids"
        )
    if options.json:
        for value in values:
            print_json(value)
        return 0
    timeline = TransactionTimeline(everything=options.all, groups=Groups(client, values).of)
    for value in values:
        for line in timeline.feed(value):
            say(line)
    for line in timeline.end(wall_now_ms()):
        say(line)
    return 0
