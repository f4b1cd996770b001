"""The fenced blocks of a page of Markdown, so that a test pastes them and runs them.

A block may have a comment of HTML on the line before it, which readers do not see. It says what a test must do with the
block: `<!-- pasted: NAME WORD … -->`. The test that asks for the block decides what the words mean.

    [first] = blocks("docs/testing.md", "python", name="first-example") pytester.makepyfile(test_first=first.text)
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
"""The root of the repository."""
_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[^`\s]*)")
_DIRECTIVE: Final = re.compile(r"^ *<!-- *pasted: *(?P<words>.*?) *--> *$")
_COMMAND_GOES_ON: Final = re.compile(r"\s*\\\n\s*")


class Block(NamedTuple):
    """One fenced block."""

    page: str
    """The page's path from the root of the repository."""
    line: int
    """The number of the block's first line of text, for messages."""
    heading: str
    """The heading above it, without `#`; empty before the first one."""
    language: str
    """The word behind the opening fence: python, sh, text; empty without one."""
    words: tuple[str, ...]
    """The words of the comment before the block; empty without a comment."""
    text: str
    """The text that a reader copies, with a line feed at its end."""

    @property
    def name(self) -> str:
        """The first word of the comment; empty without one."""
        return self.words[0] if self.words else ""

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, each in one line: without comments, prompts (`$ `) and empty lines."""
        rows = _COMMAND_GOES_ON.sub(" ", self.text).splitlines()
        return [row.strip().removeprefix("$ ") for row in rows if row.strip() and not row.lstrip().startswith("#")]


def blocks(page: str, language: str | None = None, *, name: str | None = None) -> list[Block]:
    """The blocks of a page in their order; with `language` or `name`, only those. The path of the page begins at the
    root.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        block
        for block in parse(page, text)
        if language in (None, block.language) and (name is None or block.name == name)
    ]


def parse(page: str, text: str) -> Iterator[Block]:
    """The blocks of a Markdown text."""
    heading, words = "", ()
    rows = enumerate(text.splitlines(), 1)
    for number, row in rows:
        opening = _FENCE.match(row)
        if opening is None:
            directive = _DIRECTIVE.match(row)
            if directive is not None:
                words = tuple(directive["words"].split())
            elif row.strip():
                words = ()
                heading = row.lstrip("#").strip() if row.startswith("#") else heading
            continue
        inside: list[str] = []
        for _, one in rows:
            if one.strip().startswith(opening["fence"]) and not one.strip().strip(opening["fence"][0]):
                break
            inside.append(one)
        else:
            raise ValueError(f"{page}:{number}: the block that begins here has no end")
        copied = textwrap.dedent("\n".join(inside)) + "\n"
        yield Block(page, number + 1, heading, opening["language"], words, copied)
        words = ()
