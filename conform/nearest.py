"""Which release of Kafka a broker is to be compared with: the one whose brokers offer the most similar versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.conform.player.releases import RELEASES, Release

KNOWN: Final = tuple(reversed(RELEASES))
"""The releases, oldest first."""
HIGHEST: Final[Mapping[int, tuple[int, ...]]] = {
    0: (11, 12, 13, 13, 13, 13),
    1: (17, 17, 18, 18, 18, 18),
    2: (9, 10, 10, 11, 11, 11),
    3: (12, 13, 13, 13, 13, 13),
    8: (9, 9, 9, 10, 10, 10),
    9: (9, 9, 9, 10, 10, 10),
    15: (5, 6, 6, 6, 6, 6),
    18: (4, 4, 4, 4, 4, 5),
    26: (4, 5, 5, 5, 5, 5),
    28: (4, 5, 5, 5, 5, 6),
    35: (4, 4, 4, 4, 5, 5),
    42: (2, 2, 2, 2, 2, 3),
    60: (1, 2, 2, 2, 2, 2),
    66: (1, 1, 2, 2, 2, 2),
    68: (-1, 1, 1, 1, 1, 1),
    69: (-1, 1, 1, 1, 1, 1),
    76: (-1, -1, 1, 1, 1, 1),
    78: (-1, -1, 1, 2, 2, 2),
    88: (-1, -1, -1, 0, 0, 1),
    89: (-1, -1, -1, 0, 0, 1),
}
"""The highest version of an API in each release, by the API's number. -1: it has no such API."""


def nearest(highest: Mapping[int, int]) -> Release:
    """The release whose versions differ least from these. Of equal ones the newest.

    An API that the broker does not offer says little, because many brokers offer few.
    """

    def distance(place: int) -> int:
        return sum(abs(highest[key] - row[place]) for key, row in HIGHEST.items() if key in highest)

    return KNOWN[min(range(len(KNOWN)), key=lambda place: (distance(place), -place))]
