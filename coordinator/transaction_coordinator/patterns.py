"""Patterns for transactional ids, as clients give them to ListTransactions: RE2's, as on Kafka (which uses RE2/J).

Pattern and ids both come from clients. So the time of a match must be bounded: Python's own `re` may need hours for 30
characters.
"""

from __future__ import annotations

from typing import Final

import re2

MOST_MEMORY: Final = 1 << 20
"""Bytes that a compiled pattern may take; while it is matched it takes no more either."""
MOST_CHARACTERS: Final = 5_000
"""Of a pattern: to read it takes 30 ms at worst."""
MOST_STEPS: Final = 10_000_000
"""Instructions of a pattern × bytes of an id: at worst 20 ms."""


class Pattern:
    """A pattern that a whole id has to match; raises ValueError when it is none."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MOST_CHARACTERS:
            raise ValueError(f"a pattern may have {MOST_CHARACTERS} characters")
        if _has_any_byte(pattern):
            raise ValueError("\\C would match a part of a character")
        options = re2.Options()
        options.max_mem = MOST_MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise ValueError(f"not a regular expression: {error}") from error

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of `text`; ValueError when that might take too long."""
        if self._compiled.programsize * len(text) > MOST_STEPS:
            raise ValueError(f"the pattern is too large for an id of {len(text)} characters")
        return self._compiled.fullmatch(text) is not None


def _has_any_byte(pattern: str) -> bool:
    """Whether it has a \\C, which only the C++ form of RE2 knows."""
    rest = pattern
    while "\\" in rest:
        _, _, rest = rest.partition("\\")
        if rest.startswith("C"):
            return True
        if rest.startswith("Q"):
            rest = rest.partition("\\E")[2]
        else:
            rest = rest[1:]
    return False
