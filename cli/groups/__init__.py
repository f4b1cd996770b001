"""`muster groups`: show the groups of a running server, and change them. Most of it works with any Kafka."""

from __future__ import annotations

import argparse
from typing import Any

from muster.cli.asking import ask, one_of, options_of_cluster
from muster.cli.groups import changes

STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"),
)
TYPES = ("classic", "consumer", "share", "streams")
"""The states and types of groups in Kafka."""

EXAMPLES = """\
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


def add_parser(commands: Any) -> None:
    """Add `groups` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Look at the groups of a running server, and change them. list, describe, offsets, remove-member and "
    about += "delete work with any Kafka from 3.0 on; history and watch read __group_events, which only Muster has."
    groups = commands.add_parser(
        "groups",
        help="list, describe, change and follow groups",
        description=about,
        epilog=EXAMPLES,
        formatter_class=form,
    )
    shared = options_of_cluster()
    verbs = groups.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", parents=[shared], help="all groups with type and state")
    listing.add_argument(
        "--state", action="append", default=[], metavar="STATE", help=f"only these; repeatable: {', '.join(STATES)}"
    )
    listing.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help=f"only these; repeatable: {', '.join(TYPES)}"
    )
    describe = verbs.add_parser("describe", parents=[shared], help="state and members, with their partitions")
    describe.add_argument("groups", nargs="*", metavar="GROUP")
    describe.add_argument("--all-groups", action="store_true", help="every group, of whatever type")
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
    changes.add_parsers(verbs, shared)
    history = verbs.add_parser("history", parents=[shared], help="what happened in a group, and why")
    history.add_argument("group", metavar="GROUP")
    history.add_argument("--all", action="store_true", help="every event, not only rebalances and what went wrong")
    history.add_argument(
        "--episodes", action="store_true", help="rebalances that belong together, each as one line, and a verdict"
    )
    history.add_argument("--last", type=int, metavar="N", help="only the last N events")
    _add_controls(verbs)
    watch = verbs.add_parser("watch", parents=[shared], help="what happens from now on, as it happens")
    watch.add_argument("group", nargs="?", metavar="GROUP", help="default: all groups")
    watch.add_argument("--all", action="store_true", help="every event, not only rebalances and what went wrong")


def _add_controls(verbs: Any) -> None:
    """Add the commands for a server that was started with --control."""
    # imported here: only argparse is needed at once
    from muster.cli.control import options_of_control

    shared = options_of_control()
    wait = verbs.add_parser("wait-stable", parents=[shared], help="wait until a group under test is stable, or fail")
    wait.add_argument("group", metavar="GROUP")
    wait.add_argument("--members", type=int, metavar="N", help="with so many members (default: one or more)")
    wait.add_argument("--partitions", metavar="TOPIC", help="and every partition of this topic has an owner")
    wait.add_argument("--timeout-ms", type=int, metavar="MS", default=30_000, help="default: %(default)s")
    rebalance = verbs.add_parser("rebalance", parents=[shared], help="force a rebalance of a group under test")
    rebalance.add_argument("group", metavar="GROUP")
    for verb, what in (("expire", "end the session of a member under test"), ("remove", "remove a member under test")):
        parser = verbs.add_parser(verb, parents=[shared], help=what)
        parser.add_argument("group", metavar="GROUP")
        parser.add_argument("member", metavar="MEMBER", help="its member id, group.instance.id or client id")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    if options.verb in ("wait-stable", "rebalance", "expire", "remove"):
        from muster.cli.groups.controlled import run_controlled

        return run_controlled(options)

    from muster.coordinator.config.error import ConfigError

    def check() -> None:
        for name in (*getattr(options, "groups", ()), getattr(options, "group", None)):
            if name == "":
                raise ConfigError("GROUP '': the name of a group was expected")
        if options.verb == "list":
            options.state = one_of("--state", options.state, STATES)
            options.type = one_of("--type", options.type, TYPES)
        elif options.verb == "describe":
            changes.check_groups(options)
        elif options.verb == "offsets":
            changes.check_groups(options)
            changes.check_form(options)
        elif options.verb in changes.VERBS:
            changes.check(options)

    return ask(f"muster groups {options.verb}", options, lambda cluster: _run(options, cluster), check)


def _run(options: argparse.Namespace, cluster: Any) -> int:
    if options.verb == "list":
        from muster.cli.groups.listing import list_groups

        return list_groups(cluster, options.state, options.type, as_json=options.json)
    if options.verb == "describe":
        from muster.cli.groups.describing import describe

        return describe(cluster, changes.names(options), as_json=options.json)
    if options.verb == "offsets":
        from muster.cli.groups.offsets import offsets

        return offsets(cluster, changes.names(options), form=changes.form(options))
    if options.verb in changes.VERBS:
        return changes.run(options, cluster)
    from muster.cli.groups.history import history, watch

    if options.verb == "history" and options.episodes:
        from muster.cli.groups.verdicts import print_episodes

        return print_episodes(cluster, options.group, as_json=options.json)
    if options.verb == "history":
        return history(cluster, options.group, as_json=options.json, everything=options.all, last=options.last)
    return watch(cluster, options.group, as_json=options.json, everything=options.all)
