"""`ssl.principal.mapping.rules`: the principal name of a client with a certificate (SslPrincipalMapper, KIP-371).

A rule is DEFAULT, or RULE:pattern/replacement/ with an optional L or U. The first rule that matches the whole subject
counts. RE2 matches in bounded time. Python's `re` matches only what RE2 lacks: back references and look-ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from muster.coordinator.security.authorizer import ANONYMOUS, USER, KafkaPrincipal
from muster.coordinator.security.distinguished_name import BadCertificate, subject

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
_BLANKS_OF_JAVA: Final = " \\t\u00a0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
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
"""Escapes that have another meaning in Java, or that names do not need. For example, Java's \\b follows Unicode."""


class BadPattern(ValueError):
    """The pattern is not valid in Java, or cannot be matched here. The text says why."""


def compile_java_regex(pattern: str) -> Any:
    """A pattern with `fullmatch`, `finditer` and `groups`, of `re2` or `re`. Raises BadPattern."""
    try:
        found = re.compile("".join(_translated(pattern, "\\Z")), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"{pattern!r} is not a regular expression: {error}") from error
    import re2  # imported here: most servers have no rule

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile("".join(_translated(pattern, "\\z")), options)
    except re2.error:
        return found


def _translated(pattern: str, end: str) -> Iterator[str]:
    """The same pattern in the syntax of both RE2 and Python. `end`: the pattern of the text's end, which differs."""
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
        return _BLANKS_OF_JAVA if in_class else f"[{_BLANKS_OF_JAVA}]"
    if char == "e":
        return "\\x1B"
    if char in _REFUSED or (char.isascii() and char.isalpha() and char not in "tnrfadDwWAxu"):
        raise BadPattern(f"{pattern!r} has \\{char}, which is not known here")
    return f"\\{char}"


DEFAULT: Final = "DEFAULT"
_BLANKS: Final = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_RULE_TEXT: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE_TEXT})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE_TEXT, re.ASCII)
_REFERENCE: Final = re.compile(r"\$(\d+)", re.ASCII)
_MAX_REFERENCE: Final = 2**31 - 1
"""The largest number of a group in a replacement: an int of Java."""


class InvalidRules(ValueError):
    """Kafka would not start with these rules. The text names the invalid rule."""


class NoName(ValueError):
    """No rule matches a client, or its name cannot be made. Kafka closes the client's connection."""


class Rule(NamedTuple):
    """One rule. If `pattern` is None, the subject is the name. `case` is "L", "U" or ""."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, distinguished_name: str) -> str | None:
        """The name of a client. None means that the rule does not match its subject. Raises NoName."""
        if self.pattern is None:
            return distinguished_name
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        name = _replace_all(self.pattern, distinguished_name, _literal_references(self.replacement, self.pattern))
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class SslPrincipalMapper:
    """The rules of a listener, as Kafka's class of this name. Raises InvalidRules."""

    def __init__(self, rules: str = DEFAULT) -> None:
        self._rules = tuple(_parse(rules))

    def name(self, distinguished_name: str) -> str:
        """The name of a client with this subject. Raises NoName."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoName("no rule of ssl.principal.mapping.rules is for this subject")

    def principal(self, certificate: bytes | None) -> KafkaPrincipal:
        """The principal of a client with this certificate (in DER); without one, ANONYMOUS. Raises NoName."""
        if certificate is None:
            return ANONYMOUS
        try:
            return KafkaPrincipal(USER, self.name(subject(certificate)))
        except BadCertificate as error:
            raise NoName(str(error)) from error


def _parse(rules: str) -> Iterator[Rule]:
    for found in _SPLITTER.finditer(rules.strip(_BLANKS)):
        text = found[1]
        rule = _PARSER.match(text)
        if rule is None or rule.end() != len(text):
            raise InvalidRules(f"'{text}' is neither DEFAULT nor RULE:pattern/replacement/ with L or U behind it")
        if rule[1] is not None:
            yield Rule()
        elif rule[2] is not None:
            try:
                yield Rule(compile_java_regex(rule[2]), rule[4], rule[6])
            except BadPattern as error:
                raise InvalidRules(str(error)) from error


def _literal_references(replacement: str, pattern: Any) -> str:
    """Escape references to groups that the pattern does not have. As in Kafka, positions ignore earlier escapes."""
    groups = pattern.groups
    if not groups:
        return replacement
    text = replacement
    for found in _REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        index = int(found[1])
        if index > _MAX_REFERENCE:
            raise NoName("a replacement names a group with too large a number")
        while index > groups and index >= 10:
            index //= 10
        if index > groups:
            at = found.start(1) - 1
            text = text[:at] + "\\" + text[at:]
    return text


def _replace_all(pattern: Any, text: str, replacement: str) -> str:
    """Java's String.replaceAll."""
    out: list[str] = []
    end = 0
    for found in pattern.finditer(text):
        out += text[end : found.start()], "".join(_expanded(found, replacement, pattern))
        end = found.end()
    return "".join(out) + text[end:]


def _expanded(found: Any, replacement: str, pattern: Any) -> Iterator[str]:
    """The replacement with the groups of a match (Java's Matcher.appendReplacement). Raises NoName."""
    at = 0
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            if at == len(replacement):
                raise NoName("a replacement ends in a backslash")
            yield replacement[at]
            at += 1
        elif char == "$":
            group, at = _group(replacement, at, pattern)
            yield found[group] or ""
        else:
            yield char


def _group(replacement: str, at: int, pattern: Any) -> tuple[int | str, int]:
    """The group behind a $, and where its name ends: it has as many digits as make an existing group."""
    if replacement[at : at + 1] == "{":
        end = replacement.find("}", at)
        name = replacement[at + 1 : end]
        if end < 0 or name not in pattern.groupindex:
            raise NoName("a replacement names a group that its pattern does not have")
        return name, end + 1
    first = replacement[at : at + 1]
    if not (first.isascii() and first.isdecimal()) or int(first) > pattern.groups:
        raise NoName("a replacement names a group that its pattern does not have")
    number = int(first)
    at += 1
    while (digit := replacement[at : at + 1]).isascii() and digit.isdecimal():
        if number * 10 + int(digit) > pattern.groups:
            break
        number = number * 10 + int(digit)
        at += 1
    return number, at
