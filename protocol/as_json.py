"""Converts messages to JSON as Kafka's tools do.

* Names are in lower camel case.
* Bytes are in base64, uuids in URL-safe base64 without padding.
* The fields of a version are in order, tagged fields only if they are not the default.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from muster.protocol.consumer import NEWEST, decode_assignment, decode_subscription
from muster.protocol.malformed import LayoutField, layout_fields, within
from muster.protocol.message import MalformedMessage, Message

Json = Any

EMBEDDED = {"subscription": decode_subscription, "assignment": decode_assignment}
"""Fields of a classic member in which consumers have the consumer protocol. Other clients may have any bytes there."""


class _Plan(NamedTuple):
    """How one field of a struct is converted in one version."""

    name: str
    shown_as: str
    is_tagged: bool
    is_array: bool
    show: Callable[[Any], Json] | None
    """Converts a value; None: the value stays as it is."""


def as_json(message: Message, version: int) -> dict[str, Json]:
    """Return a message as JSON in this version."""
    return _struct(message, _plan(type(message), version))


_plans: Final[dict[tuple[type[Message], int], tuple[_Plan, ...]]] = {}
_defaults: Final[dict[type[Message], Message]] = {}


def _plan(kind: type[Message], version: int) -> tuple[_Plan, ...]:
    found = _plans.get((kind, version))
    if found is None:
        layout: str = import_module(kind.__module__).LAYOUTS[kind.__name__]
        found = _plans[kind, version] = _plan_of(layout_fields(layout.strip("\n").split("\n")[1:]), version)
    return found


def _plan_of(fields: list[LayoutField], version: int) -> tuple[_Plan, ...]:
    plans: list[_Plan] = []
    for field in fields:
        if within(version, field.versions):
            is_tagged = field.tag is not None and within(version, field.tagged)
            show: Callable[[Any], Json] | None = _SHOW.get(field.kind)
            if field.fields:
                show = partial(_struct, plan=_plan_of(field.fields, version))
            plans.append(_Plan(field.name, camel(field.name), is_tagged, field.array, show))
    return tuple(plans)


def camel(name: str) -> str:
    """Convert a field's name: `metadata_hash` to `metadataHash`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _struct(message: Message, plan: tuple[_Plan, ...]) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for name, shown_as, is_tagged, is_array, show in plan:
        value = getattr(message, name)
        if value is None:
            out[shown_as] = None
        elif is_tagged and value == getattr(_default(type(message)), name):
            continue
        elif show is None:
            out[shown_as] = value
        else:
            out[shown_as] = [show(one) for one in value] if is_array else show(value)
    return out


def _default(kind: type[Message]) -> Message:
    return _defaults.get(kind) or _defaults.setdefault(kind, kind())


def _uuid(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_SHOW: Final[dict[str, Callable[[Any], Json]]] = {"uuid": _uuid, "bytes": _bytes, "records": _bytes}


def group_metadata_as_json(message: Message, version: int) -> dict[str, Json]:
    """Return a GroupMetadataValue as JSON. As in DumpLogSegments, consumers' embedded bytes are decoded if possible."""
    out = as_json(message, version)
    if out["protocolType"] == "consumer":
        for member, row in zip(message.members, out["members"], strict=True):  # type: ignore[attr-defined]  # a GroupMetadataValue
            for name, decode in EMBEDDED.items():
                row[name] = _embedded(decode, getattr(member, name), row[name])
    return out


def _embedded(decode: Any, data: bytes, otherwise: Json) -> Json:
    try:
        claimed, message = decode(data)
    except MalformedMessage:
        return otherwise
    return as_json(message, min(claimed, NEWEST))
