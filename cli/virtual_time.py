"""`muster time`: the time of a server under test; see docs/testcontrol.md."""

from __future__ import annotations

import argparse
from typing import Any, Final

from muster.cli.control import Control, asking, options_of_control, path, show

EXAMPLES: Final = """\
examples:
  muster time freeze                       sessions do not end, delays do not pass
  muster time advance 45000                45 s pass at once
  muster time run-until stable payments    until the group is stable, however long that takes
  muster time thaw                         time goes on with the machine's
"""
LONG_S: Final = 600.0
"""How long an advance of time may take."""


def add_parser(commands: Any) -> None:
    """Add `time` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Freeze and move the time of a server that was started with --control."
    time = commands.add_parser(
        "time", help="the time of a server under test", description=about, epilog=EXAMPLES, formatter_class=form
    )
    verbs = time.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    shared = options_of_control()
    verbs.add_parser("show", parents=[shared], help="what time it is, and when the next deadline is")
    verbs.add_parser("freeze", parents=[shared], help="let it stand still")
    verbs.add_parser("thaw", parents=[shared], help="let it go on with the machine's")
    advance = verbs.add_parser("advance", parents=[shared], help="let so much pass at once")
    advance.add_argument("ms", type=int, metavar="MS")
    until = verbs.add_parser("run-until", parents=[shared], help="let it pass until something is so")
    until.add_argument("condition", choices=("stable", "idle"), help="of GROUP; or of all groups")
    until.add_argument("group", nargs="?", metavar="GROUP")
    until.add_argument("--members", type=int, metavar="N", help="with so many members")
    until.add_argument("--partitions", metavar="TOPIC", help="and every partition of this topic has an owner")
    until.add_argument("--limit-ms", type=int, metavar="MS", help="of virtual time (default: 600000)")


def run(options: argparse.Namespace) -> int:
    """Run the command with the control; exit status 1 when the server refuses."""
    return asking(f"muster time {options.verb}", options, lambda control: _run(options, control))


def _run(options: argparse.Namespace, control: Control) -> int:
    if options.verb == "show":
        answer = control.ask("GET", path("time"))
    elif options.verb == "advance":
        answer = control.ask("POST", path("time", "advance"), {"ms": options.ms}, wait_s=LONG_S)
    elif options.verb == "run-until":
        given = {"condition": options.condition, "group": options.group, "members": options.members}
        given |= {"partitions": options.partitions, "limit_ms": options.limit_ms}
        body = {name: value for name, value in given.items() if value is not None}
        answer = control.ask("POST", path("time", "run-until"), body, wait_s=LONG_S)
    else:
        answer = control.ask("POST", path("time", options.verb))
    show(answer, in_json=options.json)
    return 0
