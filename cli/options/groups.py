"""The options of `muster groups` and `muster transactions`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from muster.cli.parser import add_commands, options_of_cluster, options_of_control

GROUP_STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"),
)
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""All types of groups in Kafka."""
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
  muster groups explain payments --since 2h                 why it rebalanced: of any Kafka, without Spark
  muster groups record payments orders-3 42                 what became of one record in a share group
  muster groups record payments orders-3 42 --log /var/lib/kafka/data
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
_CLIENTS_EXAMPLES: Final = """\
examples:
  muster clients list                                       of localhost:9092
  muster clients describe payments-1                        by its client.id
  muster clients describe --json fKJH1s0yQ5yXyJ4sHo7Tzw     by its client instance id, as JSON
"""
_DRY: Final = "Nothing is changed without --execute: the command shows what would be done."
_SOME_TOPICS: Final = """
    --topic+ TOPIC[:0,1]  this topic, or some partitions; repeatable
    --all-topics  all partitions that have a committed offset
""".strip("\n")
_EXECUTE: Final = """
    / --execute  do it
    / --dry-run  only show what would be done, as without --execute
""".strip("\n")
_GROUPS: Final = f"""
list  groups.read_groups:run_list  all groups with type and state
    --state+ STATE  only these; repeatable: {", ".join(GROUP_STATES)}
    --type+ TYPE  only these; repeatable: {", ".join(GROUP_TYPES)}
describe  groups.show_groups:run_describe  state and members, with their partitions
    groups* GROUP
    --all-groups  every group, of any type
offsets  groups.offsets:run_offsets  committed offsets, ends of the partitions, lag
    | Committed offsets of groups. A group that is named reset or delete is given after --: muster groups offsets --
    | reset
    groups* GROUP
    --all-groups  of all groups
    --export  CSV, as reset --from-file reads it
offsets reset  groups.reset_offsets:run_reset  set committed offsets of inactive groups; shown only, without --execute
    | Set the committed offsets of groups without members, as kafka-consumer-groups --reset-offsets does: which groups,
    | which partitions, and where to. {_DRY} An
    | offset outside of its partition is moved to the beginning or the end.
    groups* GROUP
    --all-groups  all groups of consumers
{_SOME_TOPICS}
    --to-earliest  the beginning of each partition
    --to-latest  the end of each partition
    --to-current  the committed offset; without a committed offset, the end
    --to-offset N  this offset
    --shift-by N  N records after the committed offset, or before it: -10
    --to-datetime TIME  the first record at or after this time: 2026-01-31T08:00:00.000 (UTC)
    --by-duration TIME  the first record of the last TIME: PT1H30M, P7D, 30m, 2h
    --from-file FILE  CSV: topic,partition,offset or group,topic,partition,offset
{_EXECUTE}
    --export  print the new offsets as CSV, for --from-file
offsets delete  groups.delete_groups:run_delete_offsets  delete committed offsets of a group; shown only, without
        --execute
    | Delete committed offsets of a group. A topic that a member is subscribed to is refused. {_DRY}
    group GROUP
{_SOME_TOPICS}
{_EXECUTE}
remove-member  groups.delete_groups:run_remove_members  remove members from a group; shown only, without --execute
    | Remove members from a group: it rebalances without them. A member that still runs will join again. {_DRY}
    group GROUP
    --member-id+ ID  this member; repeatable
    --instance-id+ ID  the member of this group.instance.id; repeatable
    --all-members  every member
    --reason TEXT  for the log of the coordinator
{_EXECUTE}
delete  groups.delete_groups:run_delete_groups  delete groups without members, and their offsets; shown only, without
        --execute
    | Delete groups and their committed offsets. A group that has members is refused. {_DRY}
    groups* GROUP
    --all-groups  all groups of consumers
{_EXECUTE}
record  groups.record:run  what became of one record in a share group
    | How the deliveries of one record in a share group ended, and when, from __share_group_state. This works with any
    | Kafka that has share groups, for a user that may read this topic. On Muster it also says who held the record.
    group GROUP
    partition TOPIC-PARTITION  such as orders-0
    offset OFFSET
    --log DIR  read a data directory, or a copy, of Muster or of a broker of Kafka; not a cluster
history  groups.show_groups:run_history  what happened in a group, and why
    group GROUP
    --all  every event, not only rebalances and what went wrong
    --episodes  rebalances that belong together, each as one line, and a verdict
    --last N  only the last N events
explain  groups.explain:run  why a group rebalanced: verdict, each rebalance with its cause and cost, advice
    | Why a group rebalanced, from the offsets log of any Kafka, by the rules of muster analyze. Nothing is changed, and
    | no group is joined. The log is read from 30 minutes before --since, so that the members are known.
    group GROUP
    --since TIME  the rebalances of the last TIME: 30m, 2h, 1d (default: %(default)s)
    --log DIR  read a data directory or copied partitions, not a cluster; the time ends with the last record
"""
_UNDER_TEST: Final = """
wait-stable  under_test:run_group  wait until a group under test is stable, or fail
    group GROUP
    --members N  with so many members (default: one or more)
    --partitions TOPIC  and every partition of this topic has an owner
    --timeout-ms MS  default: %(default)s
rebalance  under_test:run_group  force a rebalance of a group under test
    group GROUP
expire  under_test:run_group  end the session of a member under test
    group GROUP
    member MEMBER  its member id, group.instance.id or client id
remove  under_test:run_group  remove a member under test
    group GROUP
    member MEMBER  its member id, group.instance.id or client id
wait-acknowledged  under_test:run_share_group  wait until a share group under test is done with a topic, or fail
    group GROUP
    topic TOPIC  each present record of it is accepted or archived
    --timeout-ms MS  default: %(default)s
expire-locks  under_test:run_share_group  end locks of records of a share group under test
    group GROUP
    --member MEMBER  only its records: member id or client id
    --topic TOPIC  only records of this topic
    --partition N  only of this partition
    --offset N  only this record, or the first one
    --last-offset N  the last record
deliver-again  under_test:run_share_group  have a record of a share group under test delivered again
    group GROUP
    topic TOPIC
    partition PARTITION
    offset OFFSET
"""
_WATCH: Final = """
watch  groups.show_groups:run_watch  what happens from now on, as it happens
    group? GROUP  default: all groups
    --all  every event, not only rebalances and what went wrong
"""
_TRANSACTIONS: Final = f"""
list  transactions.show:run_list  all transactional ids with producer and state
    --state+ STATE  only these; repeatable: {", ".join(TRANSACTION_STATES)}
    --producer-id+ ID  only these; repeatable
    --pattern REGEX  only ids that match as a whole (RE2); needs Kafka 4.1 or later, or Muster
    --open-longer-than TIME  only with a transaction open for longer: 500ms, 10s, 5m, 2h
describe  transactions.show:run_describe  state, producer, timeout and partitions
    ids+ ID
history  transactions.show:run_history  what happened to a transactional id, and why
    id ID
    --all  every step of each transaction, not only its end
    --last N  only the last N events
hanging  transactions.hanging:run_hanging  transactions in partitions that their coordinator does not know, or that
        are open for too long
    | Transactions that are open in a partition though their coordinator does not know of them, or that are open for
    | longer than transaction.max.timeout.ms. Consumers with read_committed do not get past them. Each is shown with the
    | command of Apache Kafka that ends it.
    --topic+ TOPIC  only these; repeatable; default: all
"""

_CLIENTS: Final = """
list  clients:run_list  the clients that have pushed metrics
describe  clients:run_describe  what a client says of itself: polls, heartbeats, rebalances, and all its metrics
    id ID  its client instance id, or its client.id
"""


def add_groups(commands: Any) -> None:
    """Add `groups` and its subcommands to the parser."""
    about = "Show the groups of a running server, and change them. list, describe, offsets, remove-member and "
    about += "delete work with any Kafka from 3.0 on; history and watch read __group_events, which only Muster has."
    line = "groups  -  list, describe, change and follow groups"
    groups = add_commands(commands, line, description=about, epilog=_GROUPS_EXAMPLES)["groups"]
    shared, number = [options_of_cluster()], {"type": int}
    verbs = groups.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    own = {"last": number, "since": {"default": "1h"}, "log": {"type": Path}}
    add_commands(verbs, _GROUPS, own, parents=shared)
    numbers = ("members", "partition", "offset", "last_offset")
    waits = {**dict.fromkeys(numbers, number), "timeout_ms": {"type": int, "default": 30_000}}
    add_commands(verbs, _UNDER_TEST, waits, parents=[options_of_control()])
    add_commands(verbs, _WATCH, parents=shared)


def add_clients(commands: Any) -> None:
    """Add `clients` and its subcommands to the parser."""
    about = (
        "Show the metrics that clients push to a running server (KIP-714). Clients push what kafka-client-metrics.sh "
        "asks them for. Only Muster keeps the metrics."
    )
    line = "clients  -  what clients say of themselves"
    parser = add_commands(commands, line, description=about, epilog=_CLIENTS_EXAMPLES)["clients"]
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    add_commands(verbs, _CLIENTS, parents=[options_of_cluster()])


def add_transactions(commands: Any) -> None:
    """Add `transactions` and its subcommands to the parser."""
    about = "Show the transactions of a running server. list, describe and hanging work with any Kafka from 3.0 on; "
    about += "history reads __transaction_events, which only Muster has."
    line = "transactions  -  list, describe and explain transactions"
    parser = add_commands(commands, line, description=about, epilog=_TRANSACTIONS_EXAMPLES)["transactions"]
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    how = {"producer_id": {"type": int}, "last": {"type": int}, "topic": {"default": None}}
    add_commands(verbs, _TRANSACTIONS, how, parents=[options_of_cluster()])
