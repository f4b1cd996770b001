"""Checks of the values that a verb was given. A wrong value is refused in one sentence, with the value and what was
expected. The sentence is the same in Python, over HTTP (status 400) and from the commands (exit status 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import Repr
from typing import Any, Final

from muster.testcontrol.errors import WrongValue

MAX_OFFSET: Final = 2**63 - 1
"""The greatest offset, timestamp or delay in Kafka's formats."""
MAX_COUNT: Final = 2**31 - 1
"""The greatest count or partition number in Kafka's formats."""
_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def short(value: object) -> str:
    """A value for a sentence, cut where it is long or deep."""
    return f"the class {value.__name__}" if isinstance(value, type) else _SHORT.repr(value)


def called(given: str) -> str:
    """A name for a sentence, cut where it is long."""
    return given if len(given) <= _SHORT.maxstring else f"{given[: _SHORT.maxstring]}…"


def sentence(what: str, value: object, expected: str) -> str:
    """The sentence that refuses a value."""
    return f"{what} is {short(value)}; {expected} was expected"


def whole(what: str, value: Any, least: int = 0, most: int = MAX_OFFSET) -> int:
    """A whole number within these bounds. Raises WrongValue."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value > most:
        raise WrongValue(sentence(what, value, f"at most {most}"))
    raise WrongValue(sentence(what, value, f"a whole number from {least} on"))


def whole_or_none(what: str, value: Any, least: int = 0, most: int = MAX_OFFSET) -> int | None:
    """A whole number as from `whole`, or None for the default. Raises WrongValue."""
    return None if value is None else whole(what, value, least, most)


def seconds(what: str, value: Any) -> float:
    """A duration of the machine's time. Raises WrongValue."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return float(value)
    raise WrongValue(sentence(what, value, "a number of seconds from 0 on"))


def text(what: str, value: Any) -> str:
    """A text that is not empty. Raises WrongValue."""
    if isinstance(value, str) and value:
        return value
    raise WrongValue(sentence(what, value, "a text"))


def texts(what: str, value: Any) -> tuple[str, ...]:
    """One text or several as a tuple; None gives an empty tuple. Raises WrongValue."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (text(what, value),)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        found = tuple(value)
        if all(isinstance(one, str) and one for one in found):
            return found
    raise WrongValue(sentence(what, value, "a text, or several"))


def function(what: str, value: Any) -> Any:
    """A callable. Raises WrongValue."""
    if callable(value):
        return value
    raise WrongValue(sentence(what, value, "a function"))


def content(what: str, value: Any) -> bytes | None:
    """A key or a value of a record, as bytes. Raises WrongValue."""
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise WrongValue(sentence(what, value, "text, bytes or None"))


def property_text(what: str, value: Any) -> str:
    """A value of a property, in the form of a properties file. Raises WrongValue."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise WrongValue(sentence(what, value, "a text, a number, True or False"))


def properties(what: str, value: Any) -> dict[str, str]:
    """Properties by name; None gives an empty mapping. Raises WrongValue."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WrongValue(sentence(what, value, "a mapping of names to values"))
    return {text(f"a name in {what}", name): property_text(f"{what}: {name}", one) for name, one in value.items()}


def places(what: str, value: Any) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition: {("orders", 0): 5}. Raises WrongValue."""
    wanted = '{("orders", 0): 5}'
    if not isinstance(value, Mapping):
        raise WrongValue(sentence(what, value, f"offsets by topic and partition, as {wanted},"))
    for place in value:
        if not isinstance(place, tuple) or [type(one) for one in place] != [str, int]:
            raise WrongValue(sentence(f"a place in {what}", place, f"a topic and a partition, as in {wanted},"))
    return {
        (topic, whole(f"the partition of {topic} in {what}", index, most=MAX_COUNT)): whole(
            f"{what}: the offset of {topic}-{index}", offset
        )
        for (topic, index), offset in value.items()
    }


def records(topic: Any, partition: Any, offset: Any, last_offset: Any) -> tuple[str | None, int | None, int, int]:
    """Which records are meant: topic, partition, first and last offset. Raises WrongValue."""
    named = None if topic is None else text("topic", topic)
    index = whole_or_none("partition", partition, most=MAX_COUNT)
    if index is not None and named is None:
        raise WrongValue("a partition is given without its topic")
    if offset is None and last_offset is None:
        return named, index, 0, MAX_OFFSET
    if index is None:
        raise WrongValue("an offset is given without its partition")
    first = whole("offset", offset)
    return named, index, first, first if last_offset is None else whole("last_offset", last_offset, first)


def reset(to: Any) -> Any:
    """The place to which offsets are reset. Raises WrongValue."""
    if isinstance(to, Mapping):
        return places("to", to)
    if isinstance(to, str) and to in ("earliest", "latest"):
        return to
    if isinstance(to, int) and not isinstance(to, bool):
        return whole("to", to)
    raise WrongValue(sentence("to", to, "earliest, latest, an offset, or offsets by topic and partition"))
