"""What is wrong with an answer, by Kafka's definitions. Pure: bytes in, a verdict out."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

from muster.conform.player import spans
from muster.conform.player.stage import ERRORS
from muster.conform.results import Severity, Span


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is wrong with an answer."""

    text: str
    severity: Severity
    wrong: Span | None = None
    rule: str = ""
    """The KIP or the class of Kafka that says what is right."""


def judge(api: str, version: int, correlation: int, frame: bytes) -> tuple[dict[str, Any] | None, Verdict | None]:
    """The body of an answer, and what is wrong with it. None as the verdict means that nothing is."""
    reading = spans.read(api, version, frame)
    got = struct.unpack_from(">i", frame)[0] if len(frame) >= 4 else None
    if got != correlation:
        wrong = Span(0, min(4, len(frame)), "header.correlation")
        text = f"the correlation id is {got}, but the request had {correlation}"
        return reading.body, Verdict(text, Severity.CLIENTS_BREAK, wrong, "ResponseHeader.json")
    if reading.body is None:
        fault = reading.fault or spans.Span("", 0, 0)
        wrong = Span(fault.start, fault.end, fault.path)
        rule = f"{api}Response.json"
        return None, Verdict(reading.reason or "", Severity.CLIENTS_BREAK, wrong, rule)
    for span in reading.spans:
        if span.path.endswith("ErrorCode") and span.value not in ERRORS:
            wrong = Span(span.start, span.end, span.path)
            return reading.body, Verdict(f"Kafka has no error {span.value}", Severity.DIFFERS, wrong, "Errors.java")
    return reading.body, None
