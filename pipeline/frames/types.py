"""Spark's names of Arrow types, and the conversion of Python values between types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

_NAMES: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
}
_TYPES: Final = {name: kind for kind, name in _NAMES.items()} | {"long": pa.int64(), "short": pa.int16()}
_WORDS: Final = re.compile(r"`[^`]*`|[A-Za-z_][A-Za-z_0-9]*|[<>:,]")


def name_of(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type (`simpleString`)."""
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{one.name}:{name_of(one.type)}' for one in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{name_of(kind.key_type)},{name_of(kind.item_type)}>"
    return f"array<{name_of(kind.value_type)}>" if pa.types.is_list(kind) else _NAMES[kind]


@cache
def type_of(text: str) -> pa.DataType:
    """The Arrow type of a name in Spark's SQL."""
    words = iter(_WORDS.findall(text))
    return _read_type(next(words), words)[0]


@cache
def fields_of(text: str) -> pa.DataType:
    """The struct with the columns of a text `name type, name type …`."""
    fields, _ = _read_fields(iter(_WORDS.findall(text)))
    return pa.struct(fields)


def _read_type(word: str, words: Iterator[str]) -> tuple[pa.DataType, str]:
    """The type that begins with `word`, and the word after the type."""
    if word == "array":
        next(words)
        kind, _ = _read_type(next(words), words)
        return pa.list_(kind), next(words, "")
    if word == "map":
        next(words)
        key, _ = _read_type(next(words), words)
        item, _ = _read_type(next(words), words)
        return pa.map_(key, item), next(words, "")
    if word == "struct":
        next(words)
        fields, _ = _read_fields(words)
        return pa.struct(fields), next(words, "")
    return _TYPES[word], next(words, "")


def _read_fields(words: Iterator[str]) -> tuple[list[tuple[str, pa.DataType]], str]:
    fields = []
    after = ","
    while after == ",":
        name = next(words).strip("`")
        word = next(words)
        kind, after = _read_type(next(words) if word == ":" else word, words)
        fields.append((name, kind))
    return fields, after


def casted(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    """The values as Spark's `cast` converts them."""
    make = _caster(kind)
    return values if make is None else [None if one is None else make(one) for one in values]


def _caster(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_string(kind):
        return _as_text
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_struct(kind):
        names = [one.name for one in kind]
        return lambda one: one if list(one) == names else dict(zip(names, one.values(), strict=True))
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        inner = _caster(kind.value_type)
        assert inner is not None
        return lambda some: [None if one is None else inner(one) for one in some]
    return None


def _as_text(one: Any) -> str:
    if isinstance(one, bytes):
        return one.decode(errors="replace")
    return str(one).lower() if isinstance(one, bool) else str(one)


def of_json(value: Any, kind: pa.DataType) -> Any:
    """A value of parsed JSON as a value of a type. It is None if the value has another form, as with `from_json`."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return (
            {one.name: of_json(value.get(one.name), one.type) for one in kind} if isinstance(value, Mapping) else None
        )
    if pa.types.is_map(kind):
        is_map = isinstance(value, Mapping)
        return {key: of_json(one, kind.item_type) for key, one in value.items()} if is_map else None
    if pa.types.is_list(kind):
        return [of_json(one, kind.value_type) for one in value] if isinstance(value, list) else None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_integer(kind):
        return value if is_number and isinstance(value, int) else None
    return float(value) if is_number else None
