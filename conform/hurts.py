"""Which clients are hurt by a wrong answer, and how: `hurts.toml`, which was written from runs of the clients.

Each fault was put into the answers of a broker, and each client was run against it (tests/conform/hurts).
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.player import spans
from muster.conform.player.stage import ERRORS
from muster.conform.probes.codes import without_numbers
from muster.conform.results import Hurt, Outcome

VALUE, TRAILING, CUT, CORRELATION, HEADER_TAGS = "value", "trailing", "cut", "correlation", "header-tags"
VERSIONS = "versions"
"""The answer to an unknown version of ApiVersions."""
UNKNOWN_VERSION = "frame-unknown-version"
"""The probe that asks for such a version."""
UNKNOWN_ERROR = "an error code that Kafka does not have"
KINDS = (VALUE, TRAILING, CUT, CORRELATION, HEADER_TAGS, VERSIONS)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One way in which an answer is wrong."""

    id: str
    kind: str
    api: str
    """Empty: any API."""
    field: str
    """The path of the field without the numbers of rows; empty if the kind is not `value`."""
    value: str
    """The value that was there in the run, in words."""
    hurts: tuple[Hurt, ...]
    unhurt: tuple[str, ...]
    """The clients that were run and did everything as with Kafka."""


def table(text: str) -> tuple[Fault, ...]:
    """The faults of a table."""
    return tuple(_fault(row) for row in tomllib.loads(text)["fault"])


def _fault(row: dict[str, Any]) -> Fault:
    hurts = tuple(Hurt(client, how) for client, how in row.get("hurts", {}).items())
    words = {name: row[name] for name in ("id", "kind", "api", "field", "value")}
    return Fault(**words, hurts=hurts, unhurt=tuple(row["unhurt"]))


FAULTS = table(Path(__file__).with_name("hurts.toml").read_text())


def kind_of(outcome: Outcome) -> str:
    """How the answer of a failure is wrong."""
    api, version = asked(outcome)
    if outcome.id == UNKNOWN_VERSION:
        return VERSIONS
    if outcome.wrong is not None and outcome.wrong.field == "header.correlation":
        return CORRELATION
    if api + "Response" in codec.MESSAGES and outcome.answer:
        fault = spans.read(api, version, outcome.answer).fault
        if fault is not None:
            return {"behind the last field": TRAILING, "header.tags": HEADER_TAGS}.get(fault.path, CUT)
    return VALUE


def asked(outcome: Outcome) -> tuple[str, int]:
    """The API and the version of the request, which outcomes name as `JoinGroup v9`."""
    api, _, version = outcome.request.partition(" v")
    return api, int(version) if version.isdigit() else 0


def _is_about(fault: Fault, field: str, outcome: Outcome) -> bool:
    """Whether the fault is in the wrong field. An error code must be of the kind that was tried: others say other
    things to clients.
    """
    if fault.field != field:
        return False
    if not field.endswith("ErrorCode"):
        return True
    found = spans.read(*asked(outcome), outcome.answer).span(outcome.wrong.field) if outcome.wrong else None
    code = found.value if found else 0
    return fault.value.startswith(ERRORS.get(code, UNKNOWN_ERROR))


def with_hurts(outcome: Outcome) -> Outcome:
    """A failure with the clients that it hurts. Others stay as they are."""
    kind = kind_of(outcome)
    if outcome.wrong is None and kind != VERSIONS:
        return outcome
    api = asked(outcome)[0]
    field = without_numbers(outcome.wrong.field) if outcome.wrong else ""
    found: list[Hurt] = []
    for fault in FAULTS:
        if fault.kind == kind and fault.api in ("", api) and (kind != VALUE or _is_about(fault, field, outcome)):
            when = f"with {fault.value}: " if fault.value else ""
            found += [Hurt(hurt.client, when + hurt.how) for hurt in fault.hurts]
    return dataclasses.replace(outcome, hurts=tuple(dict.fromkeys(found)))
