"""Where each field of an answer stands: the decoder of `kafka_codec`, which also notes the bytes of each field.

So a report can mark the field that is wrong. Standard library only.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

from muster.conform.player import kafka_codec as codec


@dataclasses.dataclass(frozen=True)
class Span:
    """One field of an answer: its path (`Topics[0].ErrorCode`), and its first byte and the byte behind its last one.

    Positions count from the correlation id, so the four bytes of the frame's length are left out.
    """

    path: str
    start: int
    end: int
    value: Any = None


@dataclasses.dataclass(frozen=True)
class Reading:
    """What could be read of an answer."""

    body: dict[str, Any] | None
    """None means that the answer is not in the form of its definition."""
    spans: tuple[Span, ...]
    """The fields that were read, in the order of their ends."""
    fault: Span | None = None
    """Where reading ended too early; None means that every byte was read."""
    reason: str | None = None

    def span(self, path: str) -> Span | None:
        """The field of this path. None means that the answer does not have it."""
        return next((one for one in self.spans if one.path == path), None)


class SpanDecoder(codec.Decoder):
    """Notes the span of every field that it reads."""

    def __init__(self, spec: codec.Spec, version: int, raw: bytes, at: int) -> None:
        super().__init__(spec, version, raw, at)
        self.spans: list[Span] = []
        self.path: list[str] = []
        self.counts: list[int] = []
        self.begun = at
        """Where the field that is being read begins."""

    def value(self, field: codec.Spec, kind: str) -> Any:
        """Read one field."""
        self.path.append(field["name"])
        self.counts.append(0)
        start = self.begun = self.at
        value = super().value(field, kind)
        self.spans.append(Span(".".join(self.path), start, self.at, value))
        self.path.pop()
        self.counts.pop()
        return value

    def item(self, field: codec.Spec, kind: str) -> Any:
        """Read one element of an array."""
        is_plain = not (field.get("fields") or kind in self.structs)
        number, own = self.counts[-1], self.path[-1]
        self.counts[-1] += 1
        if is_plain:
            self.path.pop()
            value = self.value({**_plain(field), "name": f"{own}[{number}]"}, kind)
            self.path.append(own)
            return value
        self.path[-1] = f"{own}[{number}]"
        start = self.begun = self.at
        value = super().item(field, kind)
        self.path[-1] = own
        self.spans.append(Span(".".join([*self.path[:-1], f"{own}[{number}]"]), start, self.at, value))
        return value


def _plain(field: codec.Spec) -> codec.Spec:
    """The field without what holds for the whole array."""
    return {key: value for key, value in field.items() if key not in ("nullableVersions", "type")}


def read(api: str, version: int, frame: bytes) -> Reading:
    """Read an answer's frame, which is given without its length bytes."""
    message = api + "Response"
    spec, at = codec.MESSAGES[message], codec.answer_begins_at(api, version)
    if len(frame) < at:
        return Reading(None, (), Span("header", 0, len(frame)), f"an answer of {len(frame)} bytes has no header")
    head = (Span("header.correlation", 0, 4, struct.unpack_from(">i", frame)[0]),)
    if at == 5 and frame[4] != 0:
        return Reading(None, head, Span("header.tags", 4, 5), "the header has tagged fields, which Kafka never sends")
    decoder = SpanDecoder(spec, version, frame, at)
    try:
        body = decoder.struct(spec["fields"])
    except (ValueError, struct.error) as error:
        end = min(max(decoder.at, decoder.begun + 1), len(frame))
        fault = Span(".".join(decoder.path) or "tags", min(decoder.begun, end), end)
        return Reading(None, (*head, *decoder.spans), fault, str(error))
    spans = (*head, *decoder.spans)
    if decoder.at != len(frame):
        left = len(frame) - decoder.at
        fault = Span("behind the last field", decoder.at, len(frame))
        return Reading(None, spans, fault, f"{left} bytes are left over behind the last field of {message} v{version}")
    return Reading(body, spans)
