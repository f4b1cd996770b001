"""conform/kafka-releases.md is what the stories say, and each difference between releases is explained."""

from __future__ import annotations

import fnmatch
import json

from muster.conform import catalogue
from muster.conform.player.releases import RELEASES, name_of
from muster.conform.player.story import Story
from tools.stories import page
from tools.stories.page import Change, Difference

STORIES = catalogue.stories()


def test_each_difference_between_releases_is_explained_and_each_explanation_is_of_use() -> None:
    stories, rest = page.explained(page.differences(STORIES), page.changes())
    assert [(one.story.name, name_of(one.since)) for one in rest] == []
    assert [change.says for change, names in stories.items() if not names] == []
    for change, names in stories.items():
        for pattern in change.stories:
            assert any(fnmatch.fnmatch(name, pattern) for name in names), (change.says, pattern)


def test_the_page_is_up_to_date() -> None:
    served = json.loads(page.SERVED.read_text(encoding="utf-8"))
    assert list(served) == [name_of(release) for release in reversed(RELEASES)]
    made = page.page(STORIES, page.changes(), served)
    assert page.PAGE.read_text(encoding="utf-8") == made, "run python -m tools.stories.page"


def test_a_difference_in_numbers_alone_needs_no_story() -> None:
    story = Story("x.txt", "A: join\n    A <- join ok generation=2\n  until 4.3\n    A <- join ok generation=1\n")
    numbers = Change((4, 4), "Higher.", without=r"generation=\d+")
    other = Change((4, 4), "Another.", stories=("y",))
    found = page.differences([story])
    assert found == [Difference((4, 4), story, *(f"A: join\n    A <- join ok generation={n}\n" for n in (1, 2)))]
    assert page.explained(found, [numbers, other]) == ({numbers: ["x"], other: []}, [])
    assert page.explained(found, [other]) == ({other: []}, found)
