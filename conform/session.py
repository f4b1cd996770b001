"""A whole run: the broker is looked at, stories and probes are played, and a report is made."""

from __future__ import annotations

import asyncio
import datetime
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from muster.client.connection import RequestFailed
from muster.client.security import ClientSecurity
from muster.conform import catalogue, probes, target
from muster.conform.cleaning import Cleaning
from muster.conform.hurts import with_hurts
from muster.conform.login import Streams
from muster.conform.plan import START, Plan, described, plan
from muster.conform.player.releases import Release, name_of
from muster.conform.results import Outcome, Report, State
from muster.conform.running import Run
from muster.conform.target import Target
from muster.version import VERSION

WIRE = "wire"
"""The level of the probes."""
LEVELS = (*catalogue.LEVELS, WIRE)


@dataclass(frozen=True)
class Wishes:
    """What the user wants of a run."""

    levels: Sequence[str] = LEVELS
    stories: Sequence[str] = ()
    """Only these stories, by name. Empty: all of the levels."""
    release: Release | None = None
    """None: the release is chosen by the versions that the broker offers."""
    may_alter: bool = False


@dataclass
class Session:
    """A run on one broker."""

    target: Target
    wishes: Wishes
    release: Release
    run: str
    plan: Plan
    outcomes: list[Outcome] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def start(self) -> str:
        """The beginning of all names of this run."""
        return START + self.run

    @property
    def count(self) -> int:
        """How many stories and probes there are in all."""
        amount = len(self.plan.played) + len(self.plan.skipped)
        return amount + (len(probes.all_probes(self.target.keys)) if self.has_probes else 0)

    @property
    def has_probes(self) -> bool:
        """Whether probes are sent, too."""
        return WIRE in self.wishes.levels and not self.wishes.stories

    def dry(self) -> list[str]:
        """What the run would make and change."""
        lines = described(self.plan)
        if self.has_probes:
            lines.append(f"topics and groups {self.start}* of the probes, deleted at the end")
        return lines

    async def play(self, on_outcome: Callable[[Outcome], object]) -> Report:
        """Play everything. If the task is cancelled, the report is of what was played until then."""
        began, clock = datetime.datetime.now(datetime.UTC), time.monotonic()

        def report(outcome: Outcome) -> None:
            outcome = with_hurts(outcome) if outcome.state is State.FAILED else outcome
            self.outcomes.append(outcome)
            on_outcome(outcome)

        cleaning = Cleaning(self.target, self.start)
        try:
            await Run(self.target, self.plan, cleaning, report).play()
            if self.has_probes:
                await self._probe(report)
        except asyncio.CancelledError:
            self.interrupted = True
        return Report(
            self.target.address, self.target.software, name_of(self.release), VERSION,
            began.isoformat(timespec="seconds"), time.monotonic() - clock, tuple(self.outcomes),
            (*cleaning.left, *self.left),
        )  # fmt: skip

    async def _dial(self) -> Streams:
        """A connection for a probe. Raises ConnectionError: a broker may refuse some of many connections."""
        try:
            return await self.target.opened(*self.target.addresses[0])
        except RequestFailed as failure:
            raise ConnectionError(f"{failure}") from failure

    async def _probe(self, report: Callable[[Outcome], object]) -> None:
        _, left = await probes.run_probes(
            self._dial,
            self.target.keys,
            may_alter=self.wishes.may_alter,
            prefix=f"{self.start}-",
            done=report,
        )
        self.left += left


async def begin(address: tuple[str, int], shown: str, security: ClientSecurity | None, wishes: Wishes) -> Session:
    """Look at the broker, and plan the run. Raises RequestFailed."""
    found = await target.find(address, shown, security)
    release = wishes.release or found.release
    stories = catalogue.stories([level for level in catalogue.LEVELS if level in wishes.levels], release)
    if wishes.stories:
        stories = [story for story in catalogue.stories(release=release) if story.name in wishes.stories]
    run = secrets.token_hex(3)
    chosen = plan(
        stories,
        found.known,
        run,
        release,
        may_alter=wishes.may_alter,
        brokers=len(found.addresses),
        is_anonymous=security is None or security.is_anonymous,
    )
    return Session(found, wishes, release, run, chosen)


async def run(
    address: tuple[str, int],
    wishes: Wishes,
    *,
    security: ClientSecurity | None = None,
    on_outcome: Callable[[Outcome], object] = lambda _: None,
) -> Report:
    """A whole run on the broker at this address. Raises RequestFailed."""
    host, port = address
    one = await begin(address, f"{host}:{port}", security, wishes)
    return await one.play(on_outcome)
