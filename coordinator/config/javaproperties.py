"""Java's .properties format, as java.util.Properties.load reads it: comments, continued lines, escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.coordinator.config.error import ConfigError

_BLANKS = " \t\f"
_START = re.compile(r"((?:\\.?|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
"""A name, and the separator before the value."""
_ESCAPE = re.compile(r"\\(u.{0,4}|.?)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, else ISO 8859-1. Java reads ISO 8859-1; the two agree on ASCII."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse(text: str, where: str = "properties") -> dict[str, str]:
    """Names and values in the order of the file. If a name occurs twice, the later value counts.

    `where` names the file in the ConfigError for a malformed \\u escape, which Java refuses too.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        start = _START.match(line)
        assert start is not None
        name = _unescape(start[1], where)
        found.pop(name, None)
        found[name] = _unescape(line[start.end() :], where)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines. A line with an odd number of backslashes at its end continues in the next
    one.
    """
    parts: list[str] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()  # the empty text behind the last line break is not a line
    for natural in lines:
        line = natural.lstrip(_BLANKS)
        if not any(parts) and (not line or line[0] in "#!"):
            parts = []
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        parts.append(line)
        yield "".join(parts)
        parts = []
    if parts:
        yield "".join(parts)


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        escaped, digits = found[1], found[1][1:]
        if not escaped.startswith("u"):
            return _ESCAPES.get(escaped, escaped)
        if not re.fullmatch("[0-9a-fA-F]{4}", digits):
            raise ConfigError(f"{where}: malformed escape \\u{digits}: four hexadecimal digits must follow \\u")
        return chr(int(digits, 16))

    # surrogate pairs become one character, as in Java's strings
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
