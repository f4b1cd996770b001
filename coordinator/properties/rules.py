"""What values are valid: the rules of ConfigDef's validators, built from `table.json`, with Kafka's messages."""

from __future__ import annotations

import math
import re
from typing import Protocol

INTEGER_LIMITS = {"SHORT": 2**15 - 1, "INT": 2**31 - 1, "LONG": 2**63 - 1}
"""Greatest value of each integer type."""

Raw = bool | int | float | str | tuple[str, ...] | None


class Rule(Protocol):
    """A check of a value that already has the right type."""

    def normal(self, value: tuple[str, ...]) -> tuple[str, ...]:
        """The list as it is kept."""

    def check(self, name: str, value: Raw) -> str | None:
        """Kafka's message when the value of property `name` is refused, else None."""


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


def _shown(value: Raw) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    return java_double(value) if isinstance(value, float) else str(value)


def _refusal(name: str, value: Raw, why: str) -> str:
    return f"Invalid value {_shown(value)} for configuration {name}: {why}"


class _Plain:
    __slots__ = ()

    def normal(self, value: tuple[str, ...]) -> tuple[str, ...]:
        return value


class Range(_Plain):
    """ConfigDef.Range: numbers from a least to a greatest one, either may be missing."""

    __slots__ = ("greatest", "least", "text")

    def __init__(self, text: str) -> None:
        least, _, greatest = text.strip("[]").partition(",...")
        self.text = text
        self.least = float(least) if "." in least else int(least)
        self.greatest = None if greatest in ("", ",") else _number(greatest.lstrip(","))

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses a number outside."""
        if not isinstance(value, int | float):
            return None
        if value < self.least:
            return _refusal(name, value, f"Value must be at least {self.least}")
        if self.greatest is not None and value > self.greatest:
            return _refusal(name, value, f"Value must be no more than {self.greatest}")
        return None


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


class GzipLevel(_Plain):
    """GzipCompression's levels: 1 to 9, or -1 for the default of zlib."""

    __slots__ = ()

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses another level."""
        fine = isinstance(value, int) and (value == -1 or 1 <= value <= 9)
        return None if fine else _refusal(name, value, "Value must be between 1 and 9 or equal to -1")


class OneOf(_Plain):
    """ConfigDef.ValidString, or CaseInsensitiveValidString."""

    __slots__ = ("any_case", "values")

    def __init__(self, values: tuple[str, ...], *, any_case: bool) -> None:
        self.values = values
        self.any_case = any_case

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses another word."""
        word = value.upper() if self.any_case and isinstance(value, str) else value
        if word in self.values:
            return None
        note = " (case insensitive)" if self.any_case else ""
        return _refusal(name, value, f"String must be one of{note}: {', '.join(self.values)}")


class ListOf:
    """ConfigDef.ValidList: each value counts once; empty only where allowed; any word when `values` is empty."""

    __slots__ = ("empty_allowed", "values")

    def __init__(self, values: tuple[str, ...], *, empty_allowed: bool) -> None:
        self.values = values
        self.empty_allowed = empty_allowed

    def normal(self, value: tuple[str, ...]) -> tuple[str, ...]:
        """Repeated words are dropped."""
        return tuple(dict.fromkeys(value))

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses an empty list, an empty word, another word."""
        if not isinstance(value, tuple):
            return None
        if not value and not self.empty_allowed:
            valid = f"[{', '.join(self.values)}]" if self.values else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {valid}"
        for word in value:
            if not word:
                return f"Configuration '{name}' values must not be empty."
            if self.values and word not in self.values:
                return _refusal(name, word, f"String must be one of: {', '.join(self.values)}")
        return None


class NonEmpty(_Plain):
    """ConfigDef.NonEmptyString."""

    __slots__ = ()

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses empty text."""
        return _refusal(name, value, "String must be non-empty") if value == "" else None


class ThrottledReplicas(_Plain):
    """ThrottledReplicaListValidator: `*`, or pairs partition:broker."""

    __slots__ = ()
    _PAIR = re.compile(r"[0-9]+:[0-9]+", re.ASCII)

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses anything else."""
        if not isinstance(value, tuple) or value == ("*",) or not any(value):
            return None
        if all(self._PAIR.fullmatch(pair) for pair in value):
            return None
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        why = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
        return _refusal(name, value, why)


class QuorumVoters(_Plain):
    """QuorumConfig's voters: id@host:port."""

    __slots__ = ()
    _VOTER = re.compile(r"[0-9]+@\[?[0-9a-zA-Z._:%-]*\]?:[0-9]+", re.ASCII)

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses anything else."""
        if isinstance(value, tuple) and all(self._VOTER.fullmatch(voter) for voter in value):
            return None
        return f"Invalid configuration value for {name}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`."


class OffsetReset(_Plain):
    """ShareGroupAutoOffsetResetStrategy: earliest, latest, or an age as an ISO 8601 duration."""

    __slots__ = ()
    _AGE = re.compile(
        r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE
    )

    def check(self, name: str, value: Raw) -> str | None:
        """Refuses anything else."""
        if isinstance(value, str) and (value in ("earliest", "latest") or self._AGE.fullmatch(value)):
            return None
        form = "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
        why = f"Invalid value `{value}` for configuration {name}. The value must be either {form}."
        return _refusal(name, value, why)


def rule_of(valid: str) -> Rule:
    """The rule that a text of the table stands for (`lookup` lists the forms)."""
    named: dict[str, type[GzipLevel] | type[NonEmpty] | type[ThrottledReplicas] | type[QuorumVoters]] = {
        "[1,...,9] or -1": GzipLevel,
        "non-empty string": NonEmpty,
        "throttled replicas": ThrottledReplicas,
        "quorum voters": QuorumVoters,
    }
    if valid in named:
        return named[valid]()
    if "by_duration" in valid:
        return OffsetReset()
    if valid.startswith("["):
        return Range(valid)
    body, _, empty = valid.partition(", ")
    if body.startswith("any case of "):
        return OneOf(tuple(body.removeprefix("any case of ").split("|")), any_case=True)
    if body.startswith("one of "):
        return OneOf(tuple(body.removeprefix("one of ").split("|")), any_case=False)
    words = tuple(body.removeprefix("some of ").split("|")) if body.startswith("some of ") else ()
    return ListOf(words, empty_allowed=empty != "not empty")
