"""Values of `sasl.jaas.config`: `org.example.Module required name="value" other=value;` (Kafka's JaasConfig).

Files of Java's login configuration are read too: `KafkaServer { … };`. Messages contain no value: a value may be a
password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"(?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/)"
    r"|\"(?P<double>(?:[^\"\\\r\n]|\\.)*)\"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"
    r"|(?P<number>-?\.?[0-9][0-9.]*(?![A-Za-z0-9_$\u00a0-\uffff-]))"
    r"|(?P<word>[A-Za-z_$\u00a0-\uffff-][A-Za-z0-9_$.\u00a0-\uffff-]*)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class BadJaas(ValueError):
    """No login module can be parsed. The text says what is missing, and contains no value."""


class LoginModule(NamedTuple):
    """The class of a login module, and its options."""

    name: str
    options: Mapping[str, str]


Token = tuple[str, str]


def parse(text: str) -> LoginModule:
    """The one login module of a value. Raises BadJaas."""
    tokens = list(_tokens(text))
    if not tokens:
        raise BadJaas("it names no login module")
    module, at = _module(tokens, 0)
    if at < len(tokens):
        raise BadJaas("it has more than one login module")
    return module


def parse_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The login modules of each section of a file: `name { modules };`. Raises BadJaas."""
    tokens = list(_tokens(text))
    found: dict[str, tuple[LoginModule, ...]] = {}
    at = 0
    while at < len(tokens):
        kind, name = tokens[at]
        if kind == "sign" or tokens[at + 1 : at + 2] != [("sign", "{")]:
            raise BadJaas("a section does not begin with its name and {")
        if name in found:
            raise BadJaas(f"the section {name} occurs twice")
        at += 2
        modules: list[LoginModule] = []
        while at < len(tokens) and tokens[at] != ("sign", "}"):
            module, at = _module(tokens, at)
            modules.append(module)
        if tokens[at : at + 2] != [("sign", "}"), ("sign", ";")]:
            raise BadJaas(f"the section {name} does not end in }};")
        found[name] = tuple(modules)
        at += 2
    return found


def _module(tokens: list[Token], at: int) -> tuple[LoginModule, int]:
    """The login module that begins at a token, and the place of the next module."""
    name = tokens[at][1]
    if tokens[at][0] == "sign" or len(tokens) < at + 2 or tokens[at + 1][1].lower() not in FLAGS:
        raise BadJaas(f"behind the login module one of {', '.join(FLAGS)} is expected")
    options: dict[str, str] = {}
    at += 2
    while at < len(tokens) and tokens[at] != ("sign", ";"):
        kind, key = tokens[at]
        if kind == "sign" or tokens[at + 1 : at + 2] != [("sign", "=")]:
            raise BadJaas(f"behind {'an option' if kind == 'sign' else key} a = is expected")
        if len(tokens) <= at + 2 or tokens[at + 2][0] in ("sign", "number"):
            raise BadJaas(f"{key} has no value; put it into quotes")
        options[key] = tokens[at + 2][1]
        at += 3
    if at >= len(tokens):
        raise BadJaas("it does not end in a semicolon")
    return LoginModule(name, options), at + 1


def _tokens(text: str) -> Iterator[Token]:
    """The tokens that Java's StreamTokenizer would find."""
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind in ("double", "single"):
            yield "text", _ESCAPE.sub(_unescaped, found[kind])
        elif kind != "space":
            yield kind, found[kind]


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPES.get(text, text)
