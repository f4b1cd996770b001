"""`make torture`: whole nodes in virtual time under faults of everything, then a real server killed under load."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.simulation import seeds
from tests.support.servers import QUICK, MusterServer
from tests.torture import mixed, queue
from tests.torture.kills import PARTITIONS, TOPIC, Killing
from tests.torture.node.seeds import CHUNK, play_nodes

SEEDS = 1 << 32


def main() -> int:
    """Exit status 1 when something was lost, or went wrong."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000, help="histories of whole nodes (default: 2000)")
    parser.add_argument("--kills", type=int, default=1_000, help="of a real server (default: 1000)")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(SEEDS),
        help="of the first history, and of the kills (default: any)",
    )
    parser.add_argument("--override", action="append", default=[], metavar="NAME=VALUE", help="of the real server")
    parser.add_argument(
        "--mixed-kills", type=int, default=100, help="of one under consumers of both protocols (default: 100)"
    )
    parser.add_argument(
        "--queue-kills", type=int, default=100, help="of one under a share group that works off a queue (default: 100)"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    wrong = seeds.play(play_nodes, min(CHUNK, options.nodes or 1), options.seed, options.nodes)
    if options.kills:
        wrong = _kills(options.seed, options.kills, dict(one.split("=", 1) for one in options.override)) or wrong
    if options.mixed_kills:
        wrong = _mixed_kills(options.seed, options.mixed_kills) or wrong
    if options.queue_kills:
        wrong = _queue_kills(options.seed, options.queue_kills) or wrong
    return 1 if wrong else 0


def _mixed_kills(seed: int, kills: int) -> bool:
    """Kill a server `kills` times under a group of both protocols; whether something was lost."""
    with tempfile.TemporaryDirectory() as folder:
        topic = ["--topic", f"{mixed.TOPIC}:{mixed.PARTITIONS}"]
        server = MusterServer(Path(folder), {**QUICK, **mixed.SETTINGS}, arguments=topic)
        server.start_timeout_s = 300.0
        server.start()
        try:
            run = mixed.Mixed(server, seed, _show)
            faults = run.run(kills)
        finally:
            server.stop()
    print(f"{run.ledger.acknowledgements} commits of members of both protocols were acknowledged")
    for fault in faults:
        print(fault)
    print("something was lost" if faults else "nothing was lost")
    return bool(faults)


def _queue_kills(seed: int, kills: int) -> bool:
    """Kill a server `kills` times under a share group; whether something was lost."""
    with tempfile.TemporaryDirectory() as folder:
        topic = ["--topic", f"{queue.TOPIC}:{queue.PARTITIONS}"]
        server = MusterServer(Path(folder), {**QUICK, **queue.SETTINGS}, arguments=topic)
        server.start_timeout_s = 300.0
        server.start()
        try:
            run = queue.Queue(server, seed, _show)
            faults = asyncio.run(run.run(kills))
        finally:
            server.stop()
    print(
        f"{len(run.ledger.produced)} records of a queue were produced, {len(run.ledger.accepted)} acceptances confirmed"
    )
    for fault in faults:
        print(fault)
    print("something was lost" if faults else "nothing was lost")
    return bool(faults)


def _kills(seed: int, kills: int, overrides: dict[str, str]) -> bool:
    """Kill a server `kills` times under load; whether something was lost."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it would report each kill
    with tempfile.TemporaryDirectory() as folder:
        server = MusterServer(Path(folder), {**QUICK, **overrides}, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
        server.start_timeout_s = 300.0  # it does not measure how busy the machine is
        server.start()
        try:
            faults, acknowledged = asyncio.run(_torture(server, seed, kills))
        finally:
            server.stop()
    print(f"{acknowledged} commits were acknowledged")
    for fault in faults:
        print(fault)
    print("something was lost" if faults else "nothing was lost")
    return bool(faults)


async def _torture(server: MusterServer, seed: int, kills: int) -> tuple[list[str], int]:
    killing = Killing(server, seed, _show)
    return await killing.run(kills), killing.ledger.acknowledgements


def _show(number: int) -> None:
    if number % 50 == 0:
        print(f"{number} kills", flush=True)


if __name__ == "__main__":
    sys.exit(main())
