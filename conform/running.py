"""Plays the stories of a plan on a broker, side by side, and cleans up behind them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.conform.cleaning import FAILURES, Cleaning, batches
from muster.conform.judging import Attempt, judged
from muster.conform.plan import Plan, Planned, skip
from muster.conform.player import readiness, tcp
from muster.conform.player.brokers import AnyConnection
from muster.conform.player.tcp import Driver, NotServed
from muster.conform.pulse import Pulse
from muster.conform.results import Outcome, State
from muster.conform.target import BROKER, GROUP, Target, alter, described

AT_ONCE = 16
"""How many stories are played side by side."""
PATIENCE_S = 10.0
"""How long a due answer may take when stories are played side by side."""
QUIET_S = 0.1
"""After this time without an answer a request counts as waiting."""
STORY_S = 60.0
"""How long a story may take beyond the time that it waits."""
AGAIN = 2
"""A story has failed when it goes wrong this often again, alone, while nobody is busy."""
MOST_TRIES = 6
"""How often a story is played again at most, on a busy machine."""
STRETCHED = 3
"""How much the times of a story are stretched in every second try."""
AGAIN_S = 150.0
"""After this time no more failed stories are played again: their failures are not a matter of time."""
EFFECTIVE_S = 10.0
"""How long a change of configs may take to be seen by all."""
SETTLE_S = 0.3
ALONE = "alone"
"""The tag of a story whose answers depend on what others ask at the same time."""
EXACT = ("consumer", "share", "streams", "data")
"""In stories of these levels the number of partitions counts."""

OnOutcome = Callable[[Outcome], object]
"""Is called with each outcome, when it is final."""


@dataclass
class Run:
    """One run of a plan."""

    target: Target
    plan: Plan
    cleaning: Cleaning
    on_outcome: OnOutcome
    at_once: int = AT_ONCE
    to_the_end: bool = False
    """Whether a story continues after the first step that differs."""
    outcomes: list[Outcome] = field(default_factory=list)
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pulse = Pulse(self.target)

    async def play(self) -> None:
        """Play all stories, and clean up, also after a failure or when the run is cancelled."""
        for outcome in self.plan.skipped:
            self._keep(outcome)
        self.pulse.start()
        try:
            for configs, ones in self.plan.phases:
                await self._phase(configs, ones)
        finally:
            await self.pulse.stop()
            await asyncio.shield(self.cleaning.clean())

    async def _phase(self, configs: Mapping[str, str], ones: Sequence[Planned]) -> None:
        runner = await self.target.connect()
        try:
            before = await self._alter_brokers(runner, configs)
            try:
                playable = await self._prepared(runner, ones)
                await self._play_all(runner, playable)
            finally:
                await asyncio.shield(self._put_back(runner, before))
        finally:
            await runner.close()

    def _keep(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.on_outcome(outcome)

    # ---- before the stories

    async def _alter_brokers(self, runner: AnyConnection, configs: Mapping[str, str]) -> dict[str, str | None]:
        """Change settings of all brokers. Returns what they were as dynamic settings: None means not set."""
        if not configs:
            return {}
        version = self.target.version("DescribeConfigs", 4) or 0
        rows = await described(runner, version, BROKER, "", list(configs))
        before = {name: rows[name]["Value"] if name in rows else None for name in configs}
        await alter(runner, self.target.version("IncrementalAlterConfigs", 1) or 0, [(BROKER, "", configs)])
        await asyncio.sleep(SETTLE_S)
        return before

    async def _put_back(self, runner: AnyConnection, before: Mapping[str, str | None]) -> None:
        if not before:
            return
        changes = " ".join(f"{name}={value}" for name, value in before.items())
        try:
            version = self.target.version("IncrementalAlterConfigs", 1) or 0
            for why in await alter(runner, version, [(BROKER, "", before)]):
                self.cleaning.left.append(f"not put back: {changes}: {why}")
        except FAILURES as failure:
            self.cleaning.left.append(f"not put back: {changes}: {failure}")

    async def _prepared(self, runner: AnyConnection, ones: Sequence[Planned]) -> list[Planned]:
        """Make the topics and let the coordinators load. Returns the stories that can be played."""
        topics = {name: count for one in ones for name, count in one.topics.items()}
        try:
            if topics:
                await readiness.create_topics(runner, self.topic_ids, topics, self.target.versions)
            playable = await self._with_topics(runner, ones)
        except FAILURES as failure:
            for one in ones:
                if one.topics or one.own_topics:
                    self._keep(skip(one.story, f"topics cannot be made: {failure}"))
            playable = [one for one in ones if not (one.topics or one.own_topics)]
        start, versions = self.cleaning.start, self.target.versions
        # a broker that answers these requests wrongly fails in the stories
        with contextlib.suppress(*FAILURES):
            await self._alone(lambda own: readiness.coordinators_ready(own, self._kinds(playable), start, versions))
        shares = [one for one in playable if "share" in one.story.tags and one.topics]
        if shares and self.target.serves("ShareGroupHeartbeat", 1):
            topic = next(iter(shares[0].topics))
            with contextlib.suppress(*FAILURES):
                await self._alone(lambda own: readiness.shares_ready(own, topic, start))
        return playable

    async def _alone(self, asked: Callable[[AnyConnection], Awaitable[None]]) -> None:
        """Ask on a connection of its own, which a wrong answer may end."""
        own = await self.target.connect()
        try:
            await asked(own)
        finally:
            await own.close()

    async def _with_topics(self, runner: AnyConnection, ones: Sequence[Planned]) -> list[Planned]:
        """The stories whose topics are as they need them. Some brokers make topics by themselves, as they like."""
        if "CreateTopics" in self.target.versions:
            return list(ones)
        names = {name for one in ones for name in one.topics}
        found = await readiness.partition_counts(runner, names, self.target.versions) if names else {}
        playable = []
        for one in ones:
            if one.own_topics or (one.level in EXACT and any(found[name] != its for name, its in one.topics.items())):
                self._keep(skip(one.story, "the broker does not offer CreateTopics"))
            else:
                playable.append(one)
        return playable

    def _kinds(self, ones: Sequence[Planned]) -> list[int]:
        """The kinds of coordinators that the stories need."""
        return (
            [0, 1] if any("txn" in one.story.tags for one in ones) and self.target.serves("InitProducerId", 4) else [0]
        )

    async def _configure(self, runner: AnyConnection, names: Mapping[str, Mapping[str, str]]) -> None:
        """Give groups their configs, and wait until they count."""
        if not names:
            return
        for group, configs in names.items():
            self.cleaning.remember(group, configs)
        altering = self.target.version("IncrementalAlterConfigs", 1) or 0
        for portion in batches(list(names)):
            await alter(runner, altering, [(GROUP, name, names[name]) for name in portion])
        last, configs = list(names.items())[-1]
        version = self.target.version("DescribeConfigs", 4) or 0
        end = time.monotonic() + EFFECTIVE_S
        while time.monotonic() < end:
            rows = await described(runner, version, GROUP, last)
            if all(name in rows and rows[name]["Value"] == value for name, value in configs.items()):
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLE_S)

    # ---- the stories

    async def _play_all(self, runner: AnyConnection, ones: Sequence[Planned]) -> None:
        """Play the stories side by side, the longest first; then the failed ones again."""
        suffixes = {one.story.name: new_suffix() for one in ones}
        await self._configure(
            runner,
            {name: one.group_configs for one in ones if one.group_configs
             for name in self._groups(one, suffixes[one.story.name])},
        )  # fmt: skip
        limit = asyncio.Semaphore(self.at_once)
        failed: list[Attempt] = []

        async def play(one: Planned) -> None:
            async with limit:
                attempt = await self._attempt(one, suffixes[one.story.name], PATIENCE_S, QUIET_S)
            if attempt.is_right or attempt.not_served is not None:
                self._keep(judged(attempt, State.PASSED))
            else:
                failed.append(attempt)

        async with asyncio.TaskGroup() as group:
            for one in sorted(ones, key=lambda one: -one.seconds):
                if ALONE not in one.story.tags:
                    group.create_task(play(one))
        for one in ones:
            if ALONE in one.story.tags:
                await play(one)
        began = time.monotonic()
        for attempt in sorted(failed, key=lambda attempt: attempt.planned.story.name):
            again = time.monotonic() - began < AGAIN_S
            self._keep(await self._again(runner, attempt) if again else judged(attempt, State.FAILED))

    def _groups(self, one: Planned, suffix: str) -> list[str]:
        return [name + suffix for name in one.groups]

    async def _again(self, runner: AnyConnection, first: Attempt) -> Outcome:
        """Play a failed story again, alone, until it is right, or has gone wrong twice while nobody was busy."""
        text, calm = first.text, 0
        for number in range(MOST_TRIES):
            suffix = new_suffix()
            if first.planned.group_configs:
                groups = self._groups(first.planned, suffix)
                await self._configure(runner, dict.fromkeys(groups, first.planned.group_configs))
            scale = STRETCHED if number % 2 and first.planned.can_be_stretched else 1
            began = time.monotonic()
            last = await self._attempt(first.planned, suffix, tcp.PATIENCE_S, QUIET_S, scale)
            tries = number + 2
            if last.is_right:
                return judged(last, State.FLAKY, tries, first, f"it was right in try {tries}, alone")
            calm += not self.pulse.was_busy(began, scale)
            if calm == AGAIN or (last.text == text and not first.planned.depends_on_time):
                return judged(last, State.FAILED, tries)
            text = last.text
        return judged(last, State.FLAKY, tries, first, "it never went right, but the machine was too busy to tell")

    async def _attempt(self, one: Planned, suffix: str, patience_s: float, quiet_s: float, scale: float = 1) -> Attempt:
        target = self.target
        driver = Driver(
            target.host,
            target.port,
            scale,
            opened=target.opened,
            patience_s=patience_s,
            quiet_s=quiet_s,
            served=target.versions,
        )
        ids = {name: self.topic_ids[real] for name, real in zip(one.story.topics, one.topics, strict=True)}
        attempt = Attempt(one, "", driver, 0.0)
        began = time.monotonic()
        try:
            async with asyncio.timeout(STORY_S + one.seconds * scale):
                attempt.text = await tcp.play(
                    driver, one.story, ids, suffix, prefix=one.prefix, to_the_end=self.to_the_end
                )
        except NotServed as missing:
            attempt.not_served = missing
        except FAILURES as failure:
            attempt.trouble = str(failure) or "the story did not end"
        finally:
            for send in driver.sent:
                if send.api == "IncrementalAlterConfigs":
                    for row in send.body["Resources"]:
                        if row["ResourceType"] == GROUP and (row["ResourceName"] or "").startswith(self.cleaning.start):
                            self.cleaning.remember(row["ResourceName"], [config["Name"] for config in row["Configs"]])
        attempt.seconds = time.monotonic() - began
        return attempt


def new_suffix() -> str:
    """The end of the names of groups in one attempt."""
    return "~" + secrets.token_hex(4)
