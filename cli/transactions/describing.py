"""`muster transactions describe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from muster.cli.output import say
from muster.cli.table import print_json, print_table, ranges
from muster.client.connection import AskingFailed, sentence
from muster.client.kafka_client import TRANSACTIONAL_ID, Cluster
from muster.coordinator.history.words import seconds
from muster.coordinator.system.clock import read_wall, show_wall
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest


class Description(NamedTuple):
    """One transactional id. `began`: wall ms, None when no transaction is open; `coordinator`: HOST:PORT."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began: int | None
    coordinator: str
    topics: dict[str, list[int]]
    """Partitions that the transaction has written to, and that have no marker yet."""


def describe(cluster: Cluster, ids: Sequence[str], *, as_json: bool) -> int:
    """Print each transactional id; exit status 1 when one of them does not exist."""
    status = 0
    for number, name in enumerate(dict.fromkeys(ids)):
        try:
            found = describe_id(cluster, name)
        except AskingFailed as failure:
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


def describe_id(cluster: Cluster, name: str) -> Description:
    """The description of one transactional id. Raises AskingFailed."""
    node, answer = cluster.ask_coordinator(
        name,
        ApiKey.DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest([name]),
        lambda answer: [one.error_code for one in answer.transaction_states],
        TRANSACTIONAL_ID,
    )
    (row,) = answer.transaction_states
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise AskingFailed(f"there is no transactional id {name}: muster transactions list shows those that there are")
    if row.error_code:
        raise AskingFailed(f"transactional id {name} cannot be described: {sentence(row.error_code)}")
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
        open_for = seconds(max(read_wall("now") - found.began, 0))
        say(f"open since {show_wall(found.began, '%Y-%m-%d %H:%M:%S')}, for {open_for}")
    if found.topics:
        print_table(("TOPIC", "PARTITIONS"), [(topic, ranges(rows)) for topic, rows in found.topics.items()])
