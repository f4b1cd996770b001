"""Kafka's message definitions as objects: messages, structs, fields, version ranges and Python names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFINITIONS = Path(__file__).with_name("definitions.json")

# the struct codes of the types of fixed size, and their sizes in bytes
CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "uuid": "bytes",
}
ZEROS = {"bool": "False", "float64": "0.0", "string": '""', "bytes": 'b""', "records": 'b""', "uuid": "ZERO_UUID"}
FOREVER = 32767


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; empty when first > last."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == FOREVER:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Parse Kafka's form: "3", "2-5", "4+", "none". None means "none"."""
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), FOREVER)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))


@dataclass
class Field:
    """A field. `kind`: Kafka's type without the array brackets."""

    name: str
    kind: str
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Any
    ignorable: bool
    struct: Struct | None

    @property
    def code(self) -> str | None:
        """The struct code of an element of fixed size, or None."""
        return None if self.struct else CODES.get(self.kind)

    def is_tag(self, version: int) -> bool:
        """Whether the field is a tagged field in this version."""
        return self.tag is not None and version in self.tagged and version in self.versions

    @property
    def optional(self) -> bool:
        """Whether the attribute may be None: the field is nullable, or a tagged struct, where None means absent."""
        return bool(self.nullable) or self.absent_is_none or self.zero == "None"

    @property
    def absent_is_none(self) -> bool:
        """Whether None stands for a struct with all defaults, which is not sent (tagged, not nullable structs)."""
        return self.struct is not None and not self.array and self.tag is not None and not self.nullable

    @property
    def fresh_default(self) -> bool:
        """Whether the default must be a new struct for each message, so that it cannot stand in a signature."""
        return self.zero.endswith("()") and not self.array

    @property
    def python_type(self) -> str:
        """The type annotation of the attribute."""
        one = self.struct.name if self.struct else PYTHON_TYPES.get(self.kind, "int")
        whole = f"Sequence[{one}]" if self.array else one
        return f"{whole} | None" if self.optional else whole

    @property
    def zero(self) -> str:
        """The field's default in Kafka, as a Python expression."""
        if self.default == "null":
            return "None"
        if self.array:
            return "()"
        if self.struct:
            return "None" if self.absent_is_none else f"{self.struct.name}()"
        if self.default in (None, ""):
            return ZEROS.get(self.kind, "0")
        if self.kind == "string":
            return json.dumps(self.default)
        if self.kind == "bool":
            return str(str(self.default).lower() == "true")
        return repr(int(str(self.default), 0))

    def given(self, owner: str) -> str:
        """A Python condition that is true if the attribute of `owner` differs from Kafka's default."""
        x = f"{owner}.{self.name}"
        if self.zero == "None" and not self.absent_is_none:
            return f"{x} is not None"
        if self.absent_is_none and self.struct:
            return f"({x} is not None and {x} != {self.struct.name}())"
        if self.array:
            return f"({x} is None or len({x}) > 0)" if self.nullable else f"len({x}) > 0"
        if self.zero in ("True", "False") and not self.nullable:
            return x if self.zero == "False" else f"not {x}"
        return f"{x} != {self.zero}"


@dataclass
class Struct:
    """A named group of fields. `where`: its path from the message, in Kafka's names."""

    name: str
    where: str
    fields: list[Field] = field(default_factory=list)

    def at(self, version: int) -> tuple[list[Field], list[Field]]:
        """The plain fields of this version in order, and the tagged fields by tag."""
        plain = [f for f in self.fields if version in f.versions and not f.is_tag(version)]
        tagged = [f for f in self.fields if f.is_tag(version)]
        return plain, sorted(tagged, key=lambda f: f.tag or 0)


class Message:
    """A message definition: its tree of structs, its valid versions and its flexible versions."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.source: str = raw["source"]
        self.name: str = raw["name"]
        self.kind: str = raw["type"]
        self.key: int | None = raw.get("apiKey")
        self.versions = Versions.parse(raw["validVersions"])
        self.flexible = Versions.parse(raw["flexibleVersions"])
        self._common = {c["name"]: c["fields"] for c in raw.get("commonStructs", ())}
        self.structs: dict[str, Struct] = {}
        self.root = self._struct(self.name, self.name, raw["fields"])

    def _struct(self, name: str, where: str, fields: list[dict[str, Any]]) -> Struct:
        if name in self.structs:
            return self.structs[name]
        struct = self.structs[name] = Struct(name, where)
        struct.fields = [self._field(f, where) for f in fields]
        self.structs[name] = self.structs.pop(name)  # inner structs first: their classes must be defined first
        return struct

    def _field(self, raw: dict[str, Any], where: str) -> Field:
        kind = raw["type"]
        array = kind.startswith("[]")
        kind = kind.removeprefix("[]")
        struct = None
        if kind[0].isupper():
            path = f"{where}.{raw['name']}" + "[]" * array
            struct = self._struct(kind, path, raw.get("fields") or self._common[kind])
        return Field(
            name=snake(raw["name"]),
            kind=kind,
            array=array,
            versions=Versions.parse(raw["versions"]),
            nullable=Versions.parse(raw.get("nullableVersions")),
            tagged=Versions.parse(raw.get("taggedVersions")),
            tag=raw.get("tag"),
            default=raw.get("default"),
            ignorable=raw.get("ignorable", False),
            struct=struct,
        )

    @property
    def has_records(self) -> bool:
        """Whether the message has record batches, which encoders pass on without a copy."""
        return any(f.kind == "records" for s in self.structs.values() for f in s.fields)


def snake(name: str) -> str:
    """Convert a name: `ThrottleTimeMs` to `throttle_time_ms`, `KRaftVersion` to `kraft_version`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def load(path: Path = DEFINITIONS) -> list[Message]:
    """Load all messages of definitions.json, in its order."""
    return [Message(raw) for raw in json.loads(path.read_text())["messages"]]
