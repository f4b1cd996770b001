"""`muster groups wait-stable | rebalance | expire | remove`: commands for the control of a server under test."""

from __future__ import annotations

import argparse

from muster.cli.control import Control, asking, path, show


def run_controlled(options: argparse.Namespace) -> int:
    """Run the command with the control; exit status 1 when the server refuses, or a wait fails."""
    return asking(f"muster groups {options.verb}", options, lambda control: _run(options, control))


def _run(options: argparse.Namespace, control: Control) -> int:
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
