"""The command line of `muster`. The `run` of a command names its function in `muster.cli` ("module:function")."""

from __future__ import annotations

import argparse
from typing import Final

from muster.cli.parser import Parser, add_commands, folder

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
  muster serve --http 127.0.0.1:9404                    probes, metrics, and groups as JSON
  muster serve --in-memory --control 127.0.0.1:9094      under test: muster faults add, muster time advance
  muster top                                            its groups, members and lag, live
  muster health localhost:9092                          does a server answer there?
"""

QUICK: Final = ("serve", "health")
"""Commands that must start fast. For them, the options of other commands are not made, which saves 20 of 250 ms.
"""


LOG_LEVEL: Final = {"choices": ("debug", "info", "warning", "error"), "type": str.lower, "metavar": None}
"""The arguments of `add_argument` for --log-level."""
_SERVE: Final = """
serve  serve:serve  run the coordinator with its embedded log
    | Run the coordinator. When clients can connect it prints one line, `muster ready HOST:PORT`, to stdout; logs go
    | to stderr. Options override the environment (KAFKA_NUM_PARTITIONS=3 is num.partitions=3). The
    | environment overrides --config, and --config overrides Kafka's defaults.
    --listen HOST:PORT  where to listen; port 0: a free one (default: :9092)
    --advertise HOST:PORT  the address that clients get (default: the listener's host; if the listener is on every
        address, the address at which the connection arrived)
    / --data-dir DIR  where to keep the log (default: log.dirs, else ./muster-data)
    / --in-memory  keep the log in memory; the log is lost when the server ends
    --cluster URL  keep the log in PostgreSQL, and share topics and groups with the other nodes of this cluster; then
        --data-dir holds a local replica, which is made anew at each start (default: a temporary directory)
    --cluster-name NAME  as of `muster cluster init`
    --config FILE  a server.properties as Kafka has it
    --nodes N  be a cluster of N brokers, on consecutive ports, with consecutive ids (default: 1)
    --override+ NAME=VALUE  one of Kafka's properties; repeatable
    --strict  refuse unknown properties of the file and the environment too, instead of ignoring them with a warning
    --topic+ NAME:PARTITIONS  create this topic if it does not exist; repeatable
    --user+ NAME:PASSWORD  create this SCRAM user if it does not exist; NAME:@FILE for a password in a file; repeatable
    --http ADDRESS  the HTTP door: probes, metrics, and groups as JSON (docs/metrics.md); HOST:PORT, http://HOST:PORT or
        https://HOST:PORT; port 0: a free one, see the log; off loopback with --http-token, and with TLS unless the
        address begins with http://
    --http-token FILE  the file with the token that clients of --http must send
    --metrics HOST:PORT  the old name of --http, for probes and metrics only, without a token (docs/changes.md)
    --control ADDRESS  as --http, and let tests control the server: faults, virtual time, groups, nodes
        (docs/testcontrol.md)
    --control-token FILE  as --http-token
    --virtual-time  with --control: time stands still from the start until the control moves it
    --lint-clients  check what clients send, and report which client breaks which rule of the protocol: at the end, at
        SIGUSR1, and at the HTTP door (docs/client-lint.md)
    --check  start nothing; only report who may connect and do what; exit status 2 when the configuration cannot be
        used, or would send passwords unencrypted, else 0
    --started-lines  print to stdout, before `muster ready`, what Kafka logs when it has started: containers wait for it
    --log-level LEVEL  log lines of this level and above (default: info)
"""
_OTHERS: Final = """
health  health:health  ask a server whether it answers
    | Ask a server for its API versions; exit status 0 when it answers, else 1.
    address? HOST:PORT  default: a listener of --config or the environment, if possible one without TLS
    --tls  with TLS; without HOST:PORT only a listener of --config or the environment that has TLS
    --command-config FILE  a client.properties: use its TLS settings, and check the server's certificate
    --config FILE  the server.properties that the server runs with
version  -  print the version
"""


def build_parser(command: str | None = None) -> Parser:
    """The parser of the whole command line. For a command of `QUICK`, it has only the quick commands."""
    form = argparse.RawDescriptionHelpFormatter
    about = "A Kafka group coordinator that runs on its own: Kafka clients connect to it."
    parser = Parser(prog="muster", description=about, epilog=EXAMPLES, formatter_class=form)
    parser.add_argument("--version", action="version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    how = {"data_dir": {"type": folder}, "cluster_name": {"default": "muster"}, "log_level": LOG_LEVEL}
    add_commands(commands, _SERVE, how, epilog=EXAMPLES)
    add_commands(commands, _OTHERS)
    if command not in QUICK:
        from muster.cli.options import conform, groups, logs, servers

        groups.add_groups(commands)
        groups.add_transactions(commands)
        groups.add_clients(commands)
        servers.add_nodes(commands)
        servers.add_exporter(commands)
        servers.add_lint(commands)
        servers.add_top(commands)
        servers.add_console(commands)
        servers.add_faults(commands)
        servers.add_time(commands)
        logs.add_log(commands)
        logs.add_backup(commands)
        logs.add_analyze(commands)
        servers.add_cluster(commands)
        conform.add_conform(commands)
        logs.add_completion(commands)
    return parser
