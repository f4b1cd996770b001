"""Random histories of one kind of group on a real Kafka and on Muster, compared line by line.

`shares` and `streams` have the histories.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from muster.conform.player import readiness, tcp
from muster.conform.player.brokers import connect
from muster.conform.player.story import Story
from tests.support.servers import KafkaServer, MusterServer

TRIES = 3
"""How often a history is played again that differed."""


class Plan(NamedTuple):
    """What is played: the settings of both servers, a history by its number, and what a history has."""

    settings: Mapping[str, str]
    history: Callable[[int], Story]
    steps: int
    plain: Callable[[Sequence[str]], Sequence[str]] = list
    """The lines of the outcome, as they are compared."""


class Side:
    """One server, with its topics."""

    def __init__(self, host: str, port: int, plan: Plan) -> None:
        self.address = host, port
        self.plan = plan
        self.known: readiness.Ready = {}

    async def ready(self) -> None:
        """Make the topics, and wait for the coordinators."""
        runner = await connect(*self.address)
        self.ids = await readiness.prepare(runner, self.known, self.plan.history(0))
        await runner.close()

    async def play(self, story: Story, suffix: str) -> str:
        """The history as it went."""
        return await tcp.play(tcp.Driver(*self.address), story, self.ids, suffix)


def answers(text: str, plain: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, list[str]]:
    """The answers that each actor got, in their order, whenever they came."""
    found: dict[str, list[str]] = {}
    for line in plain(text.splitlines()):
        if line.startswith("    ") and not line.endswith(" waiting"):
            found.setdefault(line.split()[0], []).append(line)
    return found


async def compare(sides: tuple[Side, Side], seed: int, at_once: asyncio.Semaphore) -> str | None:
    """Play one history on both. Returns the difference."""
    plan = sides[0].plan
    story = plan.history(seed)
    async with at_once:
        suffix = "~" + secrets.token_hex(4)
        kafka, muster = await asyncio.gather(*(side.play(story, suffix) for side in sides))
    if answers(kafka, plan.plain) == answers(muster, plan.plain):
        return None
    return "\n".join(difflib.unified_diff(kafka.splitlines(), muster.splitlines(), "kafka", "muster", lineterm="", n=8))


async def run(kafka: Side, muster: Side, seed: int, steps: int, at_once: int) -> int:
    """Play histories; the number of differences."""
    sides = kafka, muster
    for side in sides:
        await side.ready()
    seeds = range(seed, seed + -(-steps // kafka.plan.steps))
    together = asyncio.Semaphore(at_once)
    found = await asyncio.gather(*(compare(sides, one, together) for one in seeds))
    late = [one for one, difference in zip(seeds, found, strict=True) if difference is not None]
    differ = 0
    for one in late:
        for _ in range(TRIES):
            difference = await compare(sides, one, together)
            if difference is None:
                break
        else:
            differ += 1
            print(f"=== history {one}\n{difference}", flush=True)
    count = len(seeds)
    print(
        f"{count} histories, {count * kafka.plan.steps} steps, {len(late)} once late, {differ} differences", flush=True
    )
    return differ


def main(plan: Plan, description: str, steps: int) -> int:
    """Run the command line of a kind of histories."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--at-once", type=int, default=20)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--log-level", "warning"]
        servers = (
            KafkaServer(Path(folder) / "kafka", plan.settings),
            MusterServer(Path(folder) / "muster", plan.settings, in_memory=True, arguments=quiet),
        )
        try:
            for server in servers:
                server.start()
            sides = [Side(*server.address, plan) for server in servers]
            return min(asyncio.run(run(sides[0], sides[1], args.seed, args.steps, args.at_once)), 1)
        finally:
            for server in servers:
                server.stop()
