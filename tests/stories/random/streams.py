"""Random histories of streams groups (KIP-1071) on a real Kafka and on Muster, compared line by line.

    python -m tests.stories.random.streams [--seed 7] [--steps 5000] [--at-once 20]

Starts both servers (Java 17+ and Maven are needed), and plays many groups side by side. A history that differs is
played again alone, as a busy machine may be late. If it always differs, the difference is printed. Exit status 1 when
there is one.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping, Sequence

from muster.conform.player.asking_streams import TOPOLOGIES
from muster.conform.player.story import Story
from tests.stories.random.beside import Plan, main

SETTINGS: Mapping[str, str] = {
    "group.streams.assignment.interval.ms": "0", "group.streams.max.size": "5",
    "group.streams.initial.rebalance.delay.ms": "0", "group.streams.num.standby.replicas": "1",
    # With warm-ups, a refused static member takes the tasks of a running one on Kafka (docs/conformance.md).
    "group.streams.num.warmup.replicas": "0",
    "group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}  # fmt: skip
LETTERS = "ABCDEF"
EPOCHS = ("",) * 20 + (" epoch=epoch+1", " epoch=epoch-1", " epoch=epoch-1", " epoch=1", " epoch=-3")
OWNED = ("",) * 14 + (
    " active=null standby=null warmup=null", " active=none", " active=0/0", " standby=none", " active=null",
    " active=0/7", " active=9/0", " active=1/0+1 standby=0/1",
)  # fmt: skip
MORE = ("",) * 16 + (
    " process=p1", " process=p2", " endpoint=here:9", " endpoint=there:7", " tags=zone:a", " tags=zone:b+rack:1",
    " rack=r1", " rebalance=400", " offsets=0/0=50,0/1=9", " offsets=0/0=5 ends=0/0=50", " shutdown", " v=0",
    " offsets=0/0=1,0/0=2", " endpoints=1",
)  # fmt: skip
CONFIGS = (
    "streams.num.standby.replicas=0", "streams.num.standby.replicas=2", "streams.assignment.interval.ms=15000",
    "streams.initial.rebalance.delay.ms=1000", "streams.task.offset.interval.ms=30000",
)  # fmt: skip
"""Configs of the group. Some histories set one before they begin, and some within."""
TAGS = ("zone", "zone,rack")
"""The tags over which some histories spread standby copies."""
OF_RACKS = (
    " tags=zone:a+rack:1", " tags=zone:b+rack:1", " tags=zone:a+rack:2", " tags=zone:b+rack:2", " tags=zone:c+rack:2",
    " tags=zone:c", " tags=rack:3", "",
)  # fmt: skip
OWN = ("own", "own-state", "own-count", "own-pair")
OWN_TOPICS = "own-topics o=2 g-store-changelog=0 g-words=0 g-counts-changelog=0"
"""Topics of the history alone: a source topic, and internal topics, which the application makes."""
OF_TOPICS = (
    "delete-topic o", "create-topic o:2", "create-topic o:2", "create-topic o:3", "grow-topic o:4",
    "delete-topic g-store-changelog", "delete-topic g-words", "delete-topic g-counts-changelog",
    "create-topic g-store-changelog:2", "create-topic g-words:3", "grow-topic g-store-changelog:4",
)  # fmt: skip
"""Changes of these topics."""
WAIT_MS = 600
"""How long a step waits, so that Kafka has created the topics of an application."""
STEPS = 30
COUNTS = "The partition counts that a refused heartbeat found"
"""The paragraph of docs/conformance.md that `plain` and `LEFT_OUT` follow."""
LEFT_OUT = (" active=0/7", " active=9/0", " active=1/0+1 standby=0/1", " offsets=0/0=1,0/0=2", " rebalance=400")
"""What makes Kafka take later targets from a refused heartbeat, while topics change or targets are delayed."""
REFUSED, HEARD = re.compile("<- streams-heartbeat (INVALID_REQ|UNKNOWN_SERVER)"), re.compile("heartbeat ok epoch=[^-]")
TOPOLOGY, COUNT = re.compile(r"(?<= topology=)\d+\(.*(?= members=)"), re.compile(r"=\d+")


def history(seed: int) -> Story:
    """One history, without answers."""
    chance = random.Random(seed)
    names = chance.choice((
        ["plain", "state"], ["count"], ["two"], ["wide"], ["pair"], ["joined"], ["joined", "fixed"],
        [one for one in TOPOLOGIES if one not in OWN],
    ))  # fmt: skip
    has_own, has_racks = chance.random() < 0.35, chance.random() < 0.35
    own = [OWN_TOPICS] if has_own else []
    lines = ["# A history of a streams group.", "tags handlers", "topics t1=3 t2=2 t3=3", *own, ""]
    joined: set[str] = set()
    if has_own:
        names = [chance.choice(OWN)]
        lines.append(f"advance {2 * WAIT_MS}")  # until Kafka's coordinator knows the new topic
    if has_racks:
        standbys = f"streams.num.standby.replicas={chance.randrange(1, 3)}"
        lines.append(f"X: group-config streams.rack.aware.assignment.tags={chance.choice(TAGS)}")
        lines.append(f"X: group-config {standbys}")
    if chance.random() < 0.4:
        lines.append(f"X: group-config {chance.choice(CONFIGS)}")
    for _ in range(STEPS):
        if has_own and chance.random() < 0.15:
            lines += [f"Z: {chance.choice(OF_TOPICS)}", f"advance {WAIT_MS}"]
        lines.append(_step(chance, joined, names, OF_RACKS if has_racks else ("",)))
        if "streams-heartbeat" in lines[-1] and "epoch=-" not in lines[-1]:
            lines.append(f"advance {WAIT_MS}")
        if chance.random() < 0.4:
            lines.append("X: streams-describe")
    lines += ["X: streams-describe", "X: list", "X: describe"]
    if has_own or any("initial.rebalance.delay" in line for line in lines):
        lines = [_without(line, LEFT_OUT) for line in lines]
    return Story(f"streams-{seed}.txt", "\n".join(lines) + "\n")


def _without(line: str, words: Sequence[str]) -> str:
    for one in words:
        line = line.replace(one, "")
    return line


def _step(chance: random.Random, joined: set[str], names: list[str], tags: Sequence[str]) -> str:
    dice, letter = chance.random(), chance.choice(LETTERS)
    if dice < 0.25 or not joined:
        joined.add(letter)
        process = chance.choice(("", "", " process=p1", " process=p2"))
        instance = chance.choice(("",) * 6 + (" instance=i1", " instance=i2"))
        epoch = chance.choice(("",) * 6 + ("@1",))
        topology = f" topology={chance.choice(names)}{epoch}"
        return f"{letter}: streams-heartbeat epoch=0{topology}{process}{instance}{_more(chance, tags)}"
    known = chance.choice(sorted(joined))
    if dice < 0.75:
        return f"{known}: streams-heartbeat{chance.choice(EPOCHS)}{chance.choice(OWNED)}{chance.choice(MORE)}"
    if dice < 0.85:
        leaving = chance.choice(
            (" epoch=-1", " epoch=-1", " epoch=-2 instance=i1", " epoch=-2 instance=i2", " epoch=-2")
        )
        return f"{known}: streams-heartbeat{leaving}"
    return chance.choice((
        "Y: delete", "Y: delete", "X: list types=streams", "Y: join member=none",
        "Y: commit t1/0=5 generation=-1 member=none", "X: fetch all",
        "Y: consumer-heartbeat epoch=0 topics=t1 rebalance=5000 owned=none",
        "X: streams-describe other", "X: streams-describe v=0", "X: streams-describe description=yes",
        "Y: share-heartbeat epoch=0 topics=t1", f"X: group-config {chance.choice(CONFIGS)}", "Y: offset-delete t1/0",
        f"{known}: commit t1/0=7 generation=epoch", f"{known}: commit t1/1=8 generation=epoch-1",
        f"{known}: fetch all member={known} epoch=epoch",
    ))  # fmt: skip


def _more(chance: random.Random, tags: Sequence[str]) -> str:
    """Other fields of a first heartbeat."""
    more, its = chance.choice(MORE), chance.choice(tags)
    return more if "tags=" in more else more + its


def plain(lines: Sequence[str]) -> list[str]:
    """The lines as they are compared: without partition counts while those of a refused heartbeat may be shown."""
    made, is_unsure = [], False
    for line in lines:
        if REFUSED.search(line):
            is_unsure = True
        elif HEARD.search(line):
            is_unsure = False
        made.append(TOPOLOGY.sub(lambda found: COUNT.sub("=*", found[0]), line) if is_unsure else line)
    return made


PLAN = Plan(SETTINGS, history, STEPS, plain)

if __name__ == "__main__":
    sys.exit(main(PLAN, __doc__ or "", 5_000))
