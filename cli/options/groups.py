"""The options of `muster groups` and `muster transactions`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.parser import options_of_cluster, options_of_control

GROUP_STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"),
)
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""The states and types of groups in Kafka."""
_GROUPS_EXAMPLES = """\
examples:
  muster groups list                                        of localhost:9092
  muster groups describe payments orders --json
  muster groups offsets payments --bootstrap-server broker-1.example:9092,broker-2.example:9092
  muster groups offsets --all-groups --export               CSV, to keep or to give to reset --from-file
  muster groups offsets reset payments --topic orders:0,1 --to-earliest
                                                            show what would be; do it: --execute
  muster groups remove-member payments --member-id app-1-8b96b554 --execute
  muster groups delete payments --execute                   the group, and its offsets
  muster groups list --bootstrap-server broker.example:9093 --command-config client.properties
  muster groups history payments                            its rebalances: when, why, who, what moved
  muster groups history payments --all --last 50            everything that happened, the last 50 events
  muster groups history payments --episodes                 restarts, scalings, crash loops …: each as one line
  muster groups wait-stable payments --members 3            of a server under test (serve --control): or fail
  muster groups watch                                       all groups, as it happens, until Ctrl-C
"""
TRANSACTION_STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
_TRANSACTIONS_EXAMPLES = """\
examples:
  muster transactions list                                  of localhost:9092
  muster transactions list --state Ongoing --open-longer-than 5m
  muster transactions describe pay-1 pay-2 --json
  muster transactions history pay-1                         its transactions: when, how long, who ended them and why
  muster transactions history pay-1 --all --last 50         every step, the last 50 events
  muster transactions hanging --bootstrap-server broker.example:9092
                                                            open ones that nobody will end, and how to end them
"""
_DRY: Final = "Nothing is changed without --execute: the command shows what would be done."


def add_groups(commands: Any) -> None:
    """Add `groups` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Show the groups of a running server, and change them. list, describe, offsets, remove-member and "
    about += "delete work with any Kafka from 3.0 on; history and watch read __group_events, which only Muster has."
    groups = commands.add_parser(
        "groups",
        help="list, describe, change and follow groups",
        description=about,
        epilog=_GROUPS_EXAMPLES,
        formatter_class=form,
    )
    shared = options_of_cluster()
    verbs = groups.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", parents=[shared], help="all groups with type and state")
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="STATE",
        help=f"only these; repeatable: {', '.join(GROUP_STATES)}",
    )
    listing.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help=f"only these; repeatable: {', '.join(GROUP_TYPES)}"
    )
    listing.set_defaults(run="groups.read_groups:run_list")
    describe = verbs.add_parser("describe", parents=[shared], help="state and members, with their partitions")
    describe.add_argument("groups", nargs="*", metavar="GROUP")
    describe.add_argument("--all-groups", action="store_true", help="every group, of whatever type")
    describe.set_defaults(run="groups.show_groups:run_describe")
    offsets = verbs.add_parser(
        "offsets",
        parents=[shared],
        help="committed offsets, ends of the partitions, lag",
        description="Committed offsets of groups. A group that is named reset or delete is given after --: muster "
        "groups offsets -- reset",
    )
    offsets.add_argument("groups", nargs="*", metavar="GROUP")
    offsets.add_argument("--all-groups", action="store_true", help="of all groups")
    offsets.add_argument("--export", action="store_true", help="CSV, as reset --from-file reads it")
    offsets.set_defaults(run="groups.offsets:run_offsets")
    _add_changes(verbs, shared)
    history = verbs.add_parser("history", parents=[shared], help="what happened in a group, and why")
    history.add_argument("group", metavar="GROUP")
    history.add_argument("--all", action="store_true", help="every event, not only rebalances and what went wrong")
    history.add_argument(
        "--episodes", action="store_true", help="rebalances that belong together, each as one line, and a verdict"
    )
    history.add_argument("--last", type=int, metavar="N", help="only the last N events")
    history.set_defaults(run="groups.show_groups:run_history")
    _add_controls(verbs)
    watch = verbs.add_parser("watch", parents=[shared], help="what happens from now on, as it happens")
    watch.add_argument("group", nargs="?", metavar="GROUP", help="default: all groups")
    watch.add_argument("--all", action="store_true", help="every event, not only rebalances and what went wrong")
    watch.set_defaults(run="groups.show_groups:run_watch")


def _add_controls(verbs: Any) -> None:
    shared = options_of_control()
    wait = verbs.add_parser("wait-stable", parents=[shared], help="wait until a group under test is stable, or fail")
    wait.add_argument("group", metavar="GROUP")
    wait.add_argument("--members", type=int, metavar="N", help="with so many members (default: one or more)")
    wait.add_argument("--partitions", metavar="TOPIC", help="and every partition of this topic has an owner")
    wait.add_argument("--timeout-ms", type=int, metavar="MS", default=30_000, help="default: %(default)s")
    wait.set_defaults(run="under_test:run_group")
    rebalance = verbs.add_parser("rebalance", parents=[shared], help="force a rebalance of a group under test")
    rebalance.add_argument("group", metavar="GROUP")
    rebalance.set_defaults(run="under_test:run_group")
    for verb, what in (("expire", "end the session of a member under test"), ("remove", "remove a member under test")):
        parser = verbs.add_parser(verb, parents=[shared], help=what)
        parser.add_argument("group", metavar="GROUP")
        parser.add_argument("member", metavar="MEMBER", help="its member id, group.instance.id or client id")
        parser.set_defaults(run="under_test:run_group")


def _add_changes(verbs: Any, shared: argparse.ArgumentParser) -> None:
    _add_reset(verbs, shared)
    delete_offsets = verbs.add_parser(
        "offsets delete",
        parents=[shared],
        help="delete committed offsets of a group; shown only, without --execute",
        description=f"Delete committed offsets of a group. A topic that a member is subscribed to is refused. {_DRY}",
    )
    delete_offsets.add_argument("group", metavar="GROUP")
    _add_topics(delete_offsets)
    _add_execute(delete_offsets)
    delete_offsets.set_defaults(run="groups.delete_groups:run_delete_offsets")
    remove = verbs.add_parser(
        "remove-member",
        parents=[shared],
        help="remove members from a group; shown only, without --execute",
        description="Remove members from a group: it rebalances without them. A member that still runs will join "
        f"again. {_DRY}",
    )
    remove.add_argument("group", metavar="GROUP")
    remove.add_argument("--member-id", action="append", default=[], metavar="ID", help="this member; repeatable")
    remove.add_argument(
        "--instance-id",
        action="append",
        default=[],
        metavar="ID",
        help="the member of this group.instance.id; repeatable",
    )
    remove.add_argument("--all-members", action="store_true", help="every member")
    remove.add_argument("--reason", metavar="TEXT", help="for the log of the coordinator")
    _add_execute(remove)
    remove.set_defaults(run="groups.delete_groups:run_remove_members")
    delete = verbs.add_parser(
        "delete",
        parents=[shared],
        help="delete groups without members, and their offsets; shown only, without --execute",
        description=f"Delete groups and their committed offsets. A group that has members is refused. {_DRY}",
    )
    delete.add_argument("groups", nargs="*", metavar="GROUP")
    delete.add_argument("--all-groups", action="store_true", help="all groups of consumers")
    _add_execute(delete)
    delete.set_defaults(run="groups.delete_groups:run_delete_groups")


def _add_reset(verbs: Any, shared: argparse.ArgumentParser) -> None:
    reset = verbs.add_parser(
        "offsets reset",
        parents=[shared],
        help="set committed offsets of inactive groups; shown only, without --execute",
        description="Set the committed offsets of groups without members, as kafka-consumer-groups --reset-offsets "
        f"does: which groups, which partitions, and where to. {_DRY} An offset outside of its partition is moved to "
        "the beginning or the end.",
    )
    reset.add_argument("groups", nargs="*", metavar="GROUP")
    reset.add_argument("--all-groups", action="store_true", help="all groups of consumers")
    _add_topics(reset)
    reset.add_argument("--to-earliest", action="store_true", help="the beginning of each partition")
    reset.add_argument("--to-latest", action="store_true", help="the end of each partition")
    reset.add_argument("--to-current", action="store_true", help="what is committed; the end where nothing is")
    reset.add_argument("--to-offset", metavar="N", help="this offset")
    reset.add_argument("--shift-by", metavar="N", help="so far on from what is committed, or back: -10")
    reset.add_argument(
        "--to-datetime", metavar="TIME", help="the first record from then on: 2026-01-31T08:00:00.000 (UTC)"
    )
    reset.add_argument(
        "--by-duration", metavar="TIME", help="the first record of this last time: PT1H30M, P7D, 30m, 2h"
    )
    reset.add_argument(
        "--from-file", type=Path, metavar="FILE", help="CSV: topic,partition,offset or group,topic,partition,offset"
    )
    _add_execute(reset)
    reset.add_argument("--export", action="store_true", help="print the new offsets as CSV, for --from-file")
    reset.set_defaults(run="groups.reset_offsets:run_reset")


def _add_topics(parser: Any) -> None:
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="this topic, or some partitions; repeatable"
    )
    parser.add_argument("--all-topics", action="store_true", help="all partitions that have a committed offset")


def _add_execute(parser: Any) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--execute", action="store_true", help="do it")
    how.add_argument("--dry-run", action="store_true", help="only show what would be done: this is so without it, too")


def add_transactions(commands: Any) -> None:
    """Add `transactions` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Show the transactions of a running server. list, describe and hanging work with any Kafka from 3.0 on; "
    about += "history reads __transaction_events, which only Muster has."
    transactions = commands.add_parser(
        "transactions",
        help="list, describe and explain transactions",
        description=about,
        epilog=_TRANSACTIONS_EXAMPLES,
        formatter_class=form,
    )
    shared = options_of_cluster()
    verbs = transactions.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", parents=[shared], help="all transactional ids with producer and state")
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="STATE",
        help=f"only these; repeatable: {', '.join(TRANSACTION_STATES)}",
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
    listing.set_defaults(run="transactions.show:run_list")
    describe = verbs.add_parser("describe", parents=[shared], help="state, producer, timeout and partitions")
    describe.add_argument("ids", nargs="+", metavar="ID")
    describe.set_defaults(run="transactions.show:run_describe")
    history = verbs.add_parser("history", parents=[shared], help="what happened to a transactional id, and why")
    history.add_argument("id", metavar="ID")
    history.add_argument("--all", action="store_true", help="every step of each transaction, not only its end")
    history.add_argument("--last", type=int, metavar="N", help="only the last N events")
    history.set_defaults(run="transactions.show:run_history")
    hanging = verbs.add_parser(
        "hanging",
        parents=[shared],
        help="transactions in partitions that their coordinator does not know, or that are open for too long",
        description="Transactions that are open in a partition though their coordinator does not know of them, or that "
        "are open for longer than transaction.max.timeout.ms. Consumers with read_committed do not get past them. Each "
        "is shown with the command of Apache Kafka that ends it.",
    )
    hanging.add_argument("--topic", action="append", metavar="TOPIC", help="only these; repeatable; default: all")
    hanging.set_defaults(run="transactions.hanging:run_hanging")
