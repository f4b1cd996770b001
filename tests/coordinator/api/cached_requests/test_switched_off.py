"""Stories recorded from a real Kafka, played over TCP on a node that prepares no request: nothing is
different, either. (The end-to-end tests play all stories on one that prepares them.)
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.stories.story import Story
from tests.stories.tcp import play_over_tcp
from tests.support.muster import running
from tests.support.servers import QUICK

FOLDER = Path(__file__).parents[3] / "stories"
STORIES = [
    Story(str(path), path.read_text(encoding="utf-8"))
    for pattern in ("commit-*.txt", "heartbeat-*.txt", "static-*.txt")
    for path in sorted(FOLDER.glob(pattern))
]
AT_ONCE = 48


def test_stories_give_the_same_answers_without_cached_requests() -> None:
    stories = [story for story in STORIES if "txn" not in story.tags and story.broker.items() <= QUICK.items()]
    assert len(stories) > 10

    async def play() -> dict[str, str]:
        limit = asyncio.Semaphore(AT_ONCE)
        async with running(QUICK, caches=False) as server:
            address = server.bound[0].host, server.bound[0].port

            async def one(story: Story) -> str:
                async with limit:
                    text = await play_over_tcp(*address, story)
                # a busy machine is no failure: what differs is played once more, slowly
                return text if text == story.text else await play_over_tcp(*address, story, scale=2)

            return dict(zip([story.name for story in stories], await asyncio.gather(*map(one, stories)), strict=True))

    assert asyncio.run(play()) == {story.name: story.text for story in stories}
