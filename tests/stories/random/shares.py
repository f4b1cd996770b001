"""Random histories of share groups (KIP-932) on a real Kafka and on Muster, compared line by line.

    python -m tests.stories.random.shares [--seed 7] [--steps 10000] [--at-once 20]

Starts both servers (Java 17+ and Maven are needed), and plays many groups side by side. A history that differs is
played again alone, as a busy machine may be late. If it always differs, the difference is printed. Exit status 1 when
there is one. Ids of topics decide which partitions a member gets, and whether that changes. So only the number of
partitions is compared, in descriptions of the group.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping, Sequence

from muster.conform.player.story import Story
from tests.stories.random.beside import Plan, main

SETTINGS: Mapping[str, str] = {
    "group.share.assignment.interval.ms": "0", "group.share.max.size": "5", "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1", "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}  # fmt: skip
LETTERS = "ABCDEF"
NAMES = ("t1", "t1", "t2", "t1,t2", "t1,t2", "t3", "t1,nope", "t2,t3", "none")
EPOCHS = ("",) * 20 + (" epoch=0", " epoch=epoch+1", " epoch=epoch-1", " epoch=epoch-1", " epoch=1", " epoch=-2")
OFFSETS = ("t1/0=1", "t1/1=2 t2/0=3", "t1/2=4 nope/0=1", "t1/9=1", "t3/0=7 t3/1=8")
WAIT_MS = 400
"""How long a step waits, so that Kafka has created or deleted the states that a request asked for."""
GIVEN = re.compile(r"(<- share-heartbeat ok epoch=-?\d+) assignment=\[\d+\]")
STEPS = 30


def history(seed: int) -> Story:
    """One history, without answers."""
    chance = random.Random(seed)
    lines = ["# A history of a share group.", "tags share totals handlers", "topics t1=3 t2=1 t3=4", ""]
    joined: set[str] = set()
    for _ in range(STEPS):
        lines.append(_step(chance, joined))
        if "epoch" in lines[-1] or "topics" in lines[-1] or not lines[-1].startswith("X"):
            lines.append(f"advance {WAIT_MS}")
        if chance.random() < 0.4:
            lines.append("X: share-describe")
    lines += ["X: share-describe", "X: list", "X: share-offsets all"]
    return Story(f"shares-{seed}.txt", "\n".join(lines) + "\n")


def _step(chance: random.Random, joined: set[str]) -> str:
    dice, letter = chance.random(), chance.choice(LETTERS)
    if dice < 0.25 or not joined:
        joined.add(letter)
        rack = chance.choice(("", "", " rack=r1"))
        return f"{letter}: share-heartbeat epoch=0 topics={chance.choice(NAMES)}{rack}"
    known = chance.choice(sorted(joined))
    if dice < 0.60:
        return f"{known}: share-heartbeat{chance.choice(EPOCHS)}"
    if dice < 0.68:
        return f"{known}: share-heartbeat topics={chance.choice(NAMES)}"
    if dice < 0.82:
        return f"{known}: share-heartbeat epoch=-1"
    return chance.choice((
        f"Y: share-alter {chance.choice(OFFSETS)}", "X: share-offsets t1/0 t1/1 t2/0", "X: share-offsets all",
        f"Y: share-delete-offsets {chance.choice(('t1', 't2 nope', 't3'))}", "Y: delete", "X: list types=share",
        "Y: join", "Y: commit t1/0=5 generation=-1 member=none", "X: fetch all", "X: describe",
        "Y: consumer-heartbeat epoch=0 topics=t1 rebalance=5000 owned=none", "X: share-describe other",
    ))  # fmt: skip


def _plain(lines: Sequence[str]) -> list[str]:
    """The lines without the assignments of heartbeats."""
    return [GIVEN.sub(r"\1", line) for line in lines]


PLAN = Plan(SETTINGS, history, STEPS, _plain)

if __name__ == "__main__":
    sys.exit(main(PLAN, __doc__ or "", 10_000))
