"""The options of `muster nodes`, `faults`, `time` and `cluster`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.options import LOG_LEVEL
from muster.cli.parser import add_commands, add_options, folder, options_of_control

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
    "kill": "kill a broker: its connections are cut, and its state is lost",
    "pause": "pause a broker: its connections stay, and it answers nothing",
    "resume": "resume a paused broker",
    "return": "start a broker again that was stopped or killed",
}
_OF_NODES: Final = """
/ --data-dir DIR  the data directory of the server (default: ./muster-data)
/ --bootstrap-server HOST:PORT[,…]  servers of the cluster instead, also of Kafka; brokers are changed on their own
    machine only
/ --control HOST:PORT  ask the control of a server under test instead (serve --control)
--command-config FILE  with --bootstrap-server: a client.properties: TLS, SASL
--control-token FILE  as the server was given it
--json  JSON lines
"""
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


_FAULTS: Final = """
list  -  the rules in force
release  -  release the requests that a rule holds
    id RULE
remove  -  remove a rule
    id RULE
clear  -  remove all rules, end all scenarios
log  -  which rule hit which request
scenarios  -  the known scenarios, and the running ones
start  -  start a scenario
    scenario SCENARIO
    parameters* NAME=VALUE
end  -  end a scenario
    id ID
"""
_ACTIONS: Final = """
--error NAME  answer the request with this error of Kafka
--delay MS  delay the request by so many ms; --where after: delay its answer
--lose-answer  handle the request, and cut the connection before the answer
--cut  cut the connection; --where before, middle or after
--trickle BYTES  send the answer in pieces of this size
--hold  hold the answer until release; --where before: hold the request
--throttle MS  set this throttle_time_ms in the answer
--note  do nothing, but log the request
--older-broker RELEASE  serve only what a broker of this release of Kafka served
"""
_OF_ACTIONS: Final = """
--where WHERE  before or after the handler
--every-ms MS  with --trickle: between two pieces (default: 10)
"""
_WHEN: Final = """
/ --once  at the first request
/ --times N  at the first N requests
/ --on-call N  only at the N-th request
/ --every N  at each N-th request
/ --with-probability P  at each request with this probability; see --seed
/ --until-released  at each request, until muster faults release
"""
_TIME: Final = """
show  -  what time it is, and when the next deadline is
freeze  -  freeze the time
thaw  -  let the time follow the machine's again
advance  -  move the time forward at once
    ms MS
run-until  -  move the time forward until a condition holds
    condition CONDITION  of GROUP; or of all groups
    group? GROUP
    --members N  with so many members
    --partitions TOPIC  and every partition of this topic has an owner
    --limit-ms MS  of virtual time (default: 600000)
"""
_CLUSTER: Final = f"""
init  cluster:run  make the tables, and a cluster in them, unless they exist
    url URL  postgresql://USER@HOST/DATABASE; the password also as PGPASSWORD
    --name NAME  of the cluster (default: {DEFAULT_NAME})
    --cluster-id ID  the id that clients see (default: a new one)
status  cluster:run  the nodes, the amounts of data, and what the database's settings promise
    url URL  postgresql://USER@HOST/DATABASE; the password also as PGPASSWORD
    --json  as JSON
upgrade  cluster:run  bring the tables to this Muster's version
    url URL  postgresql://USER@HOST/DATABASE; the password also as PGPASSWORD
"""
_TRY: Final = f"""
try  local_cluster.command:run  an embedded PostgreSQL and several nodes over it, on this machine
    --nodes N  how many (default: 3); a node uses one core at most
    --listen HOST:PORT  where the first node listens; the other nodes use the ports after it; port 0: free ports
        (default: the listeners of --config and the environment, else {LISTEN_OF_TRY})
    --advertise HOST:PORT  the address of the first node for clients; the other nodes have the ports after it
    --data-dir DIR  keep the database and the log lines in this directory; a later start with it continues with them
        (default: a temporary directory)
    --config FILE  a server.properties, for all nodes
    --override+ NAME=VALUE  one of Kafka's properties, for all nodes; repeatable
    --topic+ NAME:PARTITIONS  create this topic if it does not exist; repeatable
    --user+ NAME:PASSWORD  create this SCRAM user if it does not exist; NAME:@FILE for a password in a file; repeatable
    --http ADDRESS  the HTTP door of the first node, as of muster serve; the other nodes use the ports after it; port 0:
        free ports, see the log of each node
    --http-token FILE  the file with the token that clients of --http must send
    --metrics HOST:PORT  the old name of --http, for probes and metrics only
    --restart-after SECONDS  start a node again this long after it has ended (default: it stays away)
    --log-level LEVEL  log lines of this level and above (default: info)
"""
_EXPORTER: Final = """
exporter  exporter:run  metrics of any Kafka cluster over HTTP
    | Serve metrics of a cluster at /metrics, under kafka_exporter's names, for groups of all types. Each scrape reads
    | the cluster. Alerts about groups (docs/alerts.md) are at /api/v1/alerts, and webhooks get them. Prints one line,
    | `muster ready HOST:PORT`, when it listens; SIGTERM ends it.
    --bootstrap-server HOST:PORT[,…]  servers of the cluster (default: %(default)s)
    --command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL
    --http ADDRESS  where to listen: as of muster serve (default: %(default)s)
    --http-token FILE  the file with the token that clients must send
    --config FILE  a server.properties with muster.alerts.*, and the ssl.keystore.* of an https address
    --log-level LEVEL  log lines of this level and above (default: info)
"""
_CONSOLE: Final = """
console  console.command:run  the console of any Kafka cluster, in a browser
    | Serve a console over a cluster: groups live, the cause of each rebalance, lag and rates (docs/console.md). Without
    | __group_events the causes are inferred from __consumer_offsets. Prints one line, `muster ready URL`; SIGTERM ends
    | it.
    --bootstrap-server HOST:PORT[,…]  servers of the cluster (default: %(default)s)
    --command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL
    --tables DIR  the past from the tables of `muster analyze`, also with --follow
    --http ADDRESS  where to listen: as of muster serve (default: %(default)s)
    --http-token FILE  the file with the token that browsers must send
    --config FILE  a server.properties with the ssl.keystore.* of an https address
    --log-level LEVEL  log lines of this level and above (default: info)
"""
CONSOLE_ADDRESS: Final = "127.0.0.1:9310"
EXPORTER_ADDRESS: Final = "127.0.0.1:9308"
"""The port of kafka_exporter."""
_TOP: Final = """
top  top.command:run  groups, members and lag of any Kafka cluster, live
    | Show the groups of a cluster on the terminal, the worst first, and one group with its members, offsets and
    | history. F1 says what the keys do. Needs the extra `top`.
    --bootstrap-server HOST:PORT[,…]  servers of the cluster (default: %(default)s)
    --command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL
    --interval SECONDS  how often the cluster is read (default: %(default)g)
"""
TOP_INTERVAL_S: Final = 2.0
_NUMBER: Final = {"type": int}


def add_nodes(commands: Any) -> None:
    """Add `nodes` and its subcommands to the parser."""
    about = "`muster nodes`: the brokers of a `muster serve --nodes N` that runs on this machine; stop, kill, pause "
    about += "and return them. `list --bootstrap-server` works with any Kafka."
    line = "nodes  -  the brokers of muster serve --nodes N"
    nodes = add_commands(commands, line, description=about, epilog=_NODES_EXAMPLES)["nodes"]
    verbs = nodes.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb, what in _NODES_VERBS.items():
        line = f"{verb}  nodes:run  {what}"
        parser = add_commands(verbs, line, description=what, epilog=_NODES_EXAMPLES)[verb]
        if verb != "list":
            add_options(parser, "node ID  which broker", {"node": _NUMBER})
        add_options(parser, _OF_NODES)


def add_exporter(commands: Any) -> None:
    """Add `exporter` to the parser."""
    how: dict[str, Any] = {"bootstrap_server": {"default": "localhost:9092"}, "http": {"default": EXPORTER_ADDRESS}}
    add_commands(commands, _EXPORTER, how | {"log_level": LOG_LEVEL})


def add_top(commands: Any) -> None:
    """Add `top` to the parser."""
    interval = {"type": float, "default": TOP_INTERVAL_S}
    add_commands(commands, _TOP, {"bootstrap_server": {"default": "localhost:9092"}, "interval": interval})


def add_console(commands: Any) -> None:
    """Add `console` to the parser."""
    how: dict[str, Any] = {"bootstrap_server": {"default": "localhost:9092"}, "http": {"default": CONSOLE_ADDRESS}}
    add_commands(commands, _CONSOLE, how | {"log_level": LOG_LEVEL, "tables": {"type": Path}})


def add_faults(commands: Any) -> None:
    """Add `faults` and its subcommands to the parser."""
    about = "Make requests fail on a server that was started with --control."
    line = "faults  under_test:run_faults  faults on a server under test"
    faults = add_commands(commands, line, description=about, epilog=_FAULTS_EXAMPLES)["faults"]
    verbs = faults.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    shared = [options_of_control()]
    _add_rule(add_commands(verbs, "add  -  add a rule", parents=shared, epilog=_FAULTS_EXAMPLES)["add"])
    add_commands(verbs, _FAULTS, parents=shared)


def _add_rule(parser: argparse.ArgumentParser) -> None:
    match = parser.add_argument_group("which requests (all that is given must fit; * for any characters; repeatable)")
    for name, what in REQUEST_FILTERS.items():
        match.add_argument(f"--{name}", action="append", metavar=name.upper().replace("-", "_"), help=what)
    match.add_argument("--node", type=int, action="append", metavar="ID", help="those that this broker gets")
    for name, what in (("min", "a later"), ("max", "an earlier")):
        about = f"those of this version of the API or {what} one"
        match.add_argument(f"--{name}-version", type=int, metavar="N", help=about)
    numbers: dict[str, Any] = dict.fromkeys(
        ("delay", "trickle", "throttle", "every_ms", "times", "on_call", "every", "seed"), _NUMBER
    )
    group = parser.add_argument_group("what happens")
    add_options(group.add_mutually_exclusive_group(required=True), _ACTIONS, numbers)
    where = {"choices": ("before", "middle", "after"), "metavar": None}
    add_options(group, _OF_ACTIONS, numbers | {"where": where})
    chance = {"with_probability": {"type": float}}
    add_options(parser.add_argument_group("when (default: at each)"), _WHEN, numbers | chance)
    rest = "--seed N  of --with-probability (default: 0)\n--name TEXT  for the log"
    add_options(parser, rest, numbers | {"name": {"default": ""}})


def add_time(commands: Any) -> None:
    """Add `time` and its subcommands to the parser."""
    about = "Freeze and move the time of a server that was started with --control."
    line = "time  under_test:run_time  the time of a server under test"
    time = add_commands(commands, line, description=about, epilog=_TIME_EXAMPLES)["time"]
    how: dict[str, Any] = {"ms": _NUMBER, "members": _NUMBER, "limit_ms": _NUMBER}
    how["condition"] = {"choices": ("stable", "idle"), "metavar": None}
    verbs = time.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    add_commands(verbs, _TIME, how, parents=[options_of_control()])


def add_cluster(commands: Any) -> None:
    """Add `cluster` and its subcommands to the parser."""
    about = "Several nodes over one database: what `muster serve --cluster URL` needs in PostgreSQL."
    parser = commands.add_parser("cluster", help="several nodes over one PostgreSQL", description=about)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_try(actions)
    add_commands(actions, _CLUSTER, {"name": {"default": DEFAULT_NAME}})


def add_try(actions: Any) -> None:
    """Add `try` to the subcommands of `muster cluster`."""
    how: dict[str, Any] = {"nodes": {"default": "3"}, "restart_after": {"type": _seconds}}
    how |= {"data_dir": {"type": folder}, "log_level": LOG_LEVEL}
    add_commands(actions, _TRY, how, description=_TRY_ABOUT, epilog=_TRY_EXAMPLES)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to 86400")
    return seconds


_LINT: Final = f"""
lint  lint:run  a server that checks what clients send, and provokes their mistakes
    | Run a server in memory for clients under test, and report which client breaks which rule of the protocol, as
    | muster serve --lint-clients does. Prints one line, `muster ready HOST:PORT`, when clients can connect. Exit status
    | 1: a client surely breaks a rule, so that it loses records or members.
    --listen HOST:PORT  where to listen; port 0: a free one (default: {LISTEN_OF_TRY})
    --rehearse  as soon as clients work, play the moments in which they go wrong: answers with errors, lost answers,
        closed connections, fenced members, throttle times; report what each client did, and end
    --moment+ NAME  with --rehearse: only this moment (docs/client-lint.md); repeatable
    --report FILE  write the report into this file, as JSON if its name ends with .json (default: text on stdout)
    --topic+ NAME:PARTITIONS  create this topic; repeatable
    --nodes N  be a cluster of N brokers, on consecutive ports (default: 1)
    --override+ NAME=VALUE  one of Kafka's properties; repeatable
    --log-level LEVEL  log lines of this level and above (default: warning)
"""


def add_lint(commands: Any) -> None:
    """Add `lint` to the parser."""
    how = {"listen": {"default": LISTEN_OF_TRY}, "log_level": LOG_LEVEL}
    add_commands(commands, _LINT, how, epilog=_LINT_EXAMPLES)


_LINT_EXAMPLES: Final = """\
examples:
  muster lint --topic orders:4                     until Ctrl-C: then the report
  muster lint --rehearse --topic orders:4          some minutes: all moments
  muster lint --rehearse --moment throttled --report report.json
"""
