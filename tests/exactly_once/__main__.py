"""`make exactly-once`: for each client an application that reads, processes and writes, while both sides are killed."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.exactly_once.clients import COMMANDS, available
from tests.exactly_once.run import NODES, SETTINGS, VICTIMS, WORKERS_ONLY, Run, nodes_server
from tests.exactly_once.sweep import Sweep
from tests.support.servers import QUICK, KafkaServer, MusterServer, ServerProcess

SWEEP = "every-write"
"""No client, but a server that dies at each write of a transaction in turn."""


def main() -> int:
    """Exit status 1 when a record was lost or doubled, or a record of no committed transaction was shown."""
    parser = argparse.ArgumentParser(prog="make exactly-once", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="for each client (default: 50)")
    parser.add_argument(
        "--clients", default=",".join([SWEEP, *COMMANDS]), help=f"default: {SWEEP},{','.join(COMMANDS)}"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="who is killed, and when")
    parser.add_argument(
        "--server",
        choices=["muster", "nodes", "kafka"],
        default="muster",
        help="nodes: three brokers in one process, which stop, die and return (default: muster)",
    )
    parser.add_argument("--keep", type=Path, help="keep what servers and workers wrote in this folder")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    wrong = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for client in options.clients.split(","):
            if client == SWEEP:
                if options.server == "muster":
                    wrong = _sweep(folder) or wrong
                continue
            if not available(client):
                print(f"{client}: its tools are not here", flush=True)
                continue
            wrong = _one(client, options.server, folder, options.seed, options.kills) or wrong
    return 1 if wrong else 0


def _sweep(folder: Path) -> bool:
    sweep = Sweep(folder / SWEEP)
    faults = asyncio.run(sweep.run())
    for fault in faults:
        print(f"{SWEEP}: {fault}")
    print(f"{SWEEP}: {'WRONG' if faults else 'exactly once'}: the server died {sweep.deaths} times", flush=True)
    return bool(faults)


def _one(client: str, kind: str, folder: Path, seed: int, kills: int) -> bool:
    workdir = folder / client
    properties = {**QUICK, **SETTINGS}
    server: ServerProcess
    if kind == "nodes":
        server = nodes_server(workdir)
    else:
        server = KafkaServer(workdir, properties) if kind == "kafka" else MusterServer(workdir, properties)
    command = COMMANDS[client](folder)
    server.start()

    victims = {"kafka": WORKERS_ONLY, "nodes": NODES}.get(kind, VICTIMS)

    def show(number: int, who: str) -> None:
        if number % 10 == 0 or number == kills:
            print(f"{client}: {number} kills", flush=True)

    run = Run(server, command, workdir, seed=seed, kills=kills, victims=victims, on_kill=show)
    try:
        faults = run.run()
    finally:
        if server.running:
            server.kill()
    for fault in faults:
        print(f"{client}: {fault}")
    for failure in sorted(set(run.failures)):
        print(f"{client}: (went on after) {failure}")
    print(f"{client}: {'WRONG' if faults else 'exactly once'}: {run.summary}", flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
