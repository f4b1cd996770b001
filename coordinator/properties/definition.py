"""One property: its name, type, default and valid values. It reads a value as Kafka's ConfigDef does."""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.coordinator.properties.rules import INTEGER_LIMITS, counts_once, java_double, rule_of

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: LIST is a tuple, CLASS and PASSWORD are text. None occurs only where Kafka's default is null."""

WIRE_TYPES = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
"""DescribeConfigsResponse.ConfigType of each type (KIP-569)."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_BLANK = " \t\n\x0b\f\r"  # Java's \s, before and after the comma in Kafka's pattern


class InvalidProperty(ValueError):  # Kafka's ConfigException
    """A value or a name that Kafka would refuse; its text is Kafka's own message.

    `name` is the property's name. `text` is the given value; None when the name is wrong, or the value was null.
    """

    def __init__(self, name: str, text: str | None, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.text = text


class InvalidRequest(ValueError):  # Kafka's InvalidRequestException
    """A configuration that to Kafka is a wrong request, not a wrong value; its text is Kafka's own message."""


class Property(NamedTuple):
    """A property as Kafka defines it; the fields are those of ConfigDef.ConfigKey.

    `default` is text, None for null. `valid` is a range or an enumeration as text, None when all values of the type are
    valid. `update_mode` is that of a broker property, "" for topics and groups.
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
        """Whether its value is never shown."""
        return self.type == "PASSWORD"

    @property
    def read_only(self) -> bool:
        """Whether it is a broker property that cannot change while the broker runs."""
        return self.update_mode == "read-only"

    @property
    def wire_type(self) -> int:
        """DescribeConfigsResponse.ConfigType."""
        return WIRE_TYPES[self.type]

    @property
    def default_value(self) -> Value:
        """The parsed default."""
        return None if self.default is None else _read(self, self.default)

    def parse(self, text: str) -> Value:
        """Parse `text`. Raises InvalidProperty when the type or the range refuses it."""
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
    """Parse a value, as ConfigDef.parseType does."""
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
    """Split a text at its commas and remove the blanks beside them.

    A regular expression would read many blanks again and again: 32,000 blanks took a second.
    """
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
