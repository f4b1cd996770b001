"""Makes texts that clients chose (names of groups and members, reasons, metadata) safe for a terminal."""

from __future__ import annotations


def shown(text: str) -> str:
    """`text` on one line, with what is not printable (control characters, ends of lines, marks of direction, halves of
    surrogate pairs) as Python writes it: \\x1b, \\n, \\u202e.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
