"""Patterns for names, as clients give them: of transactional ids (ListTransactions) and topics (KIP-848).

The patterns are RE2's, as on Kafka (RE2/J). Python's own `re` may need hours for 30 characters of a hostile client.
Groups do not capture here: RE2 would follow each group, and take a thousand times as long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import re2

MAX_MEMORY: Final = 1 << 19
"""The most bytes that a compiled pattern may take, also while it is matched."""
MAX_CHARACTERS: Final = 5_000
MAX_CLASSES: Final = 50
"""The most classes of Unicode (\\pL) in a pattern. RE2 takes up to 0.1 ms to read a class."""
MAX_COPIES: Final = 50_000
"""The most parts of a pattern. A part inside of repetitions counts as often as it is repeated."""
MAX_OPTIONAL: Final = 2_000
"""The most optional parts of a pattern. RE2 needs some 4 ms for this number, and 300 ms for ten times as many."""
MAX_NESTED: Final = 1_000
"""The largest product of nested counts, as in RE2."""
MAX_STEPS: Final = 10_000_000
"""The most steps (instructions × bytes of a name) of a match: 40 ms. RE2 does not hold Python's lock meanwhile."""
A_MATCH: Final = 1_000
"""The steps that every match takes in addition, however short the name is."""
MAX_KEPT: Final = 16
"""The most compiled patterns that are kept: the members of a group send the same pattern."""


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
"""Message of RE2, up to a colon -> the message of RE2/J for the same fault, where both differ."""

_TOO_LARGE: Final = "the pattern is too large"
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)"
    r"|\\(?:[xpP]\{[^}]{0,20}\}|.)"
    r"|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*(?:\]|\Z))"
    r"|(?P<name>\(\?P?<[^>]*>)"
    r"|(?P<open>\()"
    r"|(?P<close>\))"
    r"|\{(?P<low>\d{1,4}),?(?P<high>\d{0,4})\}"
    r"|(?P<plain>[^\\\[(){]+|\{)",
    re.DOTALL,
)
"""The tokens of a pattern, as far as they decide about its limits."""


class BadPattern(ValueError):
    """The text is no pattern. `description`: the fault, in the words of RE2/J, which Kafka sends to clients."""

    def __init__(self, message: str, description: str) -> None:
        super().__init__(message)
        self.description = description


class Pattern:
    """A pattern that a whole name has to match. Raises BadPattern when the text is no pattern, or is too large."""

    __slots__ = ("_compiled", "size")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_CHARACTERS:
            message = f"a pattern may have {MAX_CHARACTERS} characters"
            raise BadPattern(message, message)
        self._compiled = _compiled(pattern)
        self.size: int = self._compiled.programsize
        """The number of instructions of the compiled pattern."""

    def steps(self, text: str) -> int:
        """The cost of a match of this name at worst, in steps of some 4 ns."""
        return self.size * len(text) + A_MATCH

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of `text`. Raises ValueError when a match might take too long."""
        if self.size * len(text) > MAX_STEPS:
            raise ValueError(f"the pattern is too large for a name of {len(text)} characters")
        return self._compiled.fullmatch(text) is not None


@lru_cache(MAX_KEPT)
def _compiled(pattern: str) -> Any:
    if _has_any_byte(pattern):
        raise BadPattern("\\C would match a part of a character", "invalid escape sequence")
    if pattern.count("\\p") + pattern.count("\\P") > MAX_CLASSES:
        raise BadPattern(f"a pattern may have {MAX_CLASSES} classes of Unicode", _TOO_LARGE)
    if "{" in pattern:
        _check_counts(pattern)
    compiled = _read(pattern)
    if compiled.groups:  # groups with names capture in spite of the option
        compiled = _read(_TOKEN.sub(lambda found: "(?:" if found["name"] else found[0], pattern))
        if compiled.groups:
            raise BadPattern("the pattern has groups with names that are not understood", "invalid named capture")
    return compiled


def _read(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise BadPattern(f"not a regular expression: {error}", _description(error)) from error
    finally:
        re2.purge()  # the library would keep 128 patterns, whatever memory they take


def _check_counts(pattern: str) -> None:
    """Refuse too many repetitions: RE2 copies a part that has a count, and copies the copies. Raises BadPattern."""
    around: list[_Part] = []
    here, last = _Part(), _Part()
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "high":
            low = int(token["low"])
            here.copies -= last.copies
            here.optional -= last.optional
            last.repeat(low, int(token["high"]) if token["high"] else low)
            here.add(last)
        elif kind in ("open", "name"):
            around.append(here)
            here, last = _Part(), _Part()
        elif kind == "close":
            last, here = here, around.pop() if around else _Part()
            last.copies += 1
            here.add(last)
        else:
            last = _Part(1)
            here.copies += len(token[0])
        if here.copies > MAX_COPIES or here.optional > MAX_OPTIONAL:
            raise BadPattern(f"the pattern is too large: its counts repeat more than {MAX_COPIES} parts, or make "
                             f"more than {MAX_OPTIONAL} optional", _TOO_LARGE)  # fmt: skip


class _Part:
    """A group of a pattern, or the pattern outside of all groups.

    `copies`: how many parts result when each count is written out. `optional`: how many parts may be missing. `nested`:
    the largest product of nested counts.
    """

    __slots__ = ("copies", "nested", "optional")

    def __init__(self, copies: int = 0) -> None:
        self.copies = copies
        self.optional = 0
        self.nested = 1

    def add(self, other: _Part) -> None:
        self.copies += other.copies
        self.optional += other.optional
        self.nested = max(self.nested, other.nested)

    def repeat(self, low: int, high: int) -> None:
        """Apply a count that stands behind the part. Raises BadPattern for counts that RE2 and RE2/J refuse."""
        times = max(low, high, 1)
        self.copies *= times
        self.optional = self.optional * times + max(high - low, 0)
        self.nested *= times
        if self.nested > MAX_NESTED:
            raise BadPattern(f"not a regular expression: a repetition of more than {MAX_NESTED} times",
                             DESCRIPTIONS["invalid repetition size"])  # fmt: skip


def _description(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what = text.partition(":")[0]
    return DESCRIPTIONS.get(what, what)


def _has_any_byte(pattern: str) -> bool:
    """Whether the pattern has a \\C, which only the C++ form of RE2 knows."""
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
