"""Tests of stories over releases: what older releases answered stands below the steps."""

from __future__ import annotations

import pytest

from muster.conform import catalogue
from muster.conform.player import releases
from muster.conform.player.story import Story

NEW = "# A title.\ntopics t=1\n\nA: enter\n    A <- join ok\nadvance 100\nA: leave\n    A <- leave ok\n"
OLD = NEW.replace("leave ok", "leave UNKNOWN_MEMBER_ID")
OLDEST = OLD.replace("    A <- join ok\n", "")


def test_text_of_each_release() -> None:
    source = releases.merged({(4, 4): NEW, (4, 2): OLD, (4, 0): OLDEST})
    wanted = {None: NEW, (4, 4): NEW, (4, 3): NEW, (4, 2): OLD, (4, 1): OLD, (4, 0): OLDEST, (3, 9): OLDEST}
    assert {release: releases.text_of(source, release) for release in wanted} == wanted
    assert "    A <- leave ok\n  until 4.2\n    A <- leave UNKNOWN_MEMBER_ID\n" in source


def test_a_change_that_was_taken_back_is_noted_twice() -> None:
    source = releases.merged({(4, 4): NEW, (4, 1): OLD, (4, 0): NEW})
    assert [releases.text_of(source, one) for one in ((4, 2), (4, 1), (4, 0))] == [NEW, OLD, NEW]


def test_recording_the_newest_release_keeps_the_older_ones() -> None:
    source = releases.merged({(4, 4): NEW, (4, 2): OLD})
    other = NEW.replace("join ok", "join ok leader=A")
    again = releases.rewritten(source, other)
    assert releases.text_of(again) == other
    assert releases.text_of(again, (4, 2)) == OLD


def test_a_story_that_could_not_go_on_ends_there() -> None:
    broken = NEW[: NEW.index("advance")].replace("    A <- join ok", "    ! KeyError: B")
    source = releases.merged({(4, 4): NEW, (4, 0): broken})
    assert releases.text_of(source, (4, 0)) == broken


def test_steps_of_all_releases_are_the_same() -> None:
    with pytest.raises(ValueError, match="another step: A: heartbeat"):
        releases.merged({(4, 4): NEW, (4, 0): NEW.replace("A: enter", "A: heartbeat")})


def test_a_story_is_read_as_of_a_release() -> None:
    source = "since 4.1\n" + releases.merged({(4, 4): NEW, (4, 2): OLD})
    story = Story("x.txt", source, (4, 1))
    assert story.since == (4, 1)
    assert story.text.endswith("leave UNKNOWN_MEMBER_ID\n")
    assert story.source == source


@pytest.mark.parametrize("text", ["4", "newest", "4.x", "4.3.1.1"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no release"):
        releases.release_of(text)


def test_each_story_of_the_catalogue_is_written_as_it_would_be_recorded() -> None:
    for story in catalogue.stories():
        assert releases.rewritten(story.source, story.text) == story.source, story.name
        assert story.since is None or story.since in releases.RELEASES[:-1], story.name
