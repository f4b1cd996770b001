"""The options of `muster nodes`, `faults`, `time` and `cluster`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.parser import folder, options_of_control

_NODES_EXAMPLES: Final = """\
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
_NODES_VERBS: Final = {
    "list": "show the brokers",
    "stop": "stop a broker in order: others take over at once",
    "kill": "kill a broker: its connections are cut, and what it held is gone",
    "pause": "pause a broker: its connections stay, and it answers nothing",
    "resume": "resume a paused broker",
    "return": "start a broker again that was stopped or killed",
}
_FAULTS_EXAMPLES: Final = """\
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
REQUEST_FILTERS: Final = {
    "api": "requests of this API of Kafka: OffsetCommit, Fetch*",
    "group": "those that name this group",
    "member": "those of this member id",
    "instance": "those of this group.instance.id",
    "topic": "those that name this topic",
    "transactional-id": "those that name this transactional id",
    "client-id": "those of clients with this client.id",
    "principal": "those of this user: User:alice",
}
_TIME_EXAMPLES: Final = """\
examples:
  muster time freeze                       sessions do not end, delays do not pass
  muster time advance 45000                45 s pass at once
  muster time run-until stable payments    until the group is stable, however long that takes
  muster time thaw                         time goes on with the machine's
"""
DEFAULT_NAME = "muster"
LISTEN_OF_TRY: Final = "localhost:9092"
_TRY_ABOUT: Final = (
    "Run a PostgreSQL and N nodes of `muster serve --cluster` over it, on this machine. When clients can connect it "
    "prints one line, `muster ready HOST:PORT,HOST:PORT,…`, to stdout. SIGTERM, SIGINT or SIGHUP stops the nodes, "
    "then the database. Kill a node by its process id, and see what your clients do."
)
_TRY_EXAMPLES: Final = """\
examples:
  muster cluster try                                 three nodes, on the ports 9092, 9093 and 9094
  muster cluster try --nodes 5 --topic orders:12 --listen 127.0.0.1:0
  muster cluster try --data-dir try --restart-after 5
"""


def add_nodes(commands: Any) -> None:
    """Add `nodes` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = (
        "`muster nodes`: the brokers of a `muster serve --nodes N` that runs on this machine; stop, kill, pause and "
    )
    about += "return them. `list --bootstrap-server` works with any Kafka."
    nodes = commands.add_parser(
        "nodes",
        help="the brokers of muster serve --nodes N",
        description=about,
        epilog=_NODES_EXAMPLES,
        formatter_class=form,
    )
    verbs = nodes.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb, what in _NODES_VERBS.items():
        parser = verbs.add_parser(verb, help=what, description=what, epilog=_NODES_EXAMPLES, formatter_class=form)
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
        parser.set_defaults(run="nodes:run")


def add_faults(commands: Any) -> None:
    """Add `faults` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Make requests fail on a server that was started with --control."
    faults = commands.add_parser(
        "faults", help="faults on a server under test", description=about, epilog=_FAULTS_EXAMPLES, formatter_class=form
    )
    verbs = faults.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    shared = options_of_control()
    add = verbs.add_parser("add", parents=[shared], help="add a rule", epilog=_FAULTS_EXAMPLES, formatter_class=form)
    _add_rule(add)
    verbs.add_parser("list", parents=[shared], help="the rules in force")
    for verb, what in (("release", "release the requests that a rule holds"), ("remove", "remove a rule")):
        verbs.add_parser(verb, parents=[shared], help=what).add_argument("id", metavar="RULE")
    verbs.add_parser("clear", parents=[shared], help="remove all rules, end all scenarios")
    verbs.add_parser("log", parents=[shared], help="which rule hit which request")
    verbs.add_parser("scenarios", parents=[shared], help="the known scenarios, and the running ones")
    start = verbs.add_parser("start", parents=[shared], help="start a scenario")
    start.add_argument("scenario", metavar="SCENARIO")
    start.add_argument("parameters", nargs="*", metavar="NAME=VALUE")
    verbs.add_parser("end", parents=[shared], help="end a scenario").add_argument("id", metavar="ID")
    faults.set_defaults(run="under_test:run_faults")


def _add_rule(parser: argparse.ArgumentParser) -> None:
    match = parser.add_argument_group("which requests (all that is given must fit; * for any characters; repeatable)")
    for name, what in REQUEST_FILTERS.items():
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


def add_time(commands: Any) -> None:
    """Add `time` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Freeze and move the time of a server that was started with --control."
    time = commands.add_parser(
        "time", help="the time of a server under test", description=about, epilog=_TIME_EXAMPLES, formatter_class=form
    )
    verbs = time.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    shared = options_of_control()
    verbs.add_parser("show", parents=[shared], help="what time it is, and when the next deadline is")
    verbs.add_parser("freeze", parents=[shared], help="freeze the time")
    verbs.add_parser("thaw", parents=[shared], help="let the time follow the machine's again")
    advance = verbs.add_parser("advance", parents=[shared], help="move the time forward at once")
    advance.add_argument("ms", type=int, metavar="MS")
    until = verbs.add_parser("run-until", parents=[shared], help="move the time forward until a condition holds")
    until.add_argument("condition", choices=("stable", "idle"), help="of GROUP; or of all groups")
    until.add_argument("group", nargs="?", metavar="GROUP")
    until.add_argument("--members", type=int, metavar="N", help="with so many members")
    until.add_argument("--partitions", metavar="TOPIC", help="and every partition of this topic has an owner")
    until.add_argument("--limit-ms", type=int, metavar="MS", help="of virtual time (default: 600000)")
    time.set_defaults(run="under_test:run_time")


def add_cluster(commands: Any) -> None:
    """Add `cluster` and its commands to those of `muster`."""
    about = "Several nodes over one database: what `muster serve --cluster URL` needs in PostgreSQL."
    parser = commands.add_parser("cluster", help="several nodes over one PostgreSQL", description=about)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_try(actions)
    init = actions.add_parser("init", help="make the tables, and a cluster in them; what is there stays")
    status = actions.add_parser(
        "status", help="which nodes there are, how much there is, and what the database's settings promise"
    )
    upgrade = actions.add_parser("upgrade", help="bring the tables to this Muster's version")
    for one in (init, status, upgrade):
        one.add_argument("url", metavar="URL", help="postgresql://USER@HOST/DATABASE; the password also as PGPASSWORD")
        one.set_defaults(run="cluster:run")
    init.add_argument("--name", default=DEFAULT_NAME, help=f"of the cluster (default: {DEFAULT_NAME})")
    init.add_argument("--cluster-id", metavar="ID", help="the id that clients see (default: a new one)")
    status.add_argument("--json", action="store_true", help="as JSON")


def add_try(actions: Any) -> None:
    """Add `try` to the commands of `muster cluster`."""
    parser = actions.add_parser(
        "try", help="an embedded PostgreSQL and several nodes over it, on this machine", description=_TRY_ABOUT,
        epilog=_TRY_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--nodes", metavar="N", default="3", help="how many (default: 3); a node uses one core at most")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where the first node listens, the others on the ports after it; port 0: free ports "
        f"(default: the listeners of --config and the environment, else {LISTEN_OF_TRY})",
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
    parser.set_defaults(run="local_cluster.command:run")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to 86400")
    return seconds
