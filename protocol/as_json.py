"""Messages in Kafka's JSON form, as its tools print them: lower camel case, bytes in base64, uuids in URL-safe base64
without padding, the fields of a version in their order, tagged fields only when they say something. Pure.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from importlib import import_module
from typing import Any

from muster.protocol.consumer import NEWEST, decode_assignment, decode_subscription
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.trace import LayoutField, layout_fields, within

Json = Any

EMBEDDED = {"subscription": decode_subscription, "assignment": decode_assignment}
"""Bytes of a classic group's member that consumers fill with their own protocol; others fill them as they like."""


def as_json(message: Message, version: int) -> dict[str, Json]:
    """A message in this version."""
    return _struct(message, _fields(type(message).__module__, type(message).__name__), version)


@lru_cache(maxsize=256)
def _fields(module: str, name: str) -> tuple[LayoutField, ...]:
    layout: str = import_module(module).LAYOUTS[name]
    return tuple(layout_fields(layout.strip("\n").split("\n")[1:]))


@lru_cache(maxsize=2048)
def camel(name: str) -> str:
    """`metadata_hash` -> `metadataHash`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _struct(message: Message, fields: tuple[LayoutField, ...] | list[LayoutField], version: int) -> dict[str, Json]:
    out: dict[str, Json] = {}
    plain = None
    for field in fields:
        if not within(version, field.versions):
            continue
        value = getattr(message, field.name)
        if field.tag is not None and within(version, field.tagged) and value is not None:
            plain = plain or type(message)()
            if value == getattr(plain, field.name):
                continue
        out[camel(field.name)] = _value(value, field, version)
    return out


def _value(value: Any, field: LayoutField, version: int) -> Json:
    if value is None:
        return None
    if field.array:
        if field.fields:
            return [_struct(one, field.fields, version) for one in value]
        return [_scalar(one, field.kind) for one in value]
    return _struct(value, field.fields, version) if field.fields else _scalar(value, field.kind)


def _scalar(value: Any, kind: str) -> Json:
    if kind == "uuid":
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if kind in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return value


def group_metadata_as_json(message: Message, version: int) -> dict[str, Json]:
    """A GroupMetadataValue; what members of a group of consumers embed is read where it can be, as DumpLogSegments
    does.
    """
    out = as_json(message, version)
    if out["protocolType"] == "consumer":
        for member, row in zip(message.members, out["members"], strict=True):  # type: ignore[attr-defined]  # it is one
            for name, decode in EMBEDDED.items():
                row[name] = _embedded(decode, getattr(member, name), row[name])
    return out


def _embedded(decode: Any, data: bytes, otherwise: Json) -> Json:
    try:
        claimed, message = decode(data)
    except MalformedMessage:
        return otherwise
    return as_json(message, min(claimed, NEWEST))
