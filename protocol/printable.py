"""Makes texts from clients (names of groups and members, reasons, metadata) safe for a terminal."""

from __future__ import annotations


def shown(text: str) -> str:
    """Return `text` on one line, with unprintable characters as Python writes them: \\x1b, \\n, \\u202e.

    Unprintable are control characters, line ends, direction marks and halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
