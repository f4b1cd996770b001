"""Random stories, played on a server (real Kafka) and on the core, and compared: a first differential run.

python -m tests.stories.random_stories HOST:PORT FIRST_SEED LAST_SEED

The server needs `group.min.session.timeout.ms=100 group.initial.rebalance.delay.ms=0`. Who leads after a leader is
lost is open on Kafka (it follows a hash order): a story that differs first in that is counted, not compared further.
The random choices keep away from ties of the vote, and from deadlines.
"""

from __future__ import annotations

import asyncio
import difflib
import random
import re
import sys

from tests.stories import tcp
from tests.stories.story import Story
from tests.stories.virtual import VirtualDriver

HEADER = "broker group.min.session.timeout.ms=100 group.initial.rebalance.delay.ms=0\ntopics t1=3 t2=1\n"
AT_ONCE = 24

PROTOCOLS = ("", " protocols=range:a,roundrobin:b", " topics=t1", " protocols=range:x")
STEPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "join": (14, ("",)),
    "join ": (4, ("v=5", "v=6", "v=8")),
    "join  ": (4, ("protocols=range:a,roundrobin:b", "protocols=range:q", "protocols=roundrobin:z")),
    "join   ": (3, ("member=id:ghost", "type=connect", "type=consumer", "member=none")),
    "enter": (5, ("",)),
    "sync": (20, ("", "", "v=4", "assign=A:mine", "generation=9", "protocol=roundrobin")),
    "heartbeat": (8, ("", "", "instance=none", "generation=+1", "generation=-1")),
    "leave": (5, ("", "v=1", "v=3", "none(i-a) none(i-b)")),
    "commit": (
        5,
        (
            "t1/0=1",
            "t1/1=2 t2/0=3",
            "generation=-1 t1/0=4",
            "generation=-1 member=none instance=none t1/2=5",
            "generation=+1 t1/0=6",
            "v=5 t1/0=7",
        ),
    ),
    "fetch": (1, ("all",)),
    "describe": (4, ("", "v=4")),
    "list": (1, ("",)),
    "offset-delete": (2, ("t1/0 t2/0",)),
    "delete": (1, ("",)),
    "restart": (4, ("",)),
    "drop": (1, ("",)),
}
"""Request -> (how often, its arguments)."""


def random_story(seed: int) -> Story:
    """A story without outcomes: some actors enter one group, then anything happens."""
    dice = random.Random(seed)
    actors = "ABCD"[: dice.randint(2, 4)]
    lines = [f"# seed {seed}", HEADER]
    for actor in actors:
        instance = f" instance=i-{actor.lower()}" if dice.random() < 0.4 else ""
        lines.append(f"{actor}: enter{instance}{dice.choice(PROTOCOLS)}")
    kinds, weights = list(STEPS), [weight for weight, _ in STEPS.values()]
    for kind in dice.choices(kinds, weights, k=dice.randint(15, 35)):
        lines.append(f"{dice.choice(actors)}: {kind.strip()} {dice.choice(STEPS[kind][1])}".strip())
        if dice.random() < 0.05:
            lines.append("advance 100")
    return Story(f"seed-{seed}", "\n".join(lines) + "\n")


def first_difference(ours: str, theirs: str) -> tuple[str, str] | None:
    """The first pair of lines that differ; None when none does."""
    pairs = zip(plain(ours).splitlines(), plain(theirs).splitlines(), strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def plain(text: str) -> str:
    """Without the places in the file at which an actor could not say what it was to say."""
    return re.sub(r" \(seed-\d+:\d+\)", "", text)


def is_open(pair: tuple[str, str]) -> bool:
    """True when the two differ in nothing but who leads."""
    bare = [re.sub(r" leader=\S+| members=\[.*?\]", "", line) for line in pair]
    return "leader=" in pair[0] and bare[0] == bare[1]


async def compare(host: str, port: int, seeds: range) -> int:
    """Play them all; prints what differs; the number of stories that do."""
    runner, known = await tcp.Connection.to(host, port), tcp.Ready()
    counts = {"same": 0, "leader open": 0, "different": 0, "steps": 0}
    limit = asyncio.Semaphore(AT_ONCE)
    await tcp.prepare(runner, known, random_story(0))

    async def one(seed: int) -> None:
        story = random_story(seed)
        async with limit:
            topic_ids = await tcp.prepare(runner, known, story)
            theirs = await tcp.play(tcp.Driver(host, port, recording=True), story, topic_ids)
        ours = VirtualDriver(Story(story.path, theirs)).run()
        pair = first_difference(ours, theirs)
        counts["steps"] += len(story.items)
        counts["same" if pair is None else "leader open" if is_open(pair) else "different"] += 1
        if pair is not None and not is_open(pair):
            diff = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "server", "core", lineterm="", n=30)
            print(f"seed {seed}", *diff, sep="\n")

    await asyncio.gather(*(one(seed) for seed in seeds))
    await runner.close()
    print(counts)
    return counts["different"]


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__)
        return 2
    host, _, port = sys.argv[1].rpartition(":")
    return 1 if asyncio.run(compare(host, int(port), range(int(sys.argv[2]), int(sys.argv[3]) + 1))) else 0


if __name__ == "__main__":
    sys.exit(main())
