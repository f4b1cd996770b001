"""Stories over TCP, on servers with the settings that the stories' `broker` lines ask for.

No time may pass in these stories: on a busy machine time passes by itself. Stories in which time passes are played in
virtual time on a whole node (`tests/stories/test_virtual.py`), and in real time by `make conformance-cluster`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from muster.conform import catalogue
from muster.conform.player.story import Story
from muster.conform.player.tcp import play_over_tcp
from tests.e2e.conftest import BOOTSTRAP, new_server
from tests.support.servers import QUICK, ServerProcess

STORIES = catalogue.stories()
RACES = ("protocol-type-of-the-first",)
"""In these stories a timer of 0 ms ends before the next request, but not always on a busy machine."""
TIMELESS = [story for story in STORIES if not story.takes_time and story.name not in RACES]
AT_ONCE = 12
LONGER_TIMEOUTS = 20
"""No session ends while a busy machine plays a story."""
DEFAULTS = {"group.max.session.timeout.ms": "1800000", "offset.metadata.max.bytes": "4096"}
"""Kafka's defaults. Some `broker` lines repeat them: they need no other server."""

Settings = tuple[tuple[str, str], ...]


def settings_of(story: Story) -> Settings:
    """The settings of the story's `broker` line, without the defaults."""
    return tuple(sorted((name, value) for name, value in story.broker.items() if DEFAULTS.get(name) != value))


class StoryServers:
    """Servers by their settings, and the text of each story as it went on its server."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.servers: dict[Settings, ServerProcess] = {}
        self.texts: dict[str, str | Exception] = {}

    def play(self, stories: Sequence[Story]) -> None:
        """Play these stories, some of them at the same time: each has groups and actors of its own."""
        for settings in sorted({settings_of(story) for story in stories}):
            folder = self.workdir / f"server-{len(self.servers)}"
            server = new_server(folder, {**QUICK, **dict(settings)}, in_memory=True)
            server.start()
            self.servers[settings] = server
        asyncio.run(self._play(stories))

    async def _play(self, stories: Iterable[Story]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(story: Story) -> None:
            async with limit:
                address = self.servers[settings_of(story)].address
                try:
                    self.texts[story.name] = await play_over_tcp(*address, story, scale=LONGER_TIMEOUTS)
                except Exception as failed:  # noqa: BLE001  # the test of this story raises it
                    self.texts[story.name] = failed

        await asyncio.gather(*map(one, stories))

    def stop(self) -> None:
        """Stop the servers."""
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoryServers]:
    """All stories that the test run needs are played."""
    if BOOTSTRAP:
        pytest.skip("stories need servers of their own settings")
    servers = StoryServers(tmp_path_factory.mktemp("stories"))
    try:
        servers.play(
            [
                item.callspec.params["story"]
                for item in request.session.items
                if isinstance(item, pytest.Function) and item.function is test_each_story_over_tcp_is_as_recorded
            ]
        )
        yield servers
    finally:
        servers.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("story", TIMELESS, ids=[story.name for story in TIMELESS])
def test_each_story_over_tcp_is_as_recorded(played: StoryServers, story: Story) -> None:
    text = played.texts[story.name]
    if isinstance(text, Exception):
        raise text
    assert text == story.text
