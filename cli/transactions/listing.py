"""`muster transactions list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from muster.cli.output import say
from muster.cli.table import print_json, print_table
from muster.client.connection import AskingFailed, sentence
from muster.client.kafka_client import Cluster
from muster.protocol.api import ApiKey
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NO_DURATION: Final = -1


def list_transactions(
    cluster: Cluster,
    states: Sequence[str],
    producer_ids: Sequence[int],
    pattern: str | None,
    open_ms: int | None,
    *,
    as_json: bool,
) -> int:
    """Print all transactional ids, by name; exit status 1 when some server does not list its own."""
    request = ListTransactionsRequest(
        list(states), list(producer_ids), NO_DURATION if open_ms is None else open_ms, pattern
    )
    rows, missing = all_transactions(cluster, request)
    if as_json:
        for one in rows:
            print_json({"transactional_id": one.transactional_id, "producer_id": one.producer_id,
                        "state": one.transaction_state})  # fmt: skip
    elif rows:
        told = [(one.transactional_id, one.producer_id, one.transaction_state) for one in rows]
        print_table(("TRANSACTIONAL ID", "PRODUCER ID", "STATE"), told)
    elif not missing:
        kind = " of that kind" if states or producer_ids or pattern is not None or open_ms is not None else ""
        say(f"there are no transactional ids{kind}")
    for why in missing:
        say(f"muster transactions list: {why}", sys.stderr)
    return 1 if missing else 0


def all_transactions(cluster: Cluster, request: ListTransactionsRequest) -> tuple[list[TransactionState], list[str]]:
    """The transactional ids of every node, by name; and why some nodes do not list theirs. Raises AskingFailed."""
    found: list[TransactionState] = []
    missing: list[str] = []
    for node in cluster.every_node():
        try:
            answer: ListTransactionsResponse = node.ask(ApiKey.LIST_TRANSACTIONS, request)
        except UnrepresentableField as error:
            raise AskingFailed(
                f"{node.address} cannot list transactions by duration or pattern: it is too old; leave "
                "--open-longer-than and --pattern out"
            ) from error
        if answer.error_code:
            missing.append(f"{node.address} does not list its transactions: {sentence(answer.error_code)}")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise AskingFailed(
                f"--state {unknown}: {node.address} does not know that state; Empty, Ongoing, PrepareCommit, "
                "PrepareAbort, CompleteCommit and CompleteAbort are states"
            )
        found.extend(answer.transaction_states)
    return sorted(found, key=lambda one: one.transactional_id), missing
