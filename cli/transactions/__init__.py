"""`muster transactions`: show the transactions of a running server. All but `history` works with any Kafka."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

from muster.cli.asking import ask, one_of, options_of_cluster

EXAMPLES = """\
examples:
  muster transactions list                                  of localhost:9092
  muster transactions list --state Ongoing --open-longer-than 5m
  muster transactions describe pay-1 pay-2 --json
  muster transactions history pay-1                         its transactions: when, how long, who ended them and why
  muster transactions history pay-1 --all --last 50         every step, the last 50 events
  muster transactions hanging --bootstrap-server broker.example:9092
                                                            open ones that nobody will end, and how to end them
"""

STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
"""The states of transactional ids in Kafka."""
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_parser(commands: Any) -> None:
    """Add `transactions` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Look at the transactions of a running server. list, describe and hanging work with any Kafka from 3.0 on; "
    about += "history reads __transaction_events, which only Muster has."
    transactions = commands.add_parser(
        "transactions",
        help="list, describe and explain transactions",
        description=about,
        epilog=EXAMPLES,
        formatter_class=form,
    )
    shared = options_of_cluster()
    verbs = transactions.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", parents=[shared], help="all transactional ids with producer and state")
    listing.add_argument(
        "--state", action="append", default=[], metavar="STATE", help=f"only these; repeatable: {', '.join(STATES)}"
    )
    listing.add_argument(
        "--producer-id", action="append", default=[], type=int, metavar="ID", help="only these; repeatable"
    )
    listing.add_argument(
        "--pattern", metavar="REGEX", help="only ids that match as a whole (RE2); needs Kafka 4.1 or later, or Muster"
    )
    listing.add_argument(
        "--open-longer-than", metavar="TIME", help="only with a transaction open for longer: 500ms, 10s, 5m, 2h"
    )
    describe = verbs.add_parser("describe", parents=[shared], help="state, producer, timeout and partitions")
    describe.add_argument("ids", nargs="+", metavar="ID")
    history = verbs.add_parser("history", parents=[shared], help="what happened to a transactional id, and why")
    history.add_argument("id", metavar="ID")
    history.add_argument("--all", action="store_true", help="every step of each transaction, not only its end")
    history.add_argument("--last", type=int, metavar="N", help="only the last N events")
    hanging = verbs.add_parser(
        "hanging",
        parents=[shared],
        help="transactions in partitions that their coordinator does not know, or that are open for too long",
        description="Transactions that are open in a partition though their coordinator does not know of them, or that "
        "are open for longer than transaction.max.timeout.ms. Consumers with read_committed do not get past them. Each "
        "is shown with the command of Apache Kafka that ends it.",
    )
    hanging.add_argument("--topic", action="append", metavar="TOPIC", help="only these; repeatable; default: all")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""

    def check() -> None:
        if options.verb == "list":
            options.state = one_of("--state", options.state, STATES)
        if getattr(options, "open_longer_than", None) is not None:
            options.open_longer_than = milliseconds("--open-longer-than", options.open_longer_than)

    return ask(f"muster transactions {options.verb}", options, lambda cluster: _run(options, cluster), check)


def milliseconds(option: str, text: str) -> int:
    """A duration with its unit. Raises ConfigError."""
    from muster.coordinator.config import ConfigError

    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if match is None:
        raise ConfigError(f"{option} {text}: a time such as 500ms, 10s, 5m or 2h was expected")
    return int(match[1]) * _UNITS_MS[match[2]]


def _run(options: argparse.Namespace, cluster: Any) -> int:
    if options.verb == "list":
        from muster.cli.transactions.listing import list_transactions

        return list_transactions(
            cluster,
            options.state,
            options.producer_id,
            options.pattern,
            options.open_longer_than,
            as_json=options.json,
        )
    if options.verb == "describe":
        from muster.cli.transactions.describing import describe

        return describe(cluster, options.ids, as_json=options.json)
    if options.verb == "hanging":
        from muster.cli.transactions.hanging import hanging

        return hanging(cluster, options.topic, as_json=options.json)
    from muster.cli.transactions.history import history

    return history(cluster, options.id, as_json=options.json, everything=options.all, last=options.last)
