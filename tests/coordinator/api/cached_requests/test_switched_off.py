"""Stories recorded from a real Kafka, played in virtual time on a node that caches no request: the outcomes are the
same.

`tests/stories/test_virtual.py` plays all stories on a node that caches them.
"""

from __future__ import annotations

import pytest

from muster.conform import catalogue
from muster.conform.player.story import Story
from tests.stories.node import NodeDriver

STORIES = [story for story in catalogue.stories() if story.name.startswith(("commit-", "heartbeat-", "static-"))]


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_stories_give_the_same_answers_without_cached_requests(story: Story) -> None:
    assert NodeDriver(story, caches=False).run() == story.text


def test_many_stories_are_played_without_cached_requests() -> None:
    assert len(STORIES) > 80
