"""Random stories on the core: whatever comes, it answers, and its log tells the same as it does."""

from __future__ import annotations

import pytest

from tests.stories.random_stories import first_difference, is_open, random_story
from tests.stories.virtual import VirtualDriver, persisted


@pytest.mark.parametrize("seed", range(60))
def test_a_random_story_is_told_twice_the_same_and_its_log_replays(seed: int) -> None:
    driver, twin = VirtualDriver(random_story(seed)), VirtualDriver(random_story(seed))
    assert driver.run() == twin.run()
    assert persisted(driver.replayed(), driver.core) == persisted(driver.core, driver.core)


def test_the_leader_is_the_only_thing_left_open() -> None:
    line = "    A <- join ok generation=2 protocol=range leader=A members=[A B]"
    assert first_difference(line, line) is None
    assert is_open((line, line.replace("leader=A members=[A B]", "leader=B")))
    assert not is_open((line, line.replace("generation=2", "generation=3")))
    assert not is_open(("    A waiting", line))
