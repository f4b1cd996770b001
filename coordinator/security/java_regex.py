"""Regular expressions as Java writes them, for the rules of `ssl.principal.mapping.rules`.

They match names of clients from certificates. So RE2 is used: its time is bounded by the length of the name. Python's
`re` matches what RE2 does not support: back references and look-ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

_POSIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Lower": "a-z",
        "Upper": "A-Z",
        "ASCII": r"\x00-\x7F",
        "Alpha": "a-zA-Z",
        "Digit": "0-9",
        "Alnum": "a-zA-Z0-9",
        "Punct": r"!-/:-@\[-`{-~",
        "Graph": "!-~",
        "Print": " -~",
        "Blank": r" \t",
        "Cntrl": r"\x00-\x1F\x7F",
        "XDigit": "0-9a-fA-F",
        "Space": r" \t\n\x0B\f\r",
    }
)
_LINE_ENDS: Final = "\\n\\r\u0085\u2028\u2029"
_SPACE: Final = r" \t\n\x0B\f\r"
_TOKEN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|\\(?P<sign>[pP])(?:\{(?P<property>\w+)\}|(?P<short>\w))"
    r"|\\k<(?P<named>\w+)>"
    r"|\(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\(\?(?P<flags>[a-zA-Z-]*)(?P<scope>[:)])"
    r"|\\(?P<escaped>.)"
    r"|(?P<special>\[\^?\]?|\]|\.|\$|&&)",
    re.DOTALL,
)
_REFUSED: Final = "GXRNbB"
"""Escapes that have another meaning in Java, or that names do not need. Java's \\b is Unicode's there."""


class BadPattern(ValueError):
    """The pattern is not valid in Java, or cannot be matched here. The text says why."""


def compiled(pattern: str) -> Any:
    """A pattern with `fullmatch`, `finditer` and `groups`, of `re2` or `re`. Raises BadPattern."""
    try:
        found = re.compile("".join(_translated(pattern, "\\Z")), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"{pattern!r} is not a regular expression: {error}") from error
    import re2  # imported when a rule exists

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile("".join(_translated(pattern, "\\z")), options)
    except re2.error:
        return found


def _translated(pattern: str, end: str) -> Iterator[str]:
    """The same pattern in the syntax of both RE2 and Python. `end`: the expression for the end of the text, where the
    two differ.
    """
    at, in_class, dot = 0, False, f"[^{_LINE_ENDS}]"
    for token in _TOKEN.finditer(pattern):
        yield pattern[at : token.start()]
        at = token.end()
        kind = token.lastgroup
        if kind == "quoted":
            yield re.escape(token["quoted"])
        elif kind in ("property", "short"):
            yield _property(pattern, token["sign"], token["property"] or token["short"], in_class)
        elif kind == "escaped":
            yield end if token["escaped"] == "z" else _escape(pattern, token["escaped"], in_class)
        elif kind == "special":
            text = token["special"]
            yield _special(pattern, text, in_class, dot, end)
            in_class = text.startswith("[") or (in_class and text != "]")
        elif in_class:
            yield token[0]
        elif kind == "named":
            yield f"(?P={token['named']})"
        elif kind == "group":
            yield f"(?P<{token['group']}>"
        else:
            on = token["flags"].partition("-")[0]
            if set(token["flags"]) - set("is-") or (token["scope"] == ")" and token.start()):
                raise BadPattern(f"{pattern!r} has the flags {token[0]}, which are not known here")
            if "s" in on:
                dot = "(?s:.)"
            yield token[0]
    yield pattern[at:]


def _special(pattern: str, text: str, in_class: bool, dot: str, end: str) -> str:
    if not in_class:
        return dot if text == "." else end if text == "$" else text.replace("[]", "[\\]").replace("[^]", "[^\\]")
    if text.startswith("["):
        raise BadPattern(f"{pattern!r} has a class within a class, which is not known here")
    if text == "&&":
        raise BadPattern(f"{pattern!r} has an intersection of classes (&&), which is not known here")
    return text


def _property(pattern: str, sign: str, name: str, in_class: bool) -> str:
    chars = _POSIX.get(name)
    if chars is None or (sign == "P" and in_class):
        raise BadPattern(f"{pattern!r} has \\{sign}{{{name}}}, which is not known here")
    return chars if in_class else f"[{'^' if sign == 'P' else ''}{chars}]"


def _escape(pattern: str, char: str, in_class: bool) -> str:
    if char in "sS":
        if in_class and char == "S":
            raise BadPattern(f"{pattern!r} has \\S in a class, which is not known here")
        return _SPACE if in_class else f"[{'^' if char == 'S' else ''}{_SPACE}]"
    if char == "h":
        return " \\t\u00a0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000" if in_class else _escape_class(char)
    if char == "e":
        return "\\x1B"
    if char in _REFUSED or (char.isascii() and char.isalpha() and char not in "tnrfadDwWAxu"):
        raise BadPattern(f"{pattern!r} has \\{char}, which is not known here")
    return f"\\{char}"


def _escape_class(char: str) -> str:
    return f"[{_escape('', char, True)}]"
