"""Every story over TCP, on servers with the settings that the stories' `broker` lines ask for.

The stories of one server are played at the same time, as each has groups and actors of its own. A story measures waits
in real time; one that differs is played once more with nothing beside it and all times doubled, so that a busy machine
is no failure. How many were is told at the end of the run; more than AGAIN_AT_MOST of them are one, for then it is not
the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import BOOTSTRAP, PLAYED_AGAIN, new_server
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
    """Servers by their settings, started when first asked for, and what came of playing their stories."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.servers: dict[Settings, ServerProcess] = {}
        self.texts: dict[str, str] = {}

    def server(self, settings: Settings) -> ServerProcess:
        """The server with these settings; the stories that fit it have been played on it."""
        if settings not in self.servers:
            workdir = self.workdir / f"server-{len(self.servers)}"
            server = new_server(workdir, {**QUICK, **dict(settings)}, in_memory=True)
            server.start()
            self.servers[settings] = server
            fitting = [story for story in STORIES if settings_of(story) == settings]
            asyncio.run(self.play(server, fitting))
        return self.servers[settings]

    async def play(self, server: ServerProcess, stories: list[Story]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(story: Story) -> None:
            async with limit:
                self.texts[story.name] = await play_over_tcp(*server.address, story)

        await asyncio.gather(*(one(story) for story in stories))

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def troupe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troupe]:
    request.config.stash[PLAYED_AGAIN] = []
    if BOOTSTRAP:
        pytest.skip("stories need servers of their own settings")
    troupe = Troupe(tmp_path_factory.mktemp("stories"))
    yield troupe
    troupe.stop()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_story_over_tcp(troupe: Troupe, story: Story, request: pytest.FixtureRequest) -> None:
    server = troupe.server(settings_of(story))
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
