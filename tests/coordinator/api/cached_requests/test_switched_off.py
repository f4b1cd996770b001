"""Stories recorded from a real Kafka, played in virtual time on a node that caches no request: the outcomes are the
same.

`tests/stories/test_virtual.py` plays all stories on a node that caches them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.node import NodeDriver
from tests.stories.story import Story

FOLDER = Path(__file__).parents[3] / "stories"
STORIES = [
    Story(str(path), path.read_text(encoding="utf-8"))
    for pattern in ("commit-*.txt", "heartbeat-*.txt", "static-*.txt")
    for path in sorted(FOLDER.glob(pattern))
]


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_stories_give_the_same_answers_without_cached_requests(story: Story) -> None:
    assert NodeDriver(story, caches=False).run() == story.text


def test_many_stories_are_played_without_cached_requests() -> None:
    assert len(STORIES) > 80
