"""The command line of the commands that change groups: `muster groups offsets reset | delete`, `remove-member` and
`delete`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

RESET: Final = "offsets reset"
DELETE_OFFSETS: Final = "offsets delete"
REMOVE: Final = "remove-member"
DELETE: Final = "delete"
VERBS: Final = (RESET, DELETE_OFFSETS, REMOVE, DELETE)

_DRY: Final = "Nothing is changed without --execute: the command shows what would be done."


def add_parsers(verbs: Any, shared: argparse.ArgumentParser) -> None:
    """Add the commands to those of `muster groups`."""
    _add_reset(verbs, shared)
    delete_offsets = verbs.add_parser(
        DELETE_OFFSETS,
        parents=[shared],
        help="delete committed offsets of a group; shown only, without --execute",
        description=f"Delete committed offsets of a group. A topic that a member is subscribed to is refused. {_DRY}",
    )
    delete_offsets.add_argument("group", metavar="GROUP")
    _add_topics(delete_offsets)
    _add_execute(delete_offsets)
    remove = verbs.add_parser(
        REMOVE,
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
    delete = verbs.add_parser(
        DELETE,
        parents=[shared],
        help="delete groups without members, and their offsets; shown only, without --execute",
        description=f"Delete groups and their committed offsets. A group that has members is refused. {_DRY}",
    )
    delete.add_argument("groups", nargs="*", metavar="GROUP")
    delete.add_argument("--all-groups", action="store_true", help="all groups of consumers")
    _add_execute(delete)


def _add_reset(verbs: Any, shared: argparse.ArgumentParser) -> None:
    reset = verbs.add_parser(
        RESET,
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


def _add_topics(parser: Any) -> None:
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="this topic, or some partitions; repeatable"
    )
    parser.add_argument("--all-topics", action="store_true", help="all partitions that have a committed offset")


def _add_execute(parser: Any) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--execute", action="store_true", help="do it")
    how.add_argument("--dry-run", action="store_true", help="only show what would be done: this is so without it, too")


SCENARIOS: Final = (
    *("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration", "from_file"),
)


def check_groups(options: argparse.Namespace) -> None:
    """Check that groups are named, or all are meant. Raises ConfigError."""
    from muster.coordinator.config import ConfigError

    if bool(options.groups) == options.all_groups:
        both = "both were given" if options.groups else "none was given"
        raise ConfigError(f"a GROUP or --all-groups was expected, one of them; {both}")


def check_form(options: argparse.Namespace) -> None:
    """Check that one form of output is chosen. Raises ConfigError."""
    from muster.coordinator.config import ConfigError

    if options.json and options.export:
        raise ConfigError("--json and --export are two forms of the same; give one")


def check(options: argparse.Namespace) -> None:
    """Parse the values, and put the result into the options: `asked`. Raises ConfigError."""
    from muster.coordinator.config import ConfigError

    if options.verb == RESET:
        check_form(options)
        options.asked = _asked(options)
    elif options.verb == DELETE_OFFSETS:
        options.asked = _topics(options)
    elif options.verb == DELETE:
        check_groups(options)
    elif options.verb == REMOVE and bool(options.member_id or options.instance_id) == options.all_members:
        raise ConfigError("--member-id ID, --instance-id ID or --all-members was expected")


def names(options: argparse.Namespace) -> Sequence[str] | None:
    """The named groups; None: all groups."""
    return None if options.all_groups else options.groups


def form(options: argparse.Namespace) -> str:
    """The form of the output: text, json or csv."""
    return "json" if options.json else "csv" if options.export else "text"


def _topics(options: argparse.Namespace) -> Any:
    from muster.cli.groups import plans
    from muster.coordinator.config import ConfigError

    if bool(options.topic) == options.all_topics:
        both = "both were given" if options.topic else "none was given"
        raise ConfigError(f"--topic TOPIC or --all-topics was expected, one of them; {both}")
    return tuple(plans.topics(options.topic)) if options.topic else None


def _asked(options: argparse.Namespace) -> Any:
    """The task of `offsets reset`: a `resetting.Asked`. Raises ConfigError."""
    from muster.cli.groups import plans
    from muster.cli.groups.resetting import Asked, Scenario
    from muster.coordinator.config import ConfigError

    check_groups(options)
    given = [one for one in SCENARIOS if getattr(options, one) not in (None, False)]
    words = [f"--{one.replace('_', '-')}" for one in SCENARIOS]
    if len(given) != 1:
        both = "none was given" if not given else f"{len(given)} were given"
        raise ConfigError(f"one of {', '.join(words)} was expected; {both}")
    (scenario,) = given
    option, value = f"--{scenario.replace('_', '-')}", getattr(options, scenario)
    plan: tuple[plans.Planned, ...] = ()
    topics, number = None, 0
    if scenario == "from_file":
        if options.topic or options.all_topics:
            raise ConfigError("--from-file names the partitions: leave --topic and --all-topics out")
        plan = tuple(plans.read_plan(value))
        if any(one.group is None for one in plan) and (options.all_groups or len(options.groups) > 1):
            raise ConfigError(
                f"--from-file {value}: lines of group,topic,partition,offset were expected for several groups"
            )
    else:
        topics = _topics(options)
    if scenario == "to_offset":
        number = plans.whole_number(option, value)
    elif scenario == "shift_by":
        number = plans.whole_number(option, value, -(1 << 63))
    elif scenario == "to_datetime":
        number = plans.time_ms(option, value)
    elif scenario == "by_duration":
        # imported here: the clock of the server imports its event loop
        from muster.coordinator.system.clock import read_wall

        number = read_wall("now") - plans.duration_ms(option, value)
    named = None if options.all_groups else tuple(options.groups)
    return Asked(named, topics, Scenario(option[2:], number), plan, options.execute, form(options))


def run(options: argparse.Namespace, cluster: Any) -> int:
    """Run the checked command, and return the exit status."""
    if options.verb == RESET:
        from muster.cli.groups.resetting import reset

        return reset(cluster, options.asked)
    from muster.cli.groups import removing

    how = {"execute": options.execute, "as_json": options.json}
    if options.verb == DELETE:
        return removing.delete_groups(cluster, names(options), **how)
    if options.verb == DELETE_OFFSETS:
        return removing.delete_offsets(cluster, options.group, options.asked, **how)
    return removing.remove_members(
        cluster, options.group, options.member_id, options.instance_id, everyone=options.all_members,
        reason=options.reason, **how,
    )  # fmt: skip
