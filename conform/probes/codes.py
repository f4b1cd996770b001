"""Which error codes Kafka answers to each probe: recorded from its releases (`codes.json`, `tools.probe_codes`).

An answer is right if one release answered with the same codes. What settings decide is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from muster.conform.player import spans
from muster.conform.player.stage import ERRORS
from muster.conform.probes.catalogue import Probe
from muster.conform.probes.judge import Verdict
from muster.conform.results import Severity, Span

Codes = dict[str, list[int]]
"""Error codes by the path of their field, without the numbers of rows."""

FILE = Path(__file__).with_name("codes.json")
RECORDED: dict[str, list[Codes]] = json.loads(FILE.read_text())
"""By the probe's id: what Kafka's releases answered."""

BY_SETTINGS = frozenset(
    {
        *("SaslHandshake", "SaslAuthenticate", "DescribeAcls", "CreateAcls", "DeleteAcls"),
        *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
        *("AddRaftVoter", "RemoveRaftVoter", "DescribeQuorum", "UpdateFeatures", "AlterReplicaLogDirs"),
        *("GetTelemetrySubscriptions", "PushTelemetry", "WriteTxnMarkers", "DescribeUserScramCredentials"),
    }
)
"""APIs whose errors depend on the settings and the users of the target."""
BY_TIME = frozenset({"ShareFetch", "ShareAcknowledge"})
"""APIs whose errors depend on how far the target is with the state of a share group."""
NOT_COMPARED = frozenset({5, 6, 14, 15, 16, 19, 29, 30, 31, 35, 38, 41, 44, 51, 53, 58, 65, 89})
"""Errors of a target that is not ready, of a single node, and of users, quotas, policies or switches."""


def of(reading: spans.Reading) -> Codes:
    """The error codes of an answer."""
    found: dict[str, set[int]] = {}
    for span in reading.spans:
        if span.path.endswith("ErrorCode"):
            found.setdefault(without_numbers(span.path), set()).add(span.value)
    return {path: sorted(codes) for path, codes in sorted(found.items())}


def without_numbers(path: str) -> str:
    """`Topics[0].ErrorCode` as `Topics.ErrorCode`."""
    return "".join(_without_numbers(path))


def _without_numbers(path: str) -> Iterator[str]:
    inside = False
    for letter in path:
        inside = letter == "[" or (inside and letter != "]")
        if not inside and letter != "]":
            yield letter


def judged(probe: Probe, reading: spans.Reading) -> Verdict | None:
    """What is wrong with the error codes of an answer. None means that nothing is, or that it cannot be said."""
    right = RECORDED.get(probe.id)
    if right is None or probe.api in BY_SETTINGS | BY_TIME:
        return None
    found = of(reading)
    if found in right or not NOT_COMPARED.isdisjoint(code for codes in found.values() for code in codes):
        return None
    nearest = min(right, key=lambda one: sum(one.get(path) != codes for path, codes in found.items()))
    for span in reading.spans:
        path = without_numbers(span.path)
        if path in found and found[path] != nearest.get(path) and span.value not in nearest.get(path, []):
            wrong = Span(span.start, span.end, span.path)
            return Verdict(f"{path} is {_named(found[path])}, on Kafka {_named(nearest.get(path))}", _BAD, wrong, "")
    path = next(path for path in {**found, **nearest} if found.get(path) != nearest.get(path))
    return Verdict(f"{path} is {_named(found.get(path))}, on Kafka {_named(nearest.get(path))}", _BAD, None, "")


_BAD = Severity.DIFFERS


def _named(codes: list[int] | None) -> str:
    return " and ".join(ERRORS.get(code, str(code)) for code in codes) if codes else "in no row"
