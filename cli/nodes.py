"""`muster nodes`: the brokers of a `muster serve --nodes N` that runs on this machine; stop, kill, pause and
return them. `list --bootstrap-server` works with any Kafka."""

from __future__ import annotations

import argparse
import json
import socket
import sys
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = """\
examples:
  muster nodes list                           the brokers of the server on ./muster-data
  muster nodes stop 2 --data-dir /var/muster  in order: others lead at once what it led
  muster nodes kill 3                         as by kill -9: others lead after broker.session.timeout.ms
  muster nodes return 3                       it is there again, at its port
  muster nodes pause 1                        as by kill -STOP: its connections stay, and nothing is answered
  muster nodes resume 1                       as by kill -CONT
  muster nodes list --control 127.0.0.1:9094  of a server under test, which may have no data directory
  muster nodes list --bootstrap-server broker.example:9092
"""
_VERBS: Final = {
    "list": "show the brokers",
    "stop": "have a broker stop in order: others take over at once",
    "kill": "have a broker die: its connections are cut, and what it held is gone",
    "pause": "have a broker stand still: its connections stay, and it answers nothing",
    "resume": "have a broker that stands still go on",
    "return": "start a broker again that was stopped or killed",
}
_HEAD: Final = ("node", "state", "rack", "addresses", "connections", "leads", "coordinates")


def add_parser(commands: Any) -> None:
    """Add `nodes` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = " ".join((__doc__ or "").split())
    nodes = commands.add_parser(
        "nodes", help="the brokers of muster serve --nodes N", description=about, epilog=EXAMPLES, formatter_class=form
    )
    verbs = nodes.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb, what in _VERBS.items():
        parser = verbs.add_parser(verb, help=what, description=what, epilog=EXAMPLES, formatter_class=form)
        if verb != "list":
            parser.add_argument("node", type=int, metavar="ID", help="which broker")
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            "--data-dir", type=Path, metavar="DIR", help="the data directory of the server (default: ./muster-data)"
        )
        where.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT[,…]",
            help="servers of the cluster instead, also of Kafka; brokers are changed on their own machine only",
        )
        where.add_argument(
            "--control", metavar="HOST:PORT", help="ask the control of a server under test instead (serve --control)"
        )
        parser.add_argument(
            "--command-config",
            type=Path,
            metavar="FILE",
            help="with --bootstrap-server: a client.properties: TLS, SASL",
        )
        parser.add_argument("--control-token", type=Path, metavar="FILE", help="as the server was given it")
        parser.add_argument("--json", action="store_true", help="JSON lines")


def run(options: argparse.Namespace) -> int:
    """Send the question to the server; exit status 1 when it refuses, or does not run."""
    from muster.cli.output import say
    from muster.cli.table import print_json, print_table
    from muster.coordinator.config.error import ConfigError

    node_id = getattr(options, "node", None)
    if options.command_config is not None and options.bootstrap_server is None:
        say("muster nodes: --command-config is for --bootstrap-server: give both", sys.stderr)
        return 2
    try:
        answer = _answer(options, node_id)
    except ConfigError as error:
        say(f"muster nodes: {error}", sys.stderr)
        return 2
    if "error" in answer:
        say(f"muster nodes: {answer['error']}", sys.stderr)
        return 1
    rows = answer["nodes"]
    if options.json:
        for row in rows:
            print_json(row)
    else:
        cells = [{**row, "addresses": ",".join(row["addresses"])} for row in rows]
        print_table(_HEAD, [[row[name] for name in _HEAD] for row in cells])
    return 0


def _answer(options: argparse.Namespace, node_id: int | None) -> dict[str, Any]:
    """The brokers, or an error in their place. Raises ConfigError."""
    if options.bootstrap_server is not None:
        # imported here: the question goes to a socket in the data directory, without Kafka's protocol
        from muster.cli.brokers import ask_cluster

        return ask_cluster(options, node_id, ask)
    if options.control is not None:
        return ask_control(options, node_id)
    return ask(options.data_dir or Path("muster-data"), {"do": options.verb, "node": node_id})


def ask_control(options: argparse.Namespace, node_id: int | None) -> dict[str, Any]:
    """The answer of the control of a server under test, or an error in its place."""
    # imported here: hardly any server has a control
    from muster.cli.control import Control, ControlFailed, path

    try:
        control = Control(options)
        if node_id is None:
            return control.ask("GET", path("nodes"))
        return control.ask("POST", path("nodes", str(node_id), options.verb))
    except ControlFailed as failure:
        return {"error": str(failure)}


def ask(directory: Path, question: dict[str, object]) -> dict[str, Any]:
    """The answer of the server on that data directory, or an error in its place."""
    from muster.coordinator.server.nodes.control import NAME

    path = directory / NAME
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            line = connection.makefile("rb").readline()
    except OSError as error:
        why = error.strerror or str(error)
        return {
            "error": f"no server of several brokers answers at {path}: {why}; start one with muster serve --nodes 3"
        }
    if not line:
        return {"error": "the server has stopped meanwhile"}
    answer: dict[str, Any] = json.loads(line)
    return answer
