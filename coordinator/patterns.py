"""Patterns for names, as clients give them: for transactional ids (ListTransactions) and for topics (KIP-848). They are
RE2's, as on Kafka (which uses RE2/J).

Pattern and names both come from clients. So the time of a match must be bounded: Python's own `re` may need hours for
30 characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import re2

MOST_MEMORY: Final = 1 << 20
"""Bytes that a compiled pattern may take; while it is matched it takes no more either."""
MOST_CHARACTERS: Final = 5_000
"""Of a pattern: to read it takes 30 ms at worst."""
MOST_STEPS: Final = 10_000_000
"""Instructions of a pattern × bytes of a name: at worst 20 ms."""


DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing ]": "missing closing ]",
        "missing )": "missing closing )",
        "unexpected )": "regexp/syntax: internal error",
        "bad repetition operator": "invalid nested repetition operator",
        "no argument for repetition operator": "missing argument to repetition operator",
        "invalid perl operator": "invalid or unsupported Perl syntax",
        "trailing \\": "trailing backslash at end of expression",
        "invalid repetition size": "invalid repeat count",
        "invalid named capture group": "invalid named capture",
    }
)
"""What RE2 says, up to a colon, and what RE2/J says to the same, where they differ."""


class BadPattern(ValueError):
    """It is no pattern. `description`: what is wrong, in the words of RE2/J, which Kafka sends to clients."""

    def __init__(self, message: str, description: str) -> None:
        super().__init__(message)
        self.description = description


class Pattern:
    """A pattern that a whole name has to match; raises BadPattern when it is none."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MOST_CHARACTERS:
            message = f"a pattern may have {MOST_CHARACTERS} characters"
            raise BadPattern(message, message)
        if _has_any_byte(pattern):
            raise BadPattern("\\C would match a part of a character", "invalid escape sequence")
        options = re2.Options()
        options.max_mem = MOST_MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise BadPattern(f"not a regular expression: {error}", _description(error)) from error

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of `text`; ValueError when that might take too long."""
        if self._compiled.programsize * len(text) > MOST_STEPS:
            raise ValueError(f"the pattern is too large for a name of {len(text)} characters")
        return self._compiled.fullmatch(text) is not None


def _description(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what = text.partition(":")[0]
    return DESCRIPTIONS.get(what, what)


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
