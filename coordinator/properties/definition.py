"""One property: its name, type, default and valid values. A property parses a text as Kafka's ConfigDef does, and
refuses it with the messages of ConfigDef's validators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

INTEGER_LIMITS = {"SHORT": 2**15 - 1, "INT": 2**31 - 1, "LONG": 2**63 - 1}
"""The greatest value of each integer type."""

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: LIST is a tuple, CLASS and PASSWORD are text. None occurs only where Kafka's default is null."""
Rule = Callable[[str, Value], str | None]
"""Checks a value of the right type: property name and value -> Kafka's message, or None for a valid value."""

_REPLICAS = re.compile(r"[0-9]+:[0-9]+", re.ASCII)
_VOTER = re.compile(r"[0-9]+@\[?[0-9a-zA-Z._:%-]*\]?:[0-9]+", re.ASCII)
_AGE = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE)


def java_double(value: float) -> str:
    """A number as Java's Double.toString writes it: 0.5, 1.0E7, NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:  # repr writes exponents later than Java does
        digits, _, exponent = f"{value:.17e}".partition("e")
        for precision in range(17):
            short = f"{value:.{precision}e}"
            if float(short) == value:
                digits, _, exponent = short.partition("e")
                break
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    return java_double(value) if isinstance(value, float) else str(value)


def _refusal(name: str, value: Value, why: str) -> str:
    return f"Invalid value {_shown(value)} for configuration {name}: {why}"


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _range(text: str) -> Rule:
    """ConfigDef.Range: numbers from a least value to a greatest value, which may be missing."""
    low, _, high = text.strip("[]").partition(",...")
    least = _number(low)
    greatest = None if high in ("", ",") else _number(high.lstrip(","))

    def check(name: str, value: Value) -> str | None:
        if not isinstance(value, int | float):
            return None
        if value < least:
            return _refusal(name, value, f"Value must be at least {least}")
        if greatest is not None and value > greatest:
            return _refusal(name, value, f"Value must be no more than {greatest}")
        return None

    return check


def _gzip_level(name: str, value: Value) -> str | None:
    """GzipCompression's levels: 1 to 9, or -1 for the default of zlib."""
    fine = isinstance(value, int) and (value == -1 or 1 <= value <= 9)
    return None if fine else _refusal(name, value, "Value must be between 1 and 9 or equal to -1")


def _one_of(values: list[str], any_case: bool, name: str, value: Value) -> str | None:
    """ConfigDef.ValidString, or CaseInsensitiveValidString."""
    word = value.upper() if any_case and isinstance(value, str) else value
    if word in values:
        return None
    note = " (case insensitive)" if any_case else ""
    return _refusal(name, value, f"String must be one of{note}: {', '.join(values)}")


def _list_of(values: list[str], empty_allowed: bool, name: str, value: Value) -> str | None:
    """ConfigDef.ValidList: any words when `values` is empty."""
    if not isinstance(value, tuple):
        return None
    if not value and not empty_allowed:
        valid = f"[{', '.join(values)}]" if values else "any non-empty value"
        return f"Configuration '{name}' must not be empty. Valid values include: {valid}"
    for word in value:
        if not word:
            return f"Configuration '{name}' values must not be empty."
        if values and word not in values:
            return _refusal(name, word, f"String must be one of: {', '.join(values)}")
    return None


def _non_empty(name: str, value: Value) -> str | None:
    return _refusal(name, value, "String must be non-empty") if value == "" else None


def _throttled_replicas(name: str, value: Value) -> str | None:
    """ThrottledReplicaListValidator: `*`, or pairs partition:broker."""
    if not isinstance(value, tuple) or value == ("*",) or not any(value) or all(map(_REPLICAS.fullmatch, value)):
        return None
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    why = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
    return _refusal(name, value, why)


def _quorum_voters(name: str, value: Value) -> str | None:
    """QuorumConfig's voters: id@host:port."""
    if isinstance(value, tuple) and all(map(_VOTER.fullmatch, value)):
        return None
    return f"Invalid configuration value for {name}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`."


def _offset_reset(name: str, value: Value) -> str | None:
    """ShareGroupAutoOffsetResetStrategy: earliest, latest, or an age as an ISO 8601 duration."""
    if isinstance(value, str) and (value in ("earliest", "latest") or _AGE.fullmatch(value)):
        return None
    form = "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
    return _refusal(name, value, f"Invalid value `{value}` for configuration {name}. The value must be either {form}.")


_NAMED: dict[str, Rule] = {
    "[1,...,9] or -1": _gzip_level,
    "[latest, earliest, by_duration:PnDTnHnMn.nS]": _offset_reset,
    "non-empty string": _non_empty,
    "throttled replicas": _throttled_replicas,
    "quorum voters": _quorum_voters,
}


def counts_once(valid: str) -> bool:
    """Whether a rule's text is that of a list that keeps each word once."""
    return valid.startswith(("some of ", "no twice"))


@cache
def rule_of(valid: str) -> Rule:
    """Return the rule of a text in the table (`lookup` lists the forms)."""
    if valid in _NAMED:
        return _NAMED[valid]
    if valid.startswith("["):
        return _range(valid)
    body, _, empty = valid.partition(", ")
    for start, any_case in (("any case of ", True), ("one of ", False)):
        if body.startswith(start):
            return partial(_one_of, body.removeprefix(start).split("|"), any_case)
    words = body.removeprefix("some of ").split("|") if body.startswith("some of ") else []
    return partial(_list_of, words, empty != "not empty")


_TYPES = ("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
WIRE_TYPES = {name: number for number, name in enumerate(_TYPES, 1)}
"""DescribeConfigsResponse.ConfigType of each type (KIP-569)."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_BLANK = " \t\n\x0b\f\r"  # Java's \s, before and after the comma in Kafka's pattern


class InvalidProperty(ValueError):  # Kafka's ConfigException
    """A value or name that Kafka would refuse, with Kafka's message. `text` None: a wrong name, or a missing value."""

    def __init__(self, name: str, text: str | None, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.text = text


class InvalidRequest(ValueError):  # Kafka's InvalidRequestException
    """A configuration that Kafka refuses as a wrong request, not as a wrong value. The text is Kafka's message."""


class Property(NamedTuple):
    """A property as Kafka defines it (ConfigDef.ConfigKey).

    `default` is text, None for null. `valid` is a range or an enumeration as text, None for any value of the type.
    `update_mode` is that of a broker property, "" for topics and groups.
    """

    name: str
    type: str
    default: str | None
    valid: str | None
    importance: str
    update_mode: str
    internal: bool

    @property
    def sensitive(self) -> bool:
        """Whether the value of the property is never shown."""
        return self.type == "PASSWORD"

    @property
    def read_only(self) -> bool:
        """Whether this is a broker property that cannot change while the broker runs."""
        return self.update_mode == "read-only"

    @property
    def wire_type(self) -> int:
        """DescribeConfigsResponse.ConfigType."""
        return WIRE_TYPES[self.type]

    @property
    def default_value(self) -> Value:
        """The default as a parsed value."""
        return None if self.default is None else _read(self, self.default)

    def parse(self, text: str) -> Value:
        """Parse `text`. Raises InvalidProperty when the type or the valid values refuse the text."""
        value = _read(self, text)
        if self.valid is None:
            return value
        if isinstance(value, tuple) and counts_once(self.valid):
            value = tuple(dict.fromkeys(value))
        message = rule_of(self.valid)(self.name, value)
        if message is not None:
            raise InvalidProperty(self.name, text, message)
        return value


def _read(prop: Property, text: str) -> Value:
    kind, trimmed = prop.type, text.strip(_BLANKS)
    if kind in INTEGER_LIMITS:
        limit = INTEGER_LIMITS[kind]
        if _INTEGER.fullmatch(trimmed) and len(trimmed) <= 40 and -limit - 1 <= int(trimmed) <= limit:
            return int(trimmed)
        raise _invalid(prop, text, f"Not a number of type {kind}")
    if kind == "BOOLEAN":
        word = trimmed.lower()
        if word in ("true", "false"):
            return word == "true"
        raise _invalid(prop, text, "Expected value to be either true or false")
    if kind == "DOUBLE":
        if _DOUBLE.fullmatch(trimmed):
            return float(trimmed.rstrip("fFdD") if trimmed[-1:] in "fFdD" else trimmed)
        raise _invalid(prop, text, "Not a number of type DOUBLE")
    if kind == "LIST":
        return _parts(trimmed) if trimmed else ()
    return trimmed


def _parts(text: str) -> tuple[str, ...]:
    """Split a text at its commas. A regular expression that skips blanks took a second for 32,000 blanks."""
    first, *others = text.split(",")
    if not others:
        return (first,)
    *between, last = others
    return first.rstrip(_BLANK), *[one.strip(_BLANK) for one in between], last.lstrip(_BLANK)


def _invalid(prop: Property, text: str, why: str) -> InvalidProperty:
    return InvalidProperty(prop.name, text, f"Invalid value {text} for configuration {prop.name}: {why}")


def text_of(value: Value) -> str | None:
    """Return a value as text, as ConfigDef.convertToString does."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return java_double(value) if isinstance(value, float) else str(value)
