"""The options of `muster cluster try`. Every `muster` command but `serve` and `health` makes them, so this module
imports nothing of the rest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.parser import folder

LISTEN: Final = "localhost:9092"
"""The default address of the first node: on this machine only."""
ABOUT: Final = (
    "Run a PostgreSQL and N nodes of `muster serve --cluster` over it, on this machine. When clients can connect it "
    "prints one line, `muster ready HOST:PORT,HOST:PORT,…`, to stdout. SIGTERM, SIGINT or SIGHUP stops the nodes, "
    "then the database. Kill a node by its process id, and see what your clients do."
)
EXAMPLES: Final = """\
examples:
  muster cluster try                                 three nodes, on the ports 9092, 9093 and 9094
  muster cluster try --nodes 5 --topic orders:12 --listen 127.0.0.1:0
  muster cluster try --data-dir try --restart-after 5
"""


def add_parser(actions: Any) -> None:
    """Add the command to those of `muster cluster`."""
    parser = actions.add_parser(
        "try", help="an embedded PostgreSQL and several nodes over it, on this machine", description=ABOUT,
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--nodes", metavar="N", default="3", help="how many (default: 3); a node uses one core at most")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where the first node listens, the others on the ports after it; port 0: free ports "
        f"(default: the listeners of --config and the environment, else {LISTEN})",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="the address of the first node that clients are told, the others have the ports after it",
    )
    parser.add_argument(
        "--data-dir",
        type=folder,
        metavar="DIR",
        help="keep the database and the log lines there, and go on with what is there (default: a temporary directory)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a server.properties, for all nodes")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one of Kafka's properties, for all nodes; repeatable",
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="have this topic; repeatable"
    )
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="have this user of SCRAM; NAME:@FILE for a password in a file; repeatable",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="figures of the first node for Prometheus, those of the others on the ports after it; port 0: free ports, "
        "see the log of each node",
    )
    parser.add_argument(
        "--restart-after",
        type=_seconds,
        metavar="SECONDS",
        help="start a node again this long after it has ended (default: it stays away)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        type=str.lower,
        help="log lines of this level and above (default: info)",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to 86400")
    return seconds
