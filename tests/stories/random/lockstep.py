"""Plays one history on several servers at once, step by step, away from deadlines, until an answer is not allowed.

Every server is compared with a mirror that follows its ways (see `side`), and the servers with each other.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Sequence

from muster.conform.player.story import Step, Story
from tests.stories.random.side import QUIET_MS, Difference, OpenQuestion, Side
from tests.stories.random.worlds import Clock

MARGIN_MS = 150
"""No request is sent within this time before or after a deadline."""
NEVER_MS = 10**12


@dataclasses.dataclass
class Outcome:
    """How a history went: the number of `steps` played, the first `difference`, and its text as the first server showed
    it.
    """

    story: Story
    text: str = ""
    steps: int = 0
    replies: int = 0
    alike: int = 0
    """Replies in which all servers agree; accepted differences explain the others."""
    difference: str | None = None
    at: int = 0
    """How many items of the story had begun when the difference showed."""
    met: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often each accepted difference occurred: paragraph of docs/conformance.md -> times."""
    is_late: bool = False
    """A server answered so late that deadlines may have passed on it in another order."""


class Lockstep:
    """One history that is being played."""

    def __init__(
        self, sides: Sequence[Side], clock: Clock, most_ms: int = NEVER_MS, margin_ms: int = MARGIN_MS
    ) -> None:
        """`most_ms`: no step begins later."""
        self.sides, self.clock, self.most_ms, self.margin_ms = sides, clock, most_ms, margin_ms
        self.lines: list[str] = []

    async def play(self, story: Story) -> Outcome:
        """Play the story to its end, or to the first difference, and close the worlds."""
        outcome = Outcome(story)
        try:
            for item in story.items:
                if self.clock.now_ms() >= self.most_ms:
                    break
                outcome.at += 1
                if isinstance(item, Step):
                    outcome.steps += await self._step(item.line)
                else:
                    self.lines.append(item)
            await self.clock.sleep(QUIET_MS)
            await self._hold()
        except Difference as found:
            outcome.difference = str(found)
        except OpenQuestion:
            pass
        finally:
            for side in self.sides:
                await side.world.close()
                outcome.met += side.ways.met
                outcome.is_late |= side.late_ms > self.margin_ms
        outcome.text = "\n".join(self.lines) + "\n"
        reported = [side.reported for side in self.sides]
        outcome.replies = len(reported[0])
        outcome.alike = sum(all(one.get(index) == text for one in reported[1:]) for index, text in reported[0].items())
        return outcome

    async def _step(self, line: str) -> int:
        if line.startswith("advance"):
            await self._hold(int(line.split()[1]))
            return 1
        await self._hold()
        reported = [side.begin(line) for side in self.sides]
        if reported[0] is None:
            return 0
        self.lines.append(reported[0])
        outcomes: list[list[str]] = []
        while any(side.busy for side in self.sides):
            if outcomes:
                await self._hold(within_step=True)
            outcomes = await asyncio.gather(*(side.perform() for side in self.sides if side.busy))
        self.lines += outcomes[0] if outcomes else []
        return 1

    async def _hold(self, ms: int = 0, *, within_step: bool = False) -> None:
        """Let `ms` pass, and more when a deadline is near."""
        began_ms = self.clock.now_ms()
        rang_ms = [side.mirror.rang_ms for side in self.sides]
        heard: list[str] = []
        while True:
            until_ms = max(began_ms + ms, self._clear_at_ms())
            heard += (await asyncio.gather(*(side.overhear(within_step=within_step) for side in self.sides)))[0]
            now_ms = self.clock.now_ms()
            if now_ms >= max(until_ms, self._clear_at_ms()):  # the wait for replies took time too
                break
            await self.clock.sleep(max(min(until_ms, self._next_due_ms()) - now_ms, 1))
        rung = [side for side, before_ms in zip(self.sides, rang_ms, strict=True) if side.mirror.rang_ms != before_ms]
        await asyncio.gather(*(side.agree() for side in rung))
        passed_ms = self.clock.now_ms() - began_ms
        if not within_step and (ms or passed_ms > QUIET_MS or heard):
            self.lines += [f"advance {passed_ms}", *heard]

    def _clear_at_ms(self) -> int:
        """The next time without a deadline shortly before or after it."""
        now_ms, clear_ms = self.clock.now_ms(), 0
        for side in self.sides:
            side.mirror.live_until(now_ms)
            clear_ms = max(clear_ms, side.mirror.rang_ms + self.margin_ms)
            due_ms = side.mirror.due_ms()
            if due_ms is not None and due_ms <= now_ms + self.margin_ms:
                clear_ms = max(clear_ms, due_ms + self.margin_ms)
            for at_ms in side.mirror.boundaries_ms():
                if at_ms - self.margin_ms <= now_ms < at_ms + self.margin_ms:
                    clear_ms = max(clear_ms, at_ms + self.margin_ms)
        return clear_ms

    def _next_due_ms(self) -> int:
        """When the next answer of a side may come: a moment after the next deadline."""
        return min(side.mirror.due_ms() or NEVER_MS for side in self.sides) + 1
