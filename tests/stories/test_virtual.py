"""Every story in virtual time: on the core, and those with transactions on a whole node."""

from __future__ import annotations

import pathlib

import pytest

from tests.stories.node import NodeDriver
from tests.stories.story import Step, Story
from tests.stories.virtual import VirtualDriver, persisted

FOLDER = pathlib.Path(__file__).parent
STORIES = [
    Story(str(path), path.read_text(encoding="utf-8"))
    for path in sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("retention/*.txt")])
]


def requests_of(story: Story) -> set[str]:
    """What the story asks for."""
    lines = [item.line.partition(":")[2].split() for item in story.items if isinstance(item, Step)]
    return {words[0] for words in lines if words}


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_story_in_virtual_time(story: Story) -> None:
    if requests_of(story) == {"find"}:
        pytest.skip("asks for a coordinator, which the core knows nothing of: see tests/e2e")
    if "txn" in story.tags:
        assert NodeDriver(story).run() == story.text
        return
    driver = VirtualDriver(story)
    assert driver.run() == story.text
    assert persisted(driver.replayed(), driver.core) == persisted(driver.core, driver.core)
