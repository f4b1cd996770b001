"""Kafka messages to bytes and back, straight from Kafka's own message definitions (messages.json).

A message is a plain dict with Kafka's field names. Fields a version does not have are left out on encoding and take
their default on decoding. Unknown tagged fields are skipped. The code is slow and strict on purpose: it judges the
product. Standard library only.
"""

from __future__ import annotations

import json
import pathlib
import struct
import uuid
from collections.abc import Mapping
from typing import Any

Spec = dict[str, Any]
MESSAGES: dict[str, Spec] = json.loads((pathlib.Path(__file__).parent / "messages.json").read_text())
_FIXED = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
    "bool": ">?",
}
PLAIN = frozenset((*_FIXED, "string", "bytes", "records", "uuid"))
"""The types that are no structs and no arrays."""


def in_range(versions: str | None, version: int) -> bool:
    """Whether a range of Kafka's definitions, as `0-3` or `2+`, has the version."""
    if versions is None or versions == "none":
        return False
    low, _, high = versions.partition("-")
    if low.endswith("+"):
        return version >= int(low[:-1])
    return int(low) <= version <= int(high or low)


def api_key(api: str) -> int:
    """The number of an API."""
    return int(MESSAGES[api + "Request"]["apiKey"])


def highest(api: str) -> int:
    """The highest version of an API that Kafka's definitions have."""
    return int(MESSAGES[api + "Request"]["validVersions"].rpartition("-")[2])


def is_flexible(message: str, version: int) -> bool:
    """Whether a message has tagged fields in this version."""
    return in_range(MESSAGES[message]["flexibleVersions"], version)


def default_of(field: Spec) -> Any:
    """The value of a field that a message does not have."""
    if "default" in field:
        value = field["default"]
        if value == "null":
            return None
        if field["type"] in ("string",):
            return value
        if field["type"] == "bool":
            return value in (True, "true")
        return int(value, 0) if isinstance(value, str) else value
    kind = field["type"]
    if kind.startswith("[]"):
        return []
    if kind in ("bytes", "records"):
        return b""
    if kind == "string":
        return ""
    if kind == "bool":
        return False
    if kind == "uuid":
        return uuid.UUID(int=0)
    if kind in _FIXED:
        return 0
    return None


# ---- encoding


def _uvarint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _length(n: int, flexible: bool, wide: bool) -> bytes:
    if flexible:
        return _uvarint(n + 1)
    return struct.pack(">i" if wide else ">h", n)


class Encoder:
    """Writes one message. `extra` are unknown tagged fields, by tag, which every struct of the message gets."""

    def __init__(self, spec: Spec, version: int, extra: Mapping[int, bytes] | None = None) -> None:
        self.version, self.structs, self.extra = version, spec.get("commonStructs", {}), dict(extra or {})
        self.flexible = in_range(spec["flexibleVersions"], version)

    def struct(self, fields: list[Spec], values: Mapping[str, Any]) -> bytes:
        """The bytes of a struct."""
        unknown = set(values) - {f["name"] for f in fields}
        if unknown:
            raise ValueError(f"no such fields: {sorted(unknown)}")
        out, tagged = bytearray(), list(self.extra.items())
        for field in fields:
            if not in_range(field["versions"], self.version):
                continue
            value = values.get(field["name"], default_of(field))
            if in_range(field.get("taggedVersions"), self.version):
                if value != default_of(field):
                    tagged.append((field["tag"], self.value(field, field["type"], value)))
                continue
            out += self.value(field, field["type"], value)
        if self.flexible:
            out += _uvarint(len(tagged))
            for tag, raw in sorted(tagged):
                out += _uvarint(tag) + _uvarint(len(raw)) + raw
        return bytes(out)

    def value(self, field: Spec, kind: str, value: Any) -> bytes:
        """The bytes of a field."""
        if value is None and not in_range(field.get("nullableVersions"), self.version):
            raise ValueError(f"{field['name']} may not be null in version {self.version}")
        if kind in _FIXED:
            return struct.pack(_FIXED[kind], value)
        if kind == "uuid":
            return bytes(value.bytes)
        if kind == "string":
            if value is None:
                return _length(-1, self.flexible, False)
            raw = value.encode("utf-8")
            return _length(len(raw), self.flexible, False) + bytes(raw)
        if kind in ("bytes", "records"):
            if value is None:
                return _length(-1, self.flexible, True)
            return _length(len(value), self.flexible, True) + bytes(value)
        if kind.startswith("[]"):
            if value is None:
                return _length(-1, self.flexible, True)
            return _length(len(value), self.flexible, True) + b"".join(self.item(field, kind[2:], v) for v in value)
        if value is None:
            return b"\xff"
        nullable = in_range(field.get("nullableVersions"), self.version)
        return (b"\x01" if nullable else b"") + self.struct(self.fields(field, kind), value)

    def item(self, field: Spec, kind: str, value: Any) -> bytes:
        """The bytes of an array's element."""
        if kind in _FIXED or kind in ("string", "uuid", "bytes"):
            return self.value({"name": field["name"]}, kind, value)
        return self.struct(self.fields(field, kind), value)

    def fields(self, field: Spec, kind: str) -> list[Spec]:
        """The fields of a struct."""
        fields: list[Spec] = field.get("fields") or self.structs[kind]
        return fields


class Decoder:
    """Reads one message from `raw`; it stops at byte `at`."""

    def __init__(self, spec: Spec, version: int, raw: bytes, at: int = 0) -> None:
        self.version, self.structs, self.raw, self.at = version, spec.get("commonStructs", {}), raw, at
        self.flexible = in_range(spec["flexibleVersions"], version)

    def take(self, n: int) -> bytes:
        """The next bytes."""
        if n < 0 or self.at + n > len(self.raw):
            raise ValueError(f"truncated at byte {self.at}: {n} more wanted of {len(self.raw)}")
        self.at += n
        return self.raw[self.at - n : self.at]

    def uvarint(self) -> int:
        """An unsigned varint."""
        shift = value = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 28:
                raise ValueError(f"a varint of more than five bytes ends at byte {self.at}")

    def length(self, wide: bool) -> int:
        """A length; -1 means null."""
        if self.flexible:
            return self.uvarint() - 1
        return int(struct.unpack(">i" if wide else ">h", self.take(4 if wide else 2))[0])

    def struct(self, fields: list[Spec]) -> dict[str, Any]:
        """A struct, with its tagged fields."""
        out: dict[str, Any] = {}
        tags: dict[int, Spec] = {}
        for field in fields:
            out[field["name"]] = default_of(field)
            if not in_range(field["versions"], self.version):
                continue
            if in_range(field.get("taggedVersions"), self.version):
                tags[field["tag"]] = field
                continue
            out[field["name"]] = self.value(field, field["type"])
        if self.flexible:
            last = -1
            for _ in range(self.uvarint()):
                tag, size = self.uvarint(), self.uvarint()
                if tag <= last:
                    raise ValueError(f"tag {tag} stands behind tag {last}")
                last, end = tag, self.at + size
                if tag in tags:
                    out[tags[tag]["name"]] = self.value(tags[tag], tags[tag]["type"])
                    if self.at != end:
                        raise ValueError(f"tag {tag} has {size} bytes, but its value {size - (end - self.at)}")
                else:
                    self.take(size)
        return out

    def value(self, field: Spec, kind: str) -> Any:
        """A field."""
        if kind in _FIXED:
            return struct.unpack(_FIXED[kind], self.take(struct.calcsize(_FIXED[kind])))[0]
        if kind == "uuid":
            return uuid.UUID(bytes=bytes(self.take(16)))
        if kind == "string":
            n = self.length(False)
            return self.null(field) if n < 0 else bytes(self.take(n)).decode("utf-8")
        if kind in ("bytes", "records"):
            n = self.length(True)
            return self.null(field) if n < 0 else bytes(self.take(n))
        if kind.startswith("[]"):
            n = self.length(True)
            return self.null(field) if n < 0 else [self.item(field, kind[2:]) for _ in range(n)]
        if in_range(field.get("nullableVersions"), self.version) and struct.unpack(">b", self.take(1))[0] < 0:
            return None
        return self.struct(field.get("fields") or self.structs[kind])

    def null(self, field: Spec) -> None:
        """Null, if the field may be null."""
        if not in_range(field.get("nullableVersions"), self.version):
            raise ValueError(f"{field['name']} may not be null in version {self.version}")

    def item(self, field: Spec, kind: str) -> Any:
        """An array's element."""
        if kind in _FIXED or kind in ("string", "uuid", "bytes"):
            return self.value({"name": field["name"]}, kind)
        return self.struct(field.get("fields") or self.structs[kind])


def encode(message: str, version: int, values: Mapping[str, Any], extra: Mapping[int, bytes] | None = None) -> bytes:
    """A message as bytes; `extra` are unknown tagged fields for every struct."""
    spec = MESSAGES[message]
    if not in_range(spec["validVersions"], version):
        raise ValueError(f"{message} has no version {version}")
    return Encoder(spec, version, extra).struct(spec["fields"], values)


def decode(message: str, version: int, raw: bytes, at: int = 0) -> dict[str, Any]:
    """The message in these bytes, which may hold nothing else behind it."""
    decoder = Decoder(MESSAGES[message], version, raw, at)
    values = decoder.struct(MESSAGES[message]["fields"])
    if decoder.at != len(raw):
        raise ValueError(f"{message} v{version}: {len(raw) - decoder.at} bytes left over")
    return values


def encode_request(
    api: str,
    version: int,
    correlation: int,
    client_id: str | None,
    body: Mapping[str, Any],
    extra: Mapping[int, bytes] | None = None,
) -> bytes:
    """The frame without its length bytes."""
    head = struct.pack(">hhi", api_key(api), version, correlation)
    name = None if client_id is None else client_id.encode()
    head += struct.pack(">h", -1 if name is None else len(name)) + (name or b"")
    if is_flexible(api + "Request", version):
        head += Encoder({"flexibleVersions": "0+"}, 0, extra).struct([], {})
    return head + encode(api + "Request", version, body, extra)


def answer_begins_at(api: str, version: int) -> int:
    """Where the body begins in an answer's frame without its length bytes."""
    return 5 if is_flexible(api + "Response", version) and api != "ApiVersions" else 4


def decode_response(api: str, version: int, frame: bytes) -> tuple[int, dict[str, Any]]:
    """(correlation id, body) of a frame without its length bytes."""
    at = answer_begins_at(api, version)
    if at == 5 and frame[4] != 0:
        raise ValueError("tagged fields in a response header")
    return struct.unpack_from(">i", frame)[0], decode(api + "Response", version, frame, at)
