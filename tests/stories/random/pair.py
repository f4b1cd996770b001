"""Plays one history on two servers at once, step by step, and compares each step. It needs no mirror, because its
requests are answered at once, as those of transactions are.

Transactions time out between steps: no step begins while a server may be about to end one. Requests answered "not ready
yet" are repeated, on each side as often as it needs.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Mapping, Sequence

from muster.conform.player import playing, readiness, tcp
from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.connection import codes
from muster.conform.player.stage import Stage
from muster.conform.player.story import Body, Step, Story
from tests.stories.random.accepted import accepted
from tests.stories.random.lockstep import Outcome
from tests.stories.random.side import UNTELLABLE, Difference, with_ids

MARGIN_MS = 150
"""No request is sent within this time before a transaction times out."""
LATE_MS = 400
"""A transaction is aborted within this time after its timeout, because the coordinator checks every 100 ms; otherwise
it is waited for.
"""
SHORT_MS = 10_000
"""Transactions with a longer timeout do not time out in a history."""
PATIENCE_S = 10.0
COORDINATOR_EPOCH = re.compile(r"coordinator=\d+")


Facts = tuple[tuple[int, int], dict[tuple[str, int], int]]
"""Producer id and epoch, and the next sequence numbers."""


class Half:
    """One server in one history."""

    def __init__(
        self, name: str, address: tuple[str, int], story: Story, suffix: str, ids: Mapping[str, uuid.UUID]
    ) -> None:
        self.name, self.address = name, address
        self._moves = not address[1]  # with several brokers, the ids are on other partitions, with other epochs
        self.driver = tcp.Driver(*address)
        self.stage = Stage(story, suffix, dict(ids))
        self._ids = {"TransactionalIds": [f"{name}{suffix}" for name in ("tx", "ty")]}
        self._runner: AnyConnection | None = None

    async def begin(self) -> None:
        """Create the topics of the history."""
        self._runner = await connect(*self.address)
        counts = {self.stage.topic(name): count for name, count in self.stage.story.own_topics.items()}
        known: readiness.Ready = {}
        await readiness.create_topics(self._runner, known, counts)
        self.stage.topic_ids |= {self.stage.topic_label(name): known[name] for name in counts}
        await self.see_topics([{"Name": name, "NumPartitions": count} for name, count in counts.items()])

    async def perform(self, line: str) -> list[str] | None:
        """Perform one step: its outcome lines; None when they are not known yet."""
        line = with_ids(line, self.stage)
        names, colon, _ = line.partition(":")
        outcome = [f"    {name} <- ." for name in names.split()] if colon else []
        play = playing.step(self.stage, Step(line, outcome, 0), outcome)
        answer = None
        try:
            while True:
                action = play.send(answer)
                answer = await self.driver.act(action)
                if getattr(action, "api", "") in ("CreateTopics", "DeleteTopics"):
                    await self.see_topics(action.body["Topics"])
        except StopIteration as end:
            return [COORDINATOR_EPOCH.sub("coordinator=_", text) if self._moves else text for text in end.value]
        except UNTELLABLE:
            return None

    def known(self, line: str) -> Facts:
        """What the actor of a step remembers of its producer."""
        actor = self.stage.actor(line.partition(":")[0]) if ":" in line else self.stage.actor("nobody")
        return actor.producer, dict(actor.sequences)

    def go_on_as(self, line: str, facts: Facts) -> None:
        """Let the actor of a step remember this: so different answers have no consequences."""
        actor = self.stage.actor(line.partition(":")[0])
        actor.producer, actor.sequences = facts[0], dict(facts[1])

    async def see_topics(self, topics: list[Body]) -> None:
        """Wait until created topics have leaders and deleted topics are gone, for clients too."""
        assert self._runner is not None
        asked = [{"TopicId": uuid.UUID(int=0), "Name": topic["Name"]} for topic in topics]
        made = "NumPartitions" in topics[0]
        partitions = [
            {"Name": topic["Name"], "PartitionIndexes": [*range(topic.get("NumPartitions", 1))]} for topic in topics
        ]
        for _ in range(200):
            found = await self._runner.ask("Metadata", 12, {"Topics": asked, "AllowAutoTopicCreation": False})
            led = await self._runner.ask("DescribeProducers", 0, {"Topics": partitions})
            errors = [*codes(found), *codes(led)]
            if not any(errors) if made else all(codes(led)):
                return
            await asyncio.sleep(0.01)

    async def busy_until(self) -> float | None:
        """The earliest wall time of the next step; None: now.

        While markers are written it is soon; a transaction that is about to time out is waited for.
        """
        assert self._runner is not None
        found = await self._runner.ask("DescribeTransactions", 0, self._ids)
        if not tcp.is_at_rest(found):
            return time.time() + 0.01
        for one in found["TransactionStates"]:
            if one["TransactionState"] != "Ongoing" or one["TransactionTimeoutMs"] > SHORT_MS:
                continue
            due_ms = one["TransactionStartTimeMs"] + one["TransactionTimeoutMs"]
            if due_ms - MARGIN_MS <= time.time() * 1000:
                return max((due_ms + LATE_MS) / 1000, time.time() + 0.05)
        return None

    async def end(self) -> None:
        """End the history."""
        if self._runner is not None:
            await self._runner.close()
        await self.driver.delete_topics([self.stage.topic(name) for name in self.stage.story.own_topics])
        await self.driver.close()


class Pair:
    """One history that is being played."""

    def __init__(self, halves: Sequence[Half]) -> None:
        self.halves = halves
        self.lines: list[str] = []

    async def play(self, story: Story) -> Outcome:
        """Play the story to its end, or to the first difference."""
        outcome = Outcome(story)
        try:
            await asyncio.gather(*(half.begin() for half in self.halves))
            for item in story.items:
                outcome.at += 1
                if isinstance(item, Step):
                    await self._step(item.line, outcome)
                else:
                    self.lines.append(item)
        except Difference as found:
            outcome.difference = str(found)
        finally:
            await asyncio.gather(*(half.end() for half in self.halves))
        outcome.text = "\n".join(self.lines) + "\n"
        return outcome

    async def _step(self, line: str, outcome: Outcome) -> None:
        began_s = time.time()
        await self._quiet()
        known = [half.known(line) for half in self.halves]
        reported = await asyncio.gather(*(half.perform(line) for half in self.halves))
        first = reported[0]
        if first is None and all(one is None for one in reported):
            return
        waited_ms = int((time.time() - began_s) * 1000)
        if waited_ms > MARGIN_MS and not line.startswith("advance"):
            self.lines.append(f"# {waited_ms} ms passed")
        self.lines += [with_ids(line, self.halves[0].stage), *(first or ["    cannot be told"])]
        outcome.steps += 1
        for half, other in zip(self.halves[1:], reported[1:], strict=True):
            outcome.replies += 1
            paragraph = None if other == first else accepted(first or [], other or [])
            if paragraph is not None:
                outcome.met[paragraph] += 1
                for one, facts in zip(self.halves, known, strict=True):
                    one.go_on_as(line, facts)
            elif other != first:
                self.lines += [f"#   {half.name}: {text.strip()}" for text in other or ["cannot be told"]]
                raise Difference(_difference(line, first or [], other or []))
            else:
                outcome.alike += 1

    async def _quiet(self) -> None:
        """Wait until nothing is about to happen on either side."""
        end = time.time() + PATIENCE_S
        while time.time() < end:
            until = [when for when in await asyncio.gather(*(half.busy_until() for half in self.halves)) if when]
            if not until:
                return
            await asyncio.sleep(max(max(until) - time.time(), 0.01))
        raise Difference("a transaction does not come to its end")


def _difference(line: str, first: list[str], other: list[str]) -> str:
    """The difference, without the numbers and names of this history."""
    verb = line.partition(": ")[2].split()[:1]
    pairs = [(one.strip(), two.strip()) for one, two in zip(first, other, strict=False) if one != two]
    return f"{' '.join(verb)}: {pairs[0][0]} | {pairs[0][1]}" if pairs else f"{' '.join(verb)}: {first} | {other}"
