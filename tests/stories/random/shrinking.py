"""Shrinks a history that shows a difference: fewer steps, then fewer actors and arguments, while the difference
remains.

This is delta debugging. Candidates are tried side by side, because playing one is mostly waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from muster.conform.player.story import Step, Story

Fails = Callable[[Story], Awaitable[bool]]
"""Whether a story shows a difference."""
AT_ONCE = 24


class Shrinking:
    """One history that is being shortened. `seconds`: the allowed time, measured by `clock`."""

    def __init__(self, story: Story, fails: Fails, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = story.path
        self.head = [item for item in story.items if not isinstance(item, Step)]
        self.lines = [item.line for item in story.items if isinstance(item, Step)]
        self._fails, self._clock = fails, clock
        self._end = clock() + seconds

    async def run(self) -> Story:
        """The shortest story found in that time."""
        await self._drop_chunks()
        while await self._take_first(simpler(self.lines)) and self._has_time:
            pass
        return self._story(self.lines)

    @property
    def _has_time(self) -> bool:
        return self._clock() < self._end

    async def _drop_chunks(self) -> None:
        size = max(len(self.lines) // 2, 1)
        while self._has_time:
            chunks = [set(range(at, min(at + size, len(self.lines)))) for at in range(0, len(self.lines), size)]
            needless = [
                chunk for chunk, fails in zip(chunks, await self._try(map(self._without, chunks)), strict=True) if fails
            ]
            if needless:
                together = self._without(set().union(*needless))
                alone = self._without(needless[0])
                self.lines = together if len(needless) > 1 and (await self._try([together]))[0] else alone
            elif size == 1:
                return
            size = min(size, max(len(self.lines) // 2, 1)) if needless else size // 2

    async def _take_first(self, candidates: Iterator[list[str]]) -> bool:
        """Continue with the first simpler candidate that still shows the difference; False when none does."""
        batch = list(candidates)
        for at in range(0, len(batch), AT_ONCE):
            if not self._has_time:
                return False
            some = batch[at : at + AT_ONCE]
            found = next((one for one, fails in zip(some, await self._try(some), strict=True) if fails), None)
            if found is not None:
                self.lines = found
                return True
        return False

    async def _try(self, candidates: Iterator[list[str]] | list[list[str]]) -> list[bool]:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(lines: list[str]) -> bool:
            async with limit:
                return bool(lines) and await self._fails(self._story(lines))

        return await asyncio.gather(*map(one, candidates))

    def _without(self, gone: set[int]) -> list[str]:
        return [line for i, line in enumerate(self.lines) if i not in gone]

    def _story(self, lines: list[str]) -> Story:
        return Story(self.name, "\n".join([*self.head, *lines]) + "\n")


def simpler(lines: list[str]) -> Iterator[list[str]]:
    """The same steps with one step, one actor or one argument less, in this order."""
    for i in range(len(lines)):
        yield lines[:i] + lines[i + 1 :]
    for i, line in enumerate(lines):
        for other in (*fewer_actors(line), *fewer_words(line)):
            yield [*lines[:i], other, *lines[i + 1 :]]


def fewer_actors(line: str) -> Iterator[str]:
    """A step of several actors, less one of them."""
    names, colon, rest = line.partition(":")
    actors = names.split()
    if colon and len(actors) > 1:
        for i in range(len(actors)):
            yield " ".join(actors[:i] + actors[i + 1 :]) + colon + rest


def fewer_words(line: str) -> Iterator[str]:
    """A step, less one of its arguments."""
    names, colon, rest = line.partition(": ")
    verb, *words = rest.split()[:1] + rest.split()[1:] if colon else ("",)
    for i in range(len(words)):
        yield " ".join([f"{names}: {verb}", *words[:i], *words[i + 1 :]])
