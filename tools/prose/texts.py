"""Cuts the texts of a file into sentences: paragraphs and list items of Markdown, docstrings and comments of Python.

Fenced blocks, tables, headings and the targets of links are left out. A span of code counts as one word.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

_FENCED: Final = re.compile(r"(?ms)^ *(`{3,}|~{3,}).*?^ *\1")
_HTML_COMMENT: Final = re.compile(r"(?s)<!--.*?-->")
_CODE_SPAN: Final = re.compile(r"(`+)(?:.|\n)+?\1")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LIST_ITEM: Final = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
_END: Final = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`]*[A-Z0-9`_])|\n\s*\n|\n\s*[*-] ")
_ABBREVIATIONS: Final = re.compile(r"\b(e\.g|i\.e|etc|vs|approx)\.")
_DIRECTIVES: Final = ("noqa", "type:", "fmt:", "pragma:", "mypy:", "ruff:", "!")
CODE_WORD: Final = "CODE"
"""The word that stands for a span of code."""


class Sentence(NamedTuple):
    """A sentence, with the number of the line on which its paragraph begins."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of words; a span of code counts as one."""
        return len([word for word in self.text.split() if any(letter.isalnum() for letter in word)])


def sentences(line: int, paragraph: str) -> Iterator[Sentence]:
    """The sentences of a paragraph that begins on `line`."""
    text = _LINK.sub(r"\1", _CODE_SPAN.sub(CODE_WORD, paragraph))
    text = _ABBREVIATIONS.sub(lambda found: found[1].replace(".", ""), text)
    for part in _END.split(text):
        shown = " ".join(part.split())
        if shown:
            yield Sentence(line, shown)


def of_markdown(text: str) -> Iterator[Sentence]:
    """The sentences of a page."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    text = _HTML_COMMENT.sub(blank, _FENCED.sub(blank, text))
    begun, paragraph = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        is_item = _LIST_ITEM.match(line) is not None
        if not line.strip() or is_item or line.lstrip().startswith(("#", "|", ">")):
            yield from sentences(begun, "\n".join(paragraph))
            paragraph.clear()
        if line.strip() and not line.lstrip().startswith(("#", "|")):
            if not paragraph:
                begun = number
            paragraph.append(_LIST_ITEM.sub("", line))


def of_python(text: str) -> Iterator[Sentence]:
    """The sentences of a module's docstrings, of strings that stand below a name, and of comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from sentences(node.lineno, node.value.value)
    begun, last, paragraph = 0, 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, comment = token.start[0], token.string.lstrip("# ")
        if comment.startswith(_DIRECTIVES):
            yield from sentences(row, comment.partition("  # ")[2])
            continue
        if row != last + 1 and paragraph:
            yield from sentences(begun, "\n".join(paragraph))
            paragraph.clear()
        if not paragraph:
            begun = row
        paragraph.append(comment)
        last = row
    yield from sentences(begun, "\n".join(paragraph))
