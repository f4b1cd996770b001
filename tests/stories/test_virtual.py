"""Every story on the core, in virtual time."""

from __future__ import annotations

import pathlib

import pytest

from tests.stories.story import Step, Story
from tests.stories.virtual import VirtualDriver, persisted

FOLDER = pathlib.Path(__file__).parent
STORIES = [
    Story(str(path), path.read_text(encoding="utf-8"))
    for path in sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("retention/*.txt")])
]


def marks(story: Story) -> list[pytest.MarkDecorator]:
    requests = {
        item.line.partition(":")[2].split()[0] for item in story.items if isinstance(item, Step) and ":" in item.line
    }
    if requests == {"find"}:
        return [pytest.mark.skip(reason="asks for a coordinator, which the core knows nothing of: see tests/e2e")]
    if "txn" in story.tags:
        return [pytest.mark.xfail(strict=True, reason="needs transactions")]
    if requests & {"consumer-heartbeat", "consumer-describe"}:
        return [pytest.mark.xfail(strict=True, reason="needs consumer groups (KIP-848)")]
    return []


@pytest.mark.parametrize("story", [pytest.param(one, id=one.name, marks=marks(one)) for one in STORIES])
def test_story_in_virtual_time(story: Story) -> None:
    driver = VirtualDriver(story)
    assert driver.run() == story.text
    assert persisted(driver.replayed(), driver.core) == persisted(driver.core, driver.core)
