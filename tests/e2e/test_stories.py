"""Every story over TCP, on servers with the settings that the stories' `broker` lines ask for.

All stories are played at the same time, as each has groups and actors of its own: they wait most of the time. A story
measures waits in real time; one that differs is played once more with nothing beside it and all times doubled, so that
a busy machine is no failure. How many were is told at the end of the run; more than AGAIN_AT_MOST of them are one, for
then it is not the machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import PLAYED_AGAIN
from tests.e2e.conftest import BOOTSTRAP, new_server
from tests.stories.story import Story
from tests.stories.tcp import play_over_tcp
from tests.support.servers import QUICK, ServerProcess

FOLDER = Path(__file__).parents[1] / "stories"
STORIES = [Story(str(path), path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.txt"))]
AT_ONCE = 48
AGAIN_AT_MOST = 6
"""Of all stories: so many may be played once more in a run."""
DEFAULTS = {"group.max.session.timeout.ms": "1800000", "offset.metadata.max.bytes": "4096"}
"""Kafka's defaults, which some `broker` lines state all the same: no reason for another server."""

Settings = tuple[tuple[str, str], ...]


def settings_of(story: Story) -> Settings:
    """What the story's `broker` line asks for, less the defaults."""
    return tuple(sorted((name, value) for name, value in story.broker.items() if DEFAULTS.get(name) != value))


class Troupe:
    """Servers by their settings, and what came of playing their stories."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.servers: dict[Settings, ServerProcess] = {}
        self.texts: dict[str, str] = {}

    def play(self, stories: Sequence[Story]) -> None:
        """Play these stories, each on a server of its settings."""
        for settings in sorted({settings_of(story) for story in stories}):
            server = new_server(
                self.workdir / f"server-{len(self.servers)}", {**QUICK, **dict(settings)}, in_memory=True
            )
            server.start()
            self.servers[settings] = server
        asyncio.run(self._play(stories))

    def server(self, story: Story) -> ServerProcess:
        """The server that fits it."""
        return self.servers[settings_of(story)]

    async def _play(self, stories: Iterable[Story]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(story: Story) -> None:
            async with limit:
                self.texts[story.name] = await play_over_tcp(*self.server(story).address, story)

        await asyncio.gather(*map(one, stories))

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def troupe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troupe]:
    request.config.stash[PLAYED_AGAIN] = []
    if BOOTSTRAP:
        pytest.skip("stories need servers of their own settings")
    troupe = Troupe(tmp_path_factory.mktemp("stories"))
    try:
        troupe.play(sorted(selected(request.session.items), key=waits_ms, reverse=True))
        yield troupe
    finally:
        troupe.stop()


def selected(items: Iterable[pytest.Item]) -> list[Story]:
    """The stories that are asked for."""
    return [
        item.callspec.params["story"]
        for item in items
        if isinstance(item, pytest.Function) and item.function is test_story_over_tcp
    ]


def waits_ms(story: Story) -> int:
    """How long it waits, so that those that last longest are not the last."""
    return sum(int(ms) for ms in re.findall(r"^advance (\d+)$", story.text, re.MULTILINE))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_story_over_tcp(troupe: Troupe, story: Story, request: pytest.FixtureRequest) -> None:
    server = troupe.server(story)
    if troupe.texts[story.name] == story.text:
        return
    again = request.config.stash[PLAYED_AGAIN]
    again.append(story.name)
    if len(again) > AGAIN_AT_MOST:
        assert troupe.texts[story.name] == story.text, f"{AGAIN_AT_MOST} stories were played again before this one"
    alone = asyncio.run(play_over_tcp(*server.address, story, scale=1 if has_own_delays(story) else 2))
    assert alone == story.text


def has_own_delays(story: Story) -> bool:
    """Whether the story waits for a delay of the server's settings, which cannot be stretched."""
    return story.broker.get("group.initial.rebalance.delay.ms", "0") != "0"
