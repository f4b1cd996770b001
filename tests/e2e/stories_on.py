"""Stories of one broker, played on several: clients ask the leader or the coordinator, and get the same answers."""

from __future__ import annotations

import asyncio
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from muster.conform.player.story import Story
from muster.conform.player.tcp import play_over_tcp
from tests.e2e.test_stories import LONGER_TIMEOUTS, STORIES, settings_of
from tests.support.cluster_nodes import ClusterNodes
from tests.support.postgres import own_database
from tests.support.servers import QUICK, NodesServer

AT_ONCE = 24
AGAIN = 2
"""A story that differs is played again this number of times, alone and more slowly: a busy machine is no failure."""
Start = Callable[[Mapping[str, str]], AbstractContextManager[str]]
"""Servers with these properties, while the context lasts: all their addresses."""


def nodes(workdir: Path) -> Start:
    """`--nodes 3`."""

    @contextmanager
    def running(properties: Mapping[str, str]) -> Iterator[str]:
        server = NodesServer(_new_folder(workdir), properties)
        server.start()
        try:
            yield server.bootstrap
        finally:
            server.stop()

    return running


def cluster(workdir: Path, postgres: str) -> Start:
    """Three processes of `--cluster`, over a new database each time."""

    @contextmanager
    def running(properties: Mapping[str, str]) -> Iterator[str]:
        with own_database(postgres) as database:
            server = ClusterNodes(_new_folder(workdir), properties, database)
            server.start()
            try:
                yield server.bootstrap
            finally:
                server.stop()

    return running


def _new_folder(workdir: Path) -> Path:
    return workdir / f"servers-{len(list(workdir.iterdir()))}"


def quick(every: int) -> list[Story]:
    """Every `every`-th of the stories that have the usual settings and in which no time passes."""
    usual = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
    found = [story for story in STORIES if dict(settings_of(story)) == usual and not story.takes_time]
    return found[::every]


def has_own_delays(story: Story) -> bool:
    """Whether the story waits for a delay of the server's settings, which cannot be stretched."""
    return story.broker.get("group.initial.rebalance.delay.ms", "0") != "0"


def differences(stories: Sequence[Story], start: Start) -> list[str]:
    """Play the stories, each on servers with its settings. Returns how each differs from its text."""
    by_settings = defaultdict(list)
    for story in stories:
        by_settings[settings_of(story)].append(story)
    found: list[str] = []
    for settings, its in sorted(by_settings.items()):
        with start({**QUICK, "transaction.state.log.num.partitions": "5", **dict(settings)}) as bootstrap:
            found += asyncio.run(_played(bootstrap, its))
    return found


async def _played(bootstrap: str, stories: Sequence[Story]) -> list[str]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(story: Story) -> str:
        async with limit:
            return await play_over_tcp(bootstrap, 0, story, scale=1 if story.takes_time else LONGER_TIMEOUTS)

    found = []
    for story, text in zip(stories, await asyncio.gather(*map(one, stories)), strict=True):
        for _ in range(AGAIN):
            if text != story.text:
                text = await play_over_tcp(bootstrap, 0, story, scale=1 if has_own_delays(story) else 2)
        if text != story.text:
            lines = difflib.unified_diff(story.text.splitlines(), text.splitlines(), "story", "here", lineterm="", n=2)
            found.append("\n".join([story.name, *lines]))
    return found
