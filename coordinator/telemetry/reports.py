"""The newest metrics of each client (KIP-714). They are only in memory, and bounded in number, size and age."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

from muster.coordinator.state_machine.interface import Now

CONFIG: Final = "muster.client.reports"
"""The config of client metrics resources that has reports as JSON (`api.configs.client_reports`)."""
ALL: Final = "*"
"""The resource name that stands for all clients. Their reports come without series."""
MAX_CLIENTS: Final = 1_000
MAX_SERIES: Final = 1_000
"""The most series of one client."""
MAX_NAME: Final = 1_000
"""The most characters of a series' name with its attributes, and of a label."""
MAX_BYTES: Final = 32 << 20
"""The most memory of all reports together, in bytes."""
SERIES_BYTES: Final = 200
"""The memory of one series, in bytes, without the characters of its name."""
CLIENT_BYTES: Final = 3_000
"""The memory of one client, in bytes, without its series and the characters of its facts and labels."""
GROUP: Final = "group_id"
MEMBER: Final = "group_member_id"
LABELS: Final = ("client_rack", GROUP, "group_instance_id", MEMBER, "transactional_id")
"""The labels that clients send with their metrics (KIP-714)."""


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """The broker properties of telemetry; a field's name is the property's with "." as "_"."""

    muster_client_telemetry_enable: bool = True
    """Whether clients may push metrics, which are kept here."""
    telemetry_max_bytes: int = 1_048_576


class MalformedMetrics(ValueError):
    """The metrics of a push cannot be decoded."""


class Point(NamedTuple):
    """One value of a push, or a change of it. `name`: the metric's name, and its attributes in braces."""

    name: str
    value: float
    is_delta: bool


class Pushed(NamedTuple):
    """The decoded metrics of a push. `is_cut`: the push had more series than are kept."""

    labels: dict[str, str]
    points: list[Point]
    is_cut: bool


class Report:
    """The newest metrics of one client.

    `client`: its `ClientFacts`. `series`: values by name. `pushed_ms`: the wall time of the newest push.
    """

    __slots__ = ("bytes", "client", "expires_ms", "has_ended", "is_cut", "labels", "pushed_ms", "pushes", "series")

    def __init__(self) -> None:
        self.client: Any = None
        self.labels: dict[str, str] = {}
        self.series: dict[str, float] = {}
        self.pushes = 0
        self.pushed_ms = 0
        self.expires_ms = 0
        self.has_ended = False
        self.is_cut = False
        self.bytes = 0

    def take(self, pushed: Pushed) -> None:
        """Replace the series by those of a new push. Changes are added to the previous values."""
        before, after = self.series, {}
        for name, value, is_delta in pushed.points:
            total = before.get(name, 0.0) + value if is_delta else value
            if isfinite(total):
                after[name] = total
        self.series, self.labels, self.is_cut = after, pushed.labels, pushed.is_cut
        self.bytes = CLIENT_BYTES + SERIES_BYTES * len(after) + sum(map(len, after)) + _characters(self)


def _characters(report: Report) -> int:
    return sum(map(len, report.client)) + sum(map(len, report.labels.values()))


class ClientReports:
    """The reports of all clients, the least recently pushed first."""

    __slots__ = ("_by_id", "_by_member", "bytes", "pushes")

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Report] = OrderedDict()
        self._by_member: dict[tuple[str, str], str] = {}
        self.bytes = 0
        self.pushes = 0

    def add(self, client: Any, pushed: Pushed, now: Now, lifetime_ms: int, *, has_ended: bool) -> None:
        """Take a push of a client. Older reports are removed when they are too many, or when their lifetime is over."""
        instance_id = client.client_instance_id
        report = self._remove(instance_id) or Report()
        report.client = type(client)(*[text[:MAX_NAME] for text in client])
        report.take(pushed)
        report.pushes += 1
        report.pushed_ms = now.wall_ms
        report.expires_ms = now.mono_ms + lifetime_ms
        report.has_ended = has_ended
        self.pushes += 1
        self.bytes += report.bytes
        self._by_id[instance_id] = report
        member = _member(report)
        if member is not None:
            self._by_member[member] = instance_id
        while len(self._by_id) > MAX_CLIENTS or self.bytes > MAX_BYTES or self._oldest_expired(now.mono_ms):
            self._remove(next(iter(self._by_id)))

    def _oldest_expired(self, now_ms: int) -> bool:
        return next(iter(self._by_id.values())).expires_ms < now_ms

    def _remove(self, instance_id: str) -> Report | None:
        report = self._by_id.pop(instance_id, None)
        if report is not None:
            self.bytes -= report.bytes
            member = _member(report)
            if member is not None and self._by_member.get(member) == instance_id:
                del self._by_member[member]
        return report

    def get(self, instance_id: str, now_ms: int) -> Report | None:
        """The report of a client. None: the client has pushed nothing in its lifetime."""
        report = self._by_id.get(instance_id)
        return None if report is None or report.expires_ms < now_ms else report

    def of_member(self, group_id: str, member_id: str, now_ms: int) -> Report | None:
        """The report of a member of a group."""
        return self.get(self._by_member.get((group_id, member_id), ""), now_ms)

    def all(self, now_ms: int) -> Iterator[Report]:
        """All reports whose lifetime is not over, the newest last."""
        return (one for one in list(self._by_id.values()) if one.expires_ms >= now_ms)


def _member(report: Report) -> tuple[str, str] | None:
    labels = report.labels
    return (labels[GROUP], labels[MEMBER]) if GROUP in labels and MEMBER in labels else None
