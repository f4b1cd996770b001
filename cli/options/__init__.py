"""The command line of `muster`. The default `run` of a command: "module:function", below `muster.cli`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.parser import Parser, folder
from muster.version import VERSION

EXAMPLES = """\
examples:
  muster serve                                          on port 9092, data in ./muster-data
  muster serve --in-memory --listen 127.0.0.1:0         nothing on disk, a free port (see the line on stdout)
  muster serve --data-dir /var/lib/muster --topic orders:8
  muster serve --config server.properties --override group.initial.rebalance.delay.ms=0
  KAFKA_NUM_PARTITIONS=4 muster serve --advertise broker.example:9092
  muster groups history payments                        why a group rebalanced, and which member caused it
  muster transactions history pay-1                     which of its transactions were aborted, and why
  muster analyze muster-data                            tables and a page: what the groups did, and why
  muster serve --nodes 3                                a cluster of three brokers; muster nodes stop 2
  muster cluster try --nodes 3                          a cluster of three processes over a PostgreSQL of its own
  muster serve --in-memory --control 127.0.0.1:9094      under test: muster faults add, muster time advance
  muster health localhost:9092                          does a server answer there?
"""

QUICK: Final = ("serve", "health")
"""Commands that must start fast. The options of all other commands take 20 ms of 250, so they are not made."""


def build_parser(command: str | None = None) -> Parser:
    """The parser of the whole command line; for one of `QUICK`, of as much as it needs."""
    form = argparse.RawDescriptionHelpFormatter
    about = "A Kafka group coordinator that runs on its own: Kafka clients connect to it."
    parser = Parser(prog="muster", description=about, epilog=EXAMPLES, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"muster {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands)
    _add_health(commands)
    commands.add_parser("version", help="print the version")
    if command not in QUICK:
        from muster.cli.options import groups, logs, servers

        groups.add_groups(commands)
        groups.add_transactions(commands)
        servers.add_nodes(commands)
        servers.add_faults(commands)
        servers.add_time(commands)
        logs.add_log(commands)
        logs.add_analyze(commands)
        servers.add_cluster(commands)
        logs.add_completion(commands)
    return parser


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="run the coordinator with its embedded log",
        description="Run the coordinator. When clients can connect it prints one line, `muster ready HOST:PORT`, to "
        "stdout; logs go to stderr. Options win over the environment (KAFKA_NUM_PARTITIONS=3 is num.partitions=3), "
        "that over --config, that over Kafka's defaults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("--listen", metavar="HOST:PORT", help="where to listen; port 0: a free one (default: :9092)")
    serve.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="the address that clients get (default: the host that the listener names; for a listener on every address "
        "the one that their connection arrived at)",
    )
    place = serve.add_mutually_exclusive_group()
    place.add_argument(
        "--data-dir", type=folder, metavar="DIR", help="where to keep the log (default: log.dirs, else ./muster-data)"
    )
    place.add_argument("--in-memory", action="store_true", help="keep the log in memory; it is gone at the end")
    serve.add_argument(
        "--cluster",
        metavar="URL",
        help="keep the log in PostgreSQL, and share topics and groups with the other nodes that do; --data-dir holds a "
        "copy then, which is thrown away at each start (default: a temporary one)",
    )
    serve.add_argument("--cluster-name", metavar="NAME", default="muster", help="as of `muster cluster init`")
    serve.add_argument("--config", type=Path, metavar="FILE", help="a server.properties as Kafka has it")
    serve.add_argument(
        "--nodes",
        metavar="N",
        help="be a cluster of N brokers, on consecutive ports, with consecutive ids (default: 1)",
    )
    serve.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="one of Kafka's properties; repeatable"
    )
    serve.add_argument(
        "--strict",
        action="store_true",
        help="refuse unknown properties of the file and the environment too, instead of ignoring them with a warning",
    )
    serve.add_argument(
        "--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="have this topic; repeatable"
    )
    serve.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="have this user of SCRAM; NAME:@FILE for a password in a file; one that is there stays; repeatable",
    )
    serve.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve metrics over HTTP, as Prometheus reads them, at /metrics (docs/metrics.md); port 0: a free one, "
        "see the log",
    )
    serve.add_argument(
        "--control",
        metavar="HOST:PORT",
        help="let tests control the server over HTTP: faults, virtual time, groups, nodes (docs/testcontrol.md); port "
        "0: a free one, see the log; on loopback, or with --control-token",
    )
    serve.add_argument(
        "--control-token", type=Path, metavar="FILE", help="what clients of --control must show is in this file"
    )
    serve.add_argument(
        "--virtual-time",
        action="store_true",
        help="with --control: time stands still from the start until the control moves it",
    )
    serve.add_argument(
        "--check",
        action="store_true",
        help="only say what this configuration opens to whom; exit status 0, or 2 when it cannot be used, or would "
        "send passwords in the clear",
    )
    serve.add_argument(
        "--started-lines",
        action="store_true",
        help="print to stdout, before `muster ready`, what Kafka logs when it has started: containers wait for it",
    )
    serve.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        type=str.lower,
        help="log lines of this level and above (default: info)",
    )
    serve.set_defaults(run="serve:serve")


def _add_health(commands: Any) -> None:
    health = commands.add_parser(
        "health",
        help="ask a server whether it answers",
        description="Ask a server for its API versions; exit status 0 when it answers, else 1.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    health.add_argument(
        "address",
        nargs="?",
        metavar="HOST:PORT",
        help="default: the first listener of --config and the environment, first those without TLS",
    )
    health.add_argument("--tls", action="store_true", help="with TLS; not needed when the address is that of --config")
    health.add_argument(
        "--command-config", type=Path, metavar="FILE", help="a client.properties: with its TLS, as a client that checks"
    )
    health.add_argument("--config", type=Path, metavar="FILE", help="the server.properties that the server runs with")
    health.set_defaults(run="health:health")
