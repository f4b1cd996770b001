"""`ssl.principal.mapping.rules`: the principal name of a client with a certificate, in Kafka's rule language
(SslPrincipalMapper, KIP-371). A rule is DEFAULT, or RULE:pattern/replacement/ with an optional L or U at the end.
The first rule whose pattern matches the whole subject counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from muster.coordinator.security import java_regex
from muster.coordinator.security.distinguished_name import BadCertificate, subject
from muster.coordinator.security.principal import ANONYMOUS, USER, KafkaPrincipal

DEFAULT: Final = "DEFAULT"
_BLANKS: Final = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_RULE_TEXT: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE_TEXT})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE_TEXT, re.ASCII)
_REFERENCE: Final = re.compile(r"\$(\d+)", re.ASCII)
_MOST_REFERENCE: Final = 2**31 - 1


class InvalidRules(ValueError):
    """Kafka would not start with these rules. The text names the invalid one."""


class NoName(ValueError):
    """No rule matches a client, or its name cannot be made. Kafka closes its connection."""


class Rule(NamedTuple):
    """One rule. `pattern` None: the subject is the name. `case` is "L", "U" or ""."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, distinguished_name: str) -> str | None:
        """The name. None means that the rule does not match this subject. Raises NoName."""
        if self.pattern is None:
            return distinguished_name
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        name = _replace_all(self.pattern, distinguished_name, _literal_references(self.replacement, self.pattern))
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class SslPrincipalMapper:
    """Kafka's class of this name. Raises InvalidRules."""

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
        """The principal of a client with this certificate (in DER). It is ANONYMOUS without a certificate. Raises
        NoName.
        """
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
                yield Rule(java_regex.compiled(rule[2]), rule[4], rule[6])
            except java_regex.BadPattern as error:
                raise InvalidRules(str(error)) from error


def _literal_references(replacement: str, pattern: Any) -> str:
    """Escape references to groups that the pattern does not have with a backslash: they are literal text.

    As in Kafka, the places are those in the replacement before the first backslash was added.
    """
    groups = pattern.groups
    if not groups:
        return replacement
    text = replacement
    for found in _REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        index = int(found[1])
        if index > _MOST_REFERENCE:
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
    """The group that is named behind a $, and where its name ends. The name has as many digits as make an existing
    group.
    """
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
