"""The commands that use the test control of a server (docs/testcontrol.md)."""

from __future__ import annotations

import argparse
from typing import Any, Final

from muster.cli.options.servers import REQUEST_FILTERS
from muster.cli.output import as_json, print_json, print_table, say
from muster.cli.running_server import WRONG, Control, ControlFailed, path, show, with_control

SCENARIO_S: Final = 60.0
ADVANCE_S: Final = 600.0


def rule_of(options: argparse.Namespace) -> dict[str, Any]:
    """The rule that the options of `muster faults add` describe, as JSON."""
    names = (*(name.replace("-", "_") for name in REQUEST_FILTERS), "node", "min_version", "max_version")
    match = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    times = ("times", "on_call", "every", "with_probability", "seed")
    when = {name: getattr(options, name) for name in times if getattr(options, name) is not None}
    when |= {name: True for name in ("once", "until_released") if getattr(options, name)}
    then = _then(options)
    for name in ("where", "every_ms"):
        # the server itself refuses options that do not fit the action, and says why
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


@with_control
def run_faults(control: Control, options: argparse.Namespace) -> int:
    """Run `muster faults …`, and return the exit status."""
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
        show(control.ask("POST", path("scenarios", options.scenario), body, wait_s=SCENARIO_S), in_json=in_json)
    else:
        control.ask("DELETE", path("scenarios", options.id))
    return 0


def _parameters(options: argparse.Namespace, control: Control) -> dict[str, str | int]:
    """The values of the NAME=VALUE arguments, each with the type of that parameter. Raises ControlFailed."""
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
    if in_json:
        for row in rows:
            print_json(row)
        return
    print_table(
        names,
        [[as_json(row[name]) if isinstance(row[name], dict) else row[name] for name in names] for row in rows],
    )


@with_control
def run_time(control: Control, options: argparse.Namespace) -> int:
    """Run `muster time …`, and return the exit status."""
    if options.verb == "show":
        answer = control.ask("GET", path("time"))
    elif options.verb == "advance":
        answer = control.ask("POST", path("time", "advance"), {"ms": options.ms}, wait_s=ADVANCE_S)
    elif options.verb == "run-until":
        given = {"condition": options.condition, "group": options.group, "members": options.members}
        given |= {"partitions": options.partitions, "limit_ms": options.limit_ms}
        body = {name: value for name, value in given.items() if value is not None}
        answer = control.ask("POST", path("time", "run-until"), body, wait_s=ADVANCE_S)
    else:
        answer = control.ask("POST", path("time", options.verb))
    show(answer, in_json=options.json)
    return 0


@with_control
def run_share_group(control: Control, options: argparse.Namespace) -> int:
    """Run a command about the records of a share group, and return the exit status."""
    names = ("topic", "timeout_ms", "member", "partition", "offset", "last_offset")
    body = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    wait_s = body.get("timeout_ms", 0) / 1000
    answer = control.ask("POST", path("groups", options.group, options.verb), body, wait_s=wait_s)
    if options.verb != "deliver-again":
        show(answer, in_json=options.json)
    return 0


@with_control
def run_group(control: Control, options: argparse.Namespace) -> int:
    """Run `muster groups …`, and return the exit status."""
    where = path("groups", options.group, options.verb)
    if options.verb == "wait-stable":
        given = {"members": options.members, "partitions": options.partitions, "timeout_ms": options.timeout_ms}
        body = {name: value for name, value in given.items() if value is not None}
        show(control.ask("POST", where, body, wait_s=options.timeout_ms / 1000), in_json=options.json)
    elif options.verb == "rebalance":
        control.ask("POST", where)
    else:
        control.ask("POST", where, {"member": options.member})
    return 0
