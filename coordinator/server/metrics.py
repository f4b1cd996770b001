"""The metrics of a server (docs/metrics.md), in the text format of Prometheus (0.0.4).

Without an HTTP door nothing is counted. No library is used: its import would take longer than this module's.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.coordinator.api.observer import AnsweredRequest
from muster.coordinator.groups.common.events import Event
from muster.coordinator.server.server import Server
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, to_its_end
from muster.coordinator.telemetry.figures import figures
from muster.coordinator.telemetry.reports import GROUP, ClientReports
from muster.protocol.api import UnknownApi, api
from muster.protocol.errors import error_name

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
"""A counter only grows, from 0 at the start of the process. The name of a counter ends in `_total`."""
GAUGE: Final = "gauge"

_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `samples`: the values, by the texts of `labels`; () for a metric without labels."""

    name: str
    kind: str
    about: str
    samples: Mapping[Any, float]
    labels: tuple[str, ...] = ()


def single(name: str, kind: str, about: str, value: float) -> Metric:
    """A metric without labels."""
    return Metric(name, kind, about, {(): value})


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """The metrics as text: the body of the answer."""
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.about.translate(_HELP)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for values, value in sorted(metric.samples.items()):
            pairs = zip(metric.labels, values, strict=True)
            labels = ",".join(f'{label}="{one.translate(_VALUE)}"' for label, one in pairs)
            lines.append(f"{metric.name}{{{labels}}} {value:.15g}" if labels else f"{metric.name} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)


SAMPLE_MS: Final = 100
"""How often the lateness of the event loop is measured."""
SAMPLES: Final = 600
COUNTED_AT_ONCE: Final = 1_000


def _api_name(key: int) -> str:
    try:
        return api(key).name
    except UnknownApi:
        return str(key)


class ServerMetrics:
    """The metrics of one process: the `RequestObserver` of all servers that run in it."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self._requests: Counter[int] = Counter()
        self._request_us: Counter[int] = Counter()
        self._errors: Counter[tuple[int, int]] = Counter()
        self._events: Counter[str] = Counter()
        self._late_ms: deque[int] = deque(maxlen=SAMPLES)
        self._late_in_all_ms = 0
        self._timer: Timer | None = None

    # ---- counting

    def observe(self, request: AnsweredRequest) -> None:
        """Count an answered request."""
        self._requests[request.api_key] += 1
        self._request_us[request.api_key] += request.answered_us - request.began_us
        for code, count in request.error_counts.items():
            if code:
                self._errors[request.api_key, code] += count

    def count_events(self, events: Sequence[Event]) -> None:
        """Count the events of groups."""
        for event in events:
            self._events[event.kind] += 1

    def watch(self, clock: Clock) -> None:
        """Measure how late the event loop is, until `end`."""
        due_ms = clock.mono_ms() + SAMPLE_MS

        def look() -> None:
            late_ms = max(clock.mono_ms() - due_ms, 0)
            self._late_ms.append(late_ms)
            self._late_in_all_ms += late_ms
            self.watch(clock)

        self._timer = clock.call_at(due_ms, look)

    def end(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    # ---- reporting

    async def collect(self) -> list[Metric]:
        """The present metrics. Values that must be counted are counted in steps."""
        found = list(self._counted())
        server = self.server
        if server is not None and server.nodes:
            found.append(single("muster_connections", GAUGE, "Connections of clients.", server.connection_count()))
            counting = asyncio.ensure_future(to_its_end(server.job_queue, _counting(server)))
            done, _ = await asyncio.wait([counting], timeout=1)  # a server that stops does not count any more
            if done and counting.exception() is None:
                found += counting.result()
            counting.cancel()
        return found

    def _counted(self) -> Iterator[Metric]:
        by_api = {(_api_name(key),): count for key, count in self._requests.items()}
        yield Metric("muster_requests_total", COUNTER, "Requests that were answered.", by_api, ("api",))
        seconds = {(_api_name(key),): us / 1e6 for key, us in self._request_us.items()}
        about = (
            "From the beginning of a request's handling to its answer, added up. "
            "The wait behind earlier requests of the connection does not count."
        )
        yield Metric("muster_request_seconds_total", COUNTER, about, seconds, ("api",))
        errors = {(_api_name(key), error_name(code)): count for (key, code), count in self._errors.items()}
        about = "Error codes in answers."
        yield Metric("muster_request_errors_total", COUNTER, about, errors, ("api", "error"))
        about = "What happened in groups: rebalances, members that joined and left (docs/events.md)."
        events = {(kind,): count for kind, count in self._events.items()}
        yield Metric("muster_group_events_total", COUNTER, about, events, ("kind",))
        about = "How late the event loop was, measured ten times a second; added up."
        yield single("muster_event_loop_late_seconds_total", COUNTER, about, self._late_in_all_ms / 1000)
        about = "The most that the event loop was late in the last minute."
        yield single("muster_event_loop_latest_seconds", GAUGE, about, max(self._late_ms, default=0) / 1000)


def _counting(server: Server) -> Job[list[Metric]]:
    groups: Counter[tuple[str, str]] = Counter()
    seen = 0
    for node in server.nodes:
        for shard in node.routing.shards:
            for group_type, state in shard.group_states():
                groups[group_type, state] += 1
                seen += 1
                if not seen % COUNTED_AT_ONCE:
                    yield None
            yield None
    led = 0
    for topic in server.topics.open.walk():
        led += sum(partition is not None for partition in topic.partitions)
        yield None
    found = [] if server.client_reports is None else (yield from client_metrics(server.client_reports, server.clock))
    return [
        *found,
        Metric("muster_groups", GAUGE, "Groups that this process coordinates.", groups, ("type", "state")),
        single("muster_topics", GAUGE, "Topics of the cluster.", len(server.topics.by_name)),
        single("muster_partitions_led", GAUGE, "Partitions whose log this process has open, and leads.", led),
    ]


MAX_GROUPS: Final = 100
"""The most groups with figures of their members."""
_OF_MEMBERS: Final[tuple[tuple[str, str, float, Callable[[list[float]], float], str], ...]] = (
    ("muster_member_last_poll_seconds", "last_poll_s", 1, max, "The longest time since a member's last poll."),
    ("muster_member_poll_interval_seconds", "poll_interval_max_ms", 1e-3, max, "The longest time between two polls."),
    ("muster_member_heartbeats_per_second", "heartbeats_per_s", 1, min, "The lowest heartbeat rate of a member."),
    ("muster_member_rebalance_seconds", "rebalance_latency_max_ms", 1e-3, max, "The longest rebalance of a member."),
    ("muster_member_failed_rebalances", "failed_rebalances", 1, sum, "Failed rebalances of all members."),
)
"""Name, figure (`telemetry.figures`), factor to the unit, the value of a group from those of its members, and text."""


def client_metrics(reports: ClientReports, clock: Clock) -> Job[list[Metric]]:
    """The metrics that are made of what clients have pushed (KIP-714), as the members of each group report them."""
    now_ms = clock.mono_ms()
    values: dict[str, dict[str, list[float]]] = {}
    clients = 0
    for report in reports.all(now_ms):
        clients += 1
        group_id = report.labels.get(GROUP)
        if group_id and not report.has_ended and (group_id in values or len(values) < MAX_GROUPS):
            of_group = values.setdefault(group_id, {})
            for name, value in figures(report).items():
                of_group.setdefault(name, []).append(value)
        yield None
    found = [
        single("muster_client_reports", GAUGE, "Clients whose pushed metrics are kept.", clients),
        single("muster_client_report_bytes", GAUGE, "The memory of the kept metrics.", reports.bytes),
    ]
    for name, figure, factor, of_group_value, about in _OF_MEMBERS:
        rows = {(group_id,): of_group_value(of[figure]) * factor for group_id, of in values.items() if figure in of}
        found.append(Metric(name, GAUGE, about, rows, ("group",)))
    return found
