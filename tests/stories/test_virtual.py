"""Every story in virtual time: on a whole node and, except those with transactions, on the core."""

from __future__ import annotations

import pytest

from muster.conform import catalogue
from muster.conform.player.story import Step, Story
from tests.stories.node import NodeDriver
from tests.stories.virtual import VirtualDriver, persisted

STORIES = catalogue.stories([*catalogue.LEVELS, catalogue.RETENTION])


def requests_of(story: Story) -> set[str]:
    """The requests of a story."""
    lines = [item.line.partition(":")[2].split() for item in story.items if isinstance(item, Step)]
    return {words[0] for words in lines if words}


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_each_story_on_a_node_is_as_recorded(story: Story) -> None:
    assert NodeDriver(story).run() == story.text


OF_THE_CORE = [story for story in STORIES if not {"txn", "handlers"} & {*story.tags} and requests_of(story) != {"find"}]
"""The stories that the core plays alone: it knows nothing of coordinators, transactions and states of partitions."""


@pytest.mark.parametrize("story", OF_THE_CORE, ids=[story.name for story in OF_THE_CORE])
def test_each_story_on_the_core_is_as_recorded(story: Story) -> None:
    driver = VirtualDriver(story)
    assert driver.run() == story.text
    assert persisted(driver.replayed(), driver.core) == persisted(driver.core, driver.core)
