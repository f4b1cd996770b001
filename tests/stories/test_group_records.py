"""The core's records in a story are those that Kafka 4.4 wrote: the same bytes in the same order.

`group_records.py` plays the stories on a Kafka; a changed story is recorded again.
"""

from __future__ import annotations

import pytest

from tests.stories.group_records import Kept, described, kept, ours, stories, without_times

STORIES = {story.name: story for story in stories()}
KEPT = kept()


@pytest.mark.parametrize("name", sorted(KEPT))
def test_the_records_of_a_story_equal_kafkas(name: str) -> None:
    one: Kept = KEPT[name]
    assert one.text == STORIES[name].text, "the story has changed: record it anew"
    made = [without_times(pair) for pair in ours(STORIES[name], one.chance)]
    wanted = [without_times(pair) for pair in one.records]
    if made != wanted:
        assert [described(pair) for pair in made] == [described(pair) for pair in wanted]
    assert made == wanted


def test_records_of_all_stories_are_recorded() -> None:
    assert KEPT.keys() == STORIES.keys()
    assert sum(len(one.records) for one in KEPT.values()) > 1_000
