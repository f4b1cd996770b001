"""`make torture`: kill a server under load, again and again."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.support.servers import QUICK, MusterServer
from tests.torture.kills import PARTITIONS, TOPIC, Killing


def main() -> int:
    """Exit status 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--override", action="append", default=[], metavar="NAME=VALUE", help="of the server")
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it would tell of each kill
    overrides = dict(one.split("=", 1) for one in options.override)
    print(f"seed {options.seed}, {options.kills} kills", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        server = MusterServer(Path(folder), {**QUICK, **overrides}, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
        server.start_timeout_s = 300.0  # it is no measure of how busy the machine is
        server.start()
        try:
            faults, acknowledged = asyncio.run(_torture(server, options.seed, options.kills))
        finally:
            server.stop()
    print(f"{acknowledged} commits were acknowledged")
    for fault in faults:
        print(fault)
    print("something was lost" if faults else "nothing was lost")
    return 1 if faults else 0


async def _torture(server: MusterServer, seed: int, kills: int) -> tuple[list[str], int]:
    killing = Killing(server, seed, _show)
    return await killing.run(kills), killing.ledger.acknowledgements


def _show(number: int) -> None:
    if number % 50 == 0:
        print(f"{number} kills", flush=True)


if __name__ == "__main__":
    sys.exit(main())
