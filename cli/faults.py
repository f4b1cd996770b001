"""`muster faults`: rules and scenarios of faults on a server under test; see docs/testcontrol.md."""

from __future__ import annotations

import argparse
from typing import Any, Final

from muster.cli.control import WRONG, Control, ControlFailed, asking, options_of_control, path, show

EXAMPLES: Final = """\
examples:
  muster faults add --api OffsetCommit --group payments --error NOT_COORDINATOR --times 3
  muster faults add --api Heartbeat --client-id slow --delay 2000
  muster faults add --api OffsetCommit --lose-answer --once
  muster faults add --client-id old --older-broker 2.4
  muster faults add --api JoinGroup --hold              until: muster faults release f1
  muster faults start slow-coordinator group=payments ms=800
  muster faults log                                     which rule hit which request
  muster faults clear
"""
LONG_S: Final = 60.0
"""How long the start of a scenario may take."""
_MATCHES: Final = {
    "api": "requests of this API of Kafka: OffsetCommit, Fetch*",
    "group": "those that name this group",
    "member": "those of this member id",
    "instance": "those of this group.instance.id",
    "topic": "those that name this topic",
    "transactional-id": "those that name this transactional id",
    "client-id": "those of clients with this client.id",
    "principal": "those of this user: User:alice",
}
"""The options that choose requests, with their help."""


def add_parser(commands: Any) -> None:
    """Add `faults` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Make requests fail on a server that was started with --control."
    faults = commands.add_parser(
        "faults", help="faults on a server under test", description=about, epilog=EXAMPLES, formatter_class=form
    )
    verbs = faults.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    shared = options_of_control()
    add = verbs.add_parser("add", parents=[shared], help="put a rule in force", epilog=EXAMPLES, formatter_class=form)
    _add_rule(add)
    verbs.add_parser("list", parents=[shared], help="the rules in force")
    for verb, what in (("release", "let go what a rule holds"), ("remove", "take a rule away")):
        verbs.add_parser(verb, parents=[shared], help=what).add_argument("id", metavar="RULE")
    verbs.add_parser("clear", parents=[shared], help="take all rules away, end all scenarios")
    verbs.add_parser("log", parents=[shared], help="which rule hit which request")
    verbs.add_parser("scenarios", parents=[shared], help="scenarios that there are, and those that run")
    start = verbs.add_parser("start", parents=[shared], help="start a scenario")
    start.add_argument("scenario", metavar="SCENARIO")
    start.add_argument("parameters", nargs="*", metavar="NAME=VALUE")
    verbs.add_parser("end", parents=[shared], help="end a scenario").add_argument("id", metavar="ID")


def _add_rule(parser: argparse.ArgumentParser) -> None:
    match = parser.add_argument_group("which requests (all that is given must fit; * for any characters; repeatable)")
    for name, what in _MATCHES.items():
        match.add_argument(f"--{name}", action="append", metavar=name.upper().replace("-", "_"), help=what)
    match.add_argument("--node", type=int, action="append", metavar="ID", help="those that this broker gets")
    match.add_argument("--min-version", type=int, metavar="N", help="those of this version of the API or a later one")
    match.add_argument(
        "--max-version", type=int, metavar="N", help="those of this version of the API or an earlier one"
    )
    group = parser.add_argument_group("what happens")
    then = group.add_mutually_exclusive_group(required=True)
    then.add_argument("--error", metavar="NAME", help="it is answered with this error of Kafka")
    then.add_argument("--delay", type=int, metavar="MS", help="it is kept for so long; --where after: its answer")
    then.add_argument("--lose-answer", action="store_true", help="it is done, and the connection cut before the answer")
    then.add_argument("--cut", action="store_true", help="the connection ends; --where before, middle or after")
    then.add_argument("--trickle", type=int, metavar="BYTES", help="its answer comes so many bytes at a time")
    then.add_argument("--hold", action="store_true", help="its answer is kept until released; --where before: itself")
    then.add_argument("--throttle", type=int, metavar="MS", help="its answer has this throttle_time_ms")
    then.add_argument("--note", action="store_true", help="nothing: it is in the log")
    then.add_argument("--older-broker", metavar="RELEASE", help="the broker serves what this release of Kafka did")
    group.add_argument("--where", choices=("before", "middle", "after"), help="before or after the handler")
    group.add_argument("--every-ms", type=int, metavar="MS", help="with --trickle: between two pieces (default: 10)")
    when = parser.add_argument_group("when (default: at each)").add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="at the first")
    when.add_argument("--times", type=int, metavar="N", help="at the first N")
    when.add_argument("--on-call", type=int, metavar="N", help="at the N-th only")
    when.add_argument("--every", type=int, metavar="N", help="at each N-th")
    when.add_argument("--with-probability", type=float, metavar="P", help="at each with this chance; see --seed")
    when.add_argument("--until-released", action="store_true", help="at each, until muster faults release")
    parser.add_argument("--seed", type=int, metavar="N", help="of --with-probability (default: 0)")
    parser.add_argument("--name", default="", metavar="TEXT", help="for the log")


def rule_of(options: argparse.Namespace) -> dict[str, Any]:
    """The rule that the options of `add` describe, as JSON."""
    names = (*(name.replace("-", "_") for name in _MATCHES), "node", "min_version", "max_version")
    match = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    times = ("times", "on_call", "every", "with_probability", "seed")
    when = {name: getattr(options, name) for name in times if getattr(options, name) is not None}
    when |= {name: True for name in ("once", "until_released") if getattr(options, name)}
    then = _then(options)
    for name in ("where", "every_ms"):
        # the server refuses options that do not fit the action, in words
        if getattr(options, name) is not None:
            then[name] = getattr(options, name)
    return {"match": match, "then": then, "when": when, "name": options.name}


def _then(options: argparse.Namespace) -> dict[str, Any]:
    valued = (
        ("error", "error", "error"),
        ("delay", "delay", "ms"),
        ("trickle", "trickle", "size"),
        ("throttle", "throttle", "ms"),
        ("older_broker", "older-broker", "release"),
    )
    for option, action, field in valued:
        value = getattr(options, option)
        if value is not None:
            return {"do": action, field: value}
    plain = ("lose_answer", "cut", "hold", "note")
    return {"do": next(name for name in plain if getattr(options, name)).replace("_", "-")}


def run(options: argparse.Namespace) -> int:
    """Run the command with the control; exit status 1 when the server refuses, 2 when a value is wrong."""
    return asking(f"muster faults {options.verb}", options, lambda control: _run(options, control))


def _run(options: argparse.Namespace, control: Control) -> int:
    verb, in_json = options.verb, options.json
    if verb == "add":
        show(control.ask("POST", path("faults"), rule_of(options)), in_json=in_json)
    elif verb == "list":
        shown = ("id", "name", "match", "then", "when", "hits", "held")
        _rows(control.ask("GET", path("faults"))["rules"], shown, in_json=in_json)
    elif verb == "release":
        show(control.ask("POST", path("faults", options.id, "release")), in_json=in_json)
    elif verb == "remove":
        control.ask("DELETE", path("faults", options.id))
    elif verb == "clear":
        control.ask("DELETE", path("faults"))
    elif verb == "log":
        names = ("number", "rule", "api", "client_id", "group", "did")
        _rows(control.ask("GET", path("fault-log"))["hits"], names, in_json=in_json)
    elif verb == "scenarios":
        _scenarios(control.ask("GET", path("scenarios")), in_json=in_json)
    elif verb == "start":
        body = _parameters(options, control)
        show(control.ask("POST", path("scenarios", options.scenario), body, wait_s=LONG_S), in_json=in_json)
    else:
        control.ask("DELETE", path("scenarios", options.id))
    return 0


def _parameters(options: argparse.Namespace, control: Control) -> dict[str, str | int]:
    """The values of NAME=VALUE, with the types of the scenario's parameters: a group may be called 1. Raises
    ControlFailed.
    """
    for one in options.parameters:
        if "=" not in one:
            raise ControlFailed(f"{one}: NAME=VALUE was expected", WRONG)
    given = dict(one.split("=", 1) for one in options.parameters)
    kinds = control.ask("GET", path("scenarios"))["kinds"]
    numbers = {
        parameter["name"]
        for kind in kinds
        if kind["name"] == options.scenario
        for parameter in kind["parameters"]
        if parameter["type"] == "integer"
    }
    return {
        name: int(value) if name in numbers and value.isascii() and value.isdigit() else value
        for name, value in given.items()
    }


def _scenarios(answer: dict[str, Any], *, in_json: bool) -> None:
    from muster.cli.output import say

    if in_json:
        show(answer, in_json=True)
        return
    for kind in answer["kinds"]:
        named = [f"{one['name']}={one.get('default', '…')}" for one in kind["parameters"]]
        say(" ".join([kind["name"], *named]))
        say(f"    {kind['about']}")
    for one in answer["running"]:
        say(f"{one['id']} {one['name']}: {'; '.join(one['steps'])}")


def _rows(rows: list[dict[str, Any]], names: tuple[str, ...], *, in_json: bool) -> None:
    from muster.cli.output import as_json
    from muster.cli.table import print_json, print_table

    if in_json:
        for row in rows:
            print_json(row)
        return
    print_table(
        names,
        [[as_json(row[name]) if isinstance(row[name], dict) else row[name] for name in names] for row in rows],
    )
