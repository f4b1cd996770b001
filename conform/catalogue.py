"""The stories that ship, by level: a folder of `stories/` has the stories of a level."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from muster.conform.player.releases import Release
from muster.conform.player.story import Story

FOLDER: Final = Path(__file__).parent / "stories"
LEVELS: Final = {
    "core": "what every consumer needs: coordinators, joining, heartbeats, commits",
    "classic": "classic groups: rebalances, timeouts, sessions, odd requests",
    "static": "static members (KIP-345)",
    "offsets": "commits and fetches of offsets",
    "txn": "transactions",
    "consumer": "groups of the new consumer protocol, and migration (KIP-848)",
    "share": "share groups and their records (KIP-932)",
    "streams": "streams groups (KIP-1071)",
    "admin": "listing, describing and deleting",
    "data": "producing and fetching records",
}
"""The levels and what each is about."""
RETENTION: Final = "retention"
"""A folder beside the levels. Its stories wait up to 100 s until offsets expire, so no level has them."""


def level_of(story: Story) -> str:
    """The level of a story of the catalogue."""
    return Path(story.path).parent.name


def stories(levels: Iterable[str] = tuple(LEVELS), release: Release | None = None) -> list[Story]:
    """The stories of these levels as of a release, ordered by their names."""
    paths = [path for level in levels for path in (FOLDER / level).glob("*.txt")]
    return [read(path, release) for path in sorted(paths, key=lambda path: path.name)]


def read(path: Path, release: Release | None = None) -> Story:
    """The story in a file as of a release. None: the newest one."""
    return Story(str(path), path.read_text(encoding="utf-8"), release)
