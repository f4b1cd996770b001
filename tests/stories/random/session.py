"""Many histories on two servers, side by side. A history with a difference is played again, shrunk, and printed as a
story.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import itertools
import re
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

from muster.conform.player import readiness, tcp
from muster.conform.player.brokers import connect
from muster.conform.player.story import Step, Story
from tests.stories.random import histories, mixed_histories, transaction_histories
from tests.stories.random.following import Following, heard_of
from tests.stories.random.lockstep import Lockstep, Outcome
from tests.stories.random.pair import Half, Pair
from tests.stories.random.shrinking import Shrinking
from tests.stories.random.side import Side
from tests.stories.random.ways import KafkaWays, OwnWays
from tests.stories.random.worlds import RealClock, ServerWorld

AGAIN = 3
"""How often a history with a difference is played again before the difference counts as gone."""
MAX_AGAIN = 9
"""The same, including the times at which a server was too late. They count only when nearly all were so."""
WARM_UP = 20
"""The number of histories that are played before the counted ones."""
WIDE_MARGIN_MS = 300
"""The margin for a mirror that follows: it is asked after its server."""
_KIND = re.compile(r"(\w+): \w+'s (\w+) v\d+:? (.*)", re.DOTALL)
_FIELD = re.compile(r"(?:^|; )([\w.\[\]]+): (?=.*?, expected )", re.DOTALL)
_INDEX = re.compile(r"\[\d+\]")
_NUMBER = re.compile(r"\d+")
MAX_MS = 9_000
"""The longest history of consumer groups. Kafka searches the topics of patterns again after ten seconds, if anybody has
created a topic.
"""
WAYS: Mapping[str, Callable[[], OwnWays]] = {"kafka": KafkaWays, "muster": OwnWays}

Address = tuple[str, int]


class Campaign(NamedTuple):
    """What is played: the topics that all histories share, how a history is written, and how it is played on the
    servers.
    """

    topics: str
    history: Callable[[int, Mapping[str, str]], Story]
    play: Callable[[Mapping[str, Address], Story, Mapping[str, Mapping[str, uuid.UUID]]], Awaitable[Outcome]]


async def play_groups(
    servers: Mapping[str, Address], story: Story, topic_ids: Mapping[str, Mapping[str, uuid.UUID]]
) -> Outcome:
    """Play one history of groups, beside mirrors, with new group ids."""
    clock, suffix = RealClock(), _suffix()
    sides = [
        Side(ServerWorld(name, *address), WAYS[name](), story, clock, suffix, topic_ids[name])
        for name, address in servers.items()
    ]
    return await Lockstep(sides, clock).play(story)


async def play_transactions(
    servers: Mapping[str, Address], story: Story, topic_ids: Mapping[str, Mapping[str, uuid.UUID]]
) -> Outcome:
    """Play one history of transactions, with new ids and topics. Both sides have the same ids, which fall on the same
    partitions, so that a moving coordinator has the same ids on each.
    """
    suffix = _suffix()
    halves = [Half(name, address, story, suffix, topic_ids[name]) for name, address in servers.items()]
    return await Pair(halves).play(story)


async def play_mixed(
    servers: Mapping[str, Address], story: Story, topic_ids: Mapping[str, Mapping[str, uuid.UUID]]
) -> Outcome:
    """Play one history of consumer groups with its own topics, beside mirrors that follow the servers' ids."""
    suffix = _suffix()
    own = {name + suffix.replace("~", "-"): count for name, count in story.own_topics.items()}
    drivers = [tcp.Driver(*address) for address in servers.values()]
    made = await asyncio.gather(*(driver.create_topics(own) for driver in drivers)) if own else [{}] * len(drivers)
    clock = RealClock()
    sides = [
        Side(
            ServerWorld(name, *address),
            WAYS[name](),
            story,
            clock,
            suffix,
            {**topic_ids[name], **{label: ids[real] for label, real in zip(story.own_topics, own, strict=True)}},
            Following(),
        )
        for (name, address), ids in zip(servers.items(), made, strict=True)
    ]
    try:
        if own:
            await asyncio.gather(*(heard_of(side.world, own) for side in sides))
        return await Lockstep(sides, clock, MAX_MS, WIDE_MARGIN_MS).play(story)
    finally:
        if own:
            await asyncio.gather(*(driver.delete_topics([*own]) for driver in drivers))


def _suffix() -> str:
    return "~" + secrets.token_hex(4)


GROUPS = Campaign(histories.TOPICS, histories.history, play_groups)
MIXED = Campaign(mixed_histories.TOPICS, mixed_histories.history, play_mixed)
TRANSACTIONS = Campaign(transaction_histories.TOPICS, transaction_histories.history, play_transactions)


@dataclasses.dataclass
class Found:
    """One difference: the history's number and how it went; at the end its story, if it could be shortened."""

    number: int
    outcome: Outcome
    story: str = ""


@dataclasses.dataclass
class Totals:
    """What was played."""

    histories: int = 0
    steps: int = 0
    replies: int = 0
    alike: int = 0
    met: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count one more history."""
        self.histories += 1
        self.steps += outcome.steps
        self.replies += outcome.replies
        self.alike += outcome.alike
        self.met += outcome.met


class Session:
    """Two running servers with the same settings (`broker`), by name: where each listens."""

    def __init__(self, servers: Mapping[str, Address], broker: Mapping[str, str], campaign: Campaign = GROUPS) -> None:
        self.servers, self.broker, self.campaign = dict(servers), dict(broker), campaign
        self.totals = Totals()
        self.found: list[Found] = []
        self.passing: list[Found] = []
        """Differences that did not show again, in the whole history or a shorter one: the machine was busy."""
        self._topic_ids: dict[str, dict[str, uuid.UUID]] = {}

    async def prepare(self) -> None:
        """Create the topics, and wait until the coordinators answer."""
        topics = Story("topics", f"{self.campaign.topics}\ntags txn\n")
        for name, address in self.servers.items():
            runner = await connect(*address)
            self._topic_ids[name] = await readiness.prepare(runner, {}, topics)
            await runner.close()

    async def warm_up(self) -> None:
        """Play histories that do not count: a cold JVM answers late."""
        await asyncio.gather(*(self.play(self.campaign.history(number, self.broker)) for number in range(WARM_UP)))

    async def play(self, story: Story) -> Outcome:
        """Play one history on both servers."""
        return await self.campaign.play(self.servers, story, self._topic_ids)

    async def play_one(self, number: int) -> Outcome:
        """Play and count the history of that number."""
        outcome = await self.play(self.campaign.history(number, self.broker))
        self.totals.add(outcome)
        if outcome.difference is not None:
            found = Found(number, outcome)
            is_lasting = await self._shows_again(_cut(outcome), kind(outcome.difference))
            (self.found if is_lasting else self.passing).append(found)
        return outcome

    async def run(self, numbers: Iterator[int], at_once: int, enough: Callable[[], bool], most: int) -> None:
        """Play histories, `at_once` at the same time, until `enough()` or `most` differences."""

        async def worker() -> None:
            while not enough() and len(self.found) < most:
                await self.play_one(next(numbers))

        await asyncio.gather(*(worker() for _ in range(at_once)))

    # ---- differences

    async def look_into(self, found: Found, seconds: float) -> None:
        """Make a short story of the difference within that time, with nothing beside it. If the story does not show the
        same difference again, it does not count.
        """
        wanted = kind(found.outcome.difference)
        story = _cut(found.outcome)
        if await self._shows_again(story, wanted):

            async def fails(candidate: Story) -> bool:
                return kind((await self.play(candidate)).difference) == wanted

            story = await Shrinking(story, fails, seconds).run()
            if await self._shows_again(story, wanted):
                found.story = await self._told(story)
                return
        self.found.remove(found)
        self.passing.append(found)

    async def _shows_again(self, story: Story, wanted: str) -> bool:
        in_time = late = 0
        for _ in range(MAX_AGAIN):
            outcome = await self.play(story)
            differs = kind(outcome.difference) == wanted
            late += differs and outcome.is_late
            if differs and (not outcome.is_late or late == AGAIN):
                return True
            in_time += not outcome.is_late
            if in_time == AGAIN:
                break
        return False

    async def _told(self, story: Story) -> str:
        """The story as the first server played it, and where the second one differs."""
        outcome = await self.play(story)
        first, second = self.servers
        steps = Story(story.path, outcome.text)
        recording = tcp.Driver(*self.servers[first], recording=True)
        recorded = await tcp.play(recording, steps, self._topic_ids[first])
        ours = await tcp.play(tcp.Driver(*self.servers[second]), Story(story.path, recorded), self._topic_ids[second])
        lines = difflib.unified_diff(recorded.splitlines(), ours.splitlines(), first, second, lineterm="", n=2)
        return "\n".join([recorded, *(f"# {line}" for line in lines), f"# {outcome.difference}"])


def kind(difference: str | None) -> str:
    """The kind of a difference, for any client, version and values: the server, the API, and the differing fields."""
    found = _KIND.match(difference or "")
    if found is None:
        return _NUMBER.sub("#", difference or "")
    server, api, rest = found.groups()
    fields = sorted({_INDEX.sub("", field) for field in _FIELD.findall(rest)})
    return f"{server}: {api}: {', '.join(fields) or _NUMBER.sub('#', rest.partition(':')[0])}"


def _cut(outcome: Outcome) -> Story:
    """The history up to its difference."""
    return Story(outcome.story.path, "\n".join(_texts(outcome.story)[: outcome.at]) + "\n")


def _texts(story: Story) -> list[str]:
    return [item.line if isinstance(item, Step) else item for item in story.items]


def numbered(seed: int) -> Iterator[int]:
    """The histories of a seed."""
    return itertools.count(seed * 100_000)


class Stopwatch:
    """Measures the time that has passed."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since it was made."""
        return time.monotonic() - self._began_s
