"""Helps tools that write pages of docs/."""

from __future__ import annotations

import textwrap

COLUMNS = 120


def wrapped(line: str) -> str:
    """A line of a page, in as many lines as it needs. Rows of tables stay as they are."""
    if line.startswith("|") or len(line) <= COLUMNS:
        return line
    indent = "  " if line.startswith("* ") else ""
    return textwrap.fill(line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each as one line, with empty lines between them."""
    found = [" ".join(part.split()) for part in text.split("\n\n")]
    return [line for part in found for line in (part, "")][:-1]
