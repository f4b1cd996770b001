"""Java's .properties format, as java.util.Properties.load reads it: comments, continued lines, escapes."""

from __future__ import annotations

from collections.abc import Iterator

from muster.coordinator.config.error import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, else ISO 8859-1 (which is what Java reads; both agree on ASCII)."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse(text: str, where: str = "properties") -> dict[str, str]:
    """Names and values in the order of the file; of a name given twice the later value counts.

    `where` names the file in the ConfigError that a malformed \\u escape raises, as Java refuses it.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name_end, value_start = _split(line)
        name = _unescape(line[:name_end], where)
        found.pop(name, None)
        found[name] = _unescape(line[value_start:], where)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends in an odd number of backslashes goes on in the next."""
    parts: list[str] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line's end is no line
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


def _split(line: str) -> tuple[int, int]:
    """Where the name ends and where the value starts."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    start = end
    while start < len(line) and line[start] in _BLANKS:
        start += 1
    if start < len(line) and line[start] in "=:":
        start += 1
        while start < len(line) and line[start] in _BLANKS:
            start += 1
    return end, start


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char if char != "\\" else "")
            continue
        escaped = text[at]
        at += 1
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[at : at + 4]
        if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise ConfigError(f"{where}: malformed escape \\u{digits}: four hexadecimal digits must follow \\u")
        out.append(chr(int(digits, 16)))
        at += 4
    # pairs of surrogates are one character, as they are in Java's strings
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
