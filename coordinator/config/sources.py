"""The forms in which properties are given: Java's .properties format, variables of the environment, and `--topic`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from muster.coordinator.config.checks import ConfigError

_BLANKS = " \t\f"
_START = re.compile(r"((?:\\.?|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.?)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode_properties(data: bytes) -> str:
    """The text of a file in UTF-8, or else in ISO 8859-1, which Java reads. ASCII is the same in both encodings."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse_properties(text: str, where: str = "properties") -> dict[str, str]:
    """Names and values. The later of two values counts. Raises ConfigError for a malformed \\u escape."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        start = _START.match(line)
        assert start is not None
        name = _unescape(start[1], where)
        found.pop(name, None)
        found[name] = _unescape(line[start.end() :], where)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines. An odd number of backslashes at a line's end joins the next line."""
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


PREFIX = "KAFKA_"

NOT_PROPERTIES = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_HOME",
        "KAFKA_DEBUG",
    }
)
"""Variables that the image and Kafka's scripts read themselves."""
_NOT_PROPERTIES_PREFIXES = ("KAFKA_JMX_", "KAFKA_LOG4J_")


def property_name(variable: str) -> str | None:
    """The property of a variable, or None: `_` is `.`, `__` is `_`, `___` is `-`."""
    if not variable.startswith(PREFIX) or variable in NOT_PROPERTIES or variable.startswith(_NOT_PROPERTIES_PREFIXES):
        return None
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_") or None


def properties_of_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Property name -> (variable, value), in the order of the variables' names."""
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(environment):
        name = property_name(variable)
        if name is not None:
            found[name] = (variable, environment[variable])
    return found


_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
MAX_PARTITIONS = 100_000
"""The most partitions of one topic of `--topic`: a typing error would fill the disk."""


def parse_topics(specs: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return (name, partitions) of each option, in order. Raises ConfigError with the option's text."""
    found: dict[str, int] = {}
    for spec in specs:
        name, colon, count = spec.rpartition(":")
        if not colon or not count.isascii() or not count.isdecimal():
            raise ConfigError(f"--topic '{spec}' is not NAME:PARTITIONS, as in --topic orders:8")
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise ConfigError(
                f"--topic '{spec}': '{name}' is no topic name; expected 1 to 249 of the characters a-z A-Z 0-9 . _ -"
            )
        if len(count) > 9 or not 1 <= int(count) <= MAX_PARTITIONS:
            raise ConfigError(f"--topic '{spec}': expected 1 to {MAX_PARTITIONS} partitions")
        if name in found:
            raise ConfigError(f"--topic '{spec}': the topic {name} is given twice")
        found[name] = int(count)
    return tuple(found.items())
