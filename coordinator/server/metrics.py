"""The metrics of a server (docs/metrics.md). Without an HTTP door nothing is counted."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from muster.coordinator.api.observer import AnsweredRequest
from muster.coordinator.api.registry import Repeats
from muster.coordinator.groups.common import events as kinds
from muster.coordinator.groups.common.events import Event
from muster.coordinator.server.coordinator_metrics import PREFIX, CoordinatorMetrics
from muster.coordinator.server.exposition import COUNTER, GAUGE, HISTOGRAM, Histogram, Lines, Metric, single
from muster.coordinator.server.group_figures import GroupFigures, MetricsSettings
from muster.coordinator.server.group_snapshots import GroupNow
from muster.coordinator.server.process_figures import process_metrics
from muster.coordinator.server.server import Server
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, to_its_end
from muster.coordinator.telemetry.figures import figures
from muster.coordinator.telemetry.reports import GROUP, ClientReports
from muster.protocol.api import ApiKey, UnknownApi, api
from muster.protocol.errors import ErrorCode, error_name

SAMPLE_MS: Final = 100
"""How often the lateness of the event loop is measured."""
SAMPLES: Final = 600
_OF_OFFSETS: Final = {kinds.OFFSETS_EXPIRED: "offset_expiration", kinds.OFFSETS_DELETED: "offset_deletion"}
COUNTED_AT_ONCE: Final = 1_000
QUEUE: Final = "queue"
HANDLER: Final = "handler"
DURABLE: Final = "durable"
"""The phase after the handler: the request waits until its records are durable."""
ANSWER: Final = "answer"
"""The phase after the handler of other requests: they wait for members, records, other nodes, or a time too."""
WRITES: Final = frozenset(
    (
        ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    )
)  # fmt: skip
"""The requests that wait for nothing else."""
OF_GROUPS: Final = frozenset(
    (
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    )
)  # fmt: skip
"""The requests that Kafka's group coordinator handles."""


def _api_name(key: int) -> str:
    try:
        return api(key).name
    except UnknownApi:
        return str(key)


class _Requests:
    """The answered requests of one API."""

    __slots__ = ("after", "handler", "is_of_groups", "queue")

    def __init__(self, key: int) -> None:
        self.is_of_groups = key in OF_GROUPS
        self.queue = Histogram()
        """Only requests that waited for their handler."""
        self.handler = Histogram()
        self.after = Histogram()
        """Only requests that were not answered by their handler."""

    @property
    def sum_us(self) -> int:
        return self.queue.sum_us + self.handler.sum_us + self.after.sum_us


class ServerMetrics:
    """The metrics of one process: the `RequestObserver` of all servers that run in it."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self._requests: dict[int, _Requests] = {}
        self.times_each = False
        self.repeats: dict[int, Repeats] = {}
        """See `RequestObserver`. The next timed one stands for those before it."""
        self._errors: Counter[tuple[int, int]] = Counter()
        self._events: Counter[str] = Counter()
        self._subscribers: list[Callable[[Sequence[Event], Now], object]] = []
        self.coordinator = CoordinatorMetrics()
        self.groups = GroupFigures(self.coordinator.shards.commits)
        self._syncs = Histogram()
        self._late_ms: deque[int] = deque(maxlen=SAMPLES)
        self._late_in_all_ms = 0
        self._timer: Timer | None = None

    def serves(self, server: Server | None) -> None:
        """Count for this server from now on. The server has started, or is not there yet."""
        self.server = server
        if server is not None and server.nodes:
            self.groups.most = server.config.settings(MetricsSettings).muster_metrics_groups
            server.logs.time_syncs(server.clock.machine, self._syncs.add)
            server.job_queue.worker = self.coordinator.in_thread.watch(server.job_queue.worker, server.clock.machine)

    # ---- counting

    def observe(self, request: AnsweredRequest) -> None:
        """Count an answered request."""
        key, _, errors, began_us, handled_us, answered_us, count, queued_us = request
        of = self._requests.get(key)
        if of is None:
            of = self._requests[key] = _Requests(key)
        handler, took_us = of.handler, handled_us - began_us - queued_us
        handler.by_bits[took_us.bit_length()] += count
        handler.sum_us += took_us * count
        if of.is_of_groups:
            self.coordinator.handled.add(handled_us, took_us)
            self.coordinator.queued.add(handled_us, queued_us)
        if queued_us:
            of.queue.by_bits[queued_us.bit_length()] += count
            of.queue.sum_us += queued_us * count
        if answered_us != handled_us:
            took_us = answered_us - handled_us
            of.after.by_bits[took_us.bit_length()] += count
            of.after.sum_us += took_us * count
        for code, rows in errors.items():
            if code:
                self._errors[key, code] += rows

    def subscribe(self, take: Callable[[Sequence[Event], Now], object]) -> None:
        """Call `take` with all further events of groups, after they are counted."""
        self._subscribers.append(take)

    def count_events(self, events: Sequence[Event], now: Now) -> None:
        """Count the events of groups, and give them to the subscribers."""
        for event in events:
            self._events[event.kind] += 1
            if event.kind in _OF_OFFSETS:
                self.coordinator.counts[_OF_OFFSETS[event.kind]] += sum(map(len, _topics_of(event).values()))
            elif event.kind == kinds.REBALANCE_COMPLETED:
                self.coordinator.counts["group_completed_rebalance"] += 1
            elif event.kind == kinds.EPOCH_BUMPED:
                self.coordinator.counts[f"{self._kind_of(event.group_id)}_group_rebalance"] += 1
        self.groups.count(events, now)
        for take in self._subscribers:
            take(events, now)

    def _kind_of(self, group_id: str) -> str:
        now = None if self.server is None else GroupNow.of(self.server, group_id)
        return "consumer" if now is None or now.kind == "classic" else now.kind

    def watch(self, clock: Clock) -> None:
        """Measure how late the event loop is, and let repeated requests be timed, until `end`."""
        due_ms = clock.mono_ms() + SAMPLE_MS

        def look() -> None:
            late_ms = max(clock.mono_ms() - due_ms, 0)
            self._late_ms.append(late_ms)
            self._late_in_all_ms += late_ms
            self.coordinator.note(due_ms)
            self.coordinator.shards.is_due = True
            if self.server is not None:
                for point in self.server.intercept_points.values():
                    point.time_some()
            self.watch(clock)

        self._timer = clock.call_at(due_ms, look)

    def end(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    # ---- reporting

    async def collect(self, kafka: Callable[[Server], Job[list[Metric | Lines]]]) -> list[Metric | Lines]:
        """The present metrics. Values that must be counted are counted in steps, also those that `kafka` makes."""
        found: list[Metric | Lines] = [*self._counted(), *process_metrics()]
        server = self.server
        if server is not None and server.nodes:
            found.append(single("muster_connections", GAUGE, "Connections of clients.", server.connection_count()))
            found += self.groups.metrics(server.clock.now())
            found += self.coordinator.metrics(server.clock.machine.mono_ms(), server.job_queue.waiting)
            counting = asyncio.ensure_future(to_its_end(server.job_queue, _counting(server, kafka)))
            done, _ = await asyncio.wait([counting], timeout=10)  # a server that stops does not count any more
            if done and counting.exception() is None:
                found += counting.result()
            counting.cancel()
        return found

    def _counted(self) -> Iterator[Metric]:
        by_api = {(_api_name(key),): of for key, of in sorted(self._requests.items())}
        requests = {(_api_name(key),): of.handler.count for key, of in self._requests.items()}
        for key, repeats in self.repeats.items():
            if repeats.count:
                name = (_api_name(key),)
                requests[name] = requests.get(name, 0) + repeats.count - repeats.timed
        yield Metric("muster_requests_total", COUNTER, "Requests that were answered.", requests, ("api",))
        seconds = {name: of.sum_us / 1e6 for name, of in by_api.items()}
        about = (
            "From the beginning of a request's handling to its answer, added up. "
            "The wait behind earlier requests of the connection does not count."
        )
        yield Metric("muster_request_seconds_total", COUNTER, about, seconds, ("api",))
        phases = {(*name, HANDLER): of.handler for name, of in by_api.items()}
        phases |= {(*name, QUEUE): of.queue for name, of in by_api.items() if of.queue.sum_us}
        phases |= {
            (_api_name(key), DURABLE if key in WRITES else ANSWER): of.after
            for key, of in self._requests.items()
            if of.after.sum_us
        }
        about = (
            "Requests by duration. Queue: the wait for the handler, of large requests. After the handler, durable: the "
            "wait for the log; answer: the wait for members, records or a time too."
        )
        yield Metric("muster_request_duration_seconds", HISTOGRAM, about, phases, ("api", "phase"))
        errors = {(_api_name(key), error_name(code)): count for (key, code), count in self._errors.items()}
        about = "Error codes in answers."
        yield Metric("muster_request_errors_total", COUNTER, about, errors, ("api", "error"))
        about = "What happened in groups: rebalances, members that joined and left (docs/events.md)."
        events = {(kind,): count for kind, count in self._events.items()}
        yield Metric("muster_group_events_total", COUNTER, about, events, ("kind",))
        about = "Syncs of logs to the disk, by duration."
        yield Metric("muster_sync_duration_seconds", HISTOGRAM, about, {(): self._syncs})
        about = "How late the event loop was, measured ten times a second; added up."
        yield single("muster_event_loop_late_seconds_total", COUNTER, about, self._late_in_all_ms / 1000)
        about = "The most that the event loop was late in the last minute."
        yield single("muster_event_loop_latest_seconds", GAUGE, about, max(self._late_ms, default=0) / 1000)


def _topics_of(event: Event) -> dict[str, list[int]]:
    topics: Any = event.facts["topics"]
    return dict(topics)


def _counting(server: Server, kafka: Callable[[Server], Job[list[Metric | Lines]]]) -> Job[list[Metric | Lines]]:
    groups: Counter[tuple[str, str]] = Counter()
    shards: Counter[tuple[str]] = Counter()
    states: Counter[tuple[str]] = Counter({("active",): 0, ("loading",): 0, ("failed",): 0})
    seen = offsets = 0
    for node in server.nodes:
        for shard in node.routing.shards:
            shards["active" if shard.active else "inactive",] += 1
            if shard.active:
                states["active",] += 1
            elif shard.runtime.trouble is not None:
                states["failed",] += 1
            elif shard.runtime.state_error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                states["loading",] += 1
            for group_type, state in shard.group_states():
                groups[group_type, state] += 1
                seen += 1
                if not seen % COUNTED_AT_ONCE:
                    yield None
            for group_id in [*shard.offset_groups()]:
                offsets += sum(map(len, shard.committed(group_id).values()))
                seen += 1
                if not seen % COUNTED_AT_ONCE:
                    yield None
            yield None
    led = log_bytes = 0
    for topic in server.topics.open.walk():
        for partition in topic.partitions:
            if partition is not None:
                led += 1
                log_bytes += partition.log.size_bytes
        yield None
    found = [] if server.client_reports is None else (yield from client_metrics(server.client_reports, server.clock))
    of_kafka = yield from kafka(server)
    return [
        *found,
        Metric("muster_groups", GAUGE, "Groups that this process coordinates.", groups, ("type", "state")),
        Metric("muster_group_shards", GAUGE, "Partitions of __consumer_offsets: active ones are loaded.", shards,
               ("state",)),
        Metric(f"{PREFIX}_num_partitions", GAUGE, "Partitions of __consumer_offsets by state.", states, ("state",)),
        single(f"{PREFIX}_offset_count", GAUGE, "Committed offsets of all groups.", offsets),
        single("muster_topics", GAUGE, "Topics of the cluster.", len(server.topics.by_name)),
        single("muster_partitions_led", GAUGE, "Partitions whose log this process has open, and leads.", led),
        single("muster_log_bytes", GAUGE, "Bytes of these logs.", log_bytes),
        single("muster_log_compactions_total", COUNTER, "Compactions of logs.", server.logs.compactions),
        single("muster_log_compacted_bytes_total", COUNTER, "Bytes that compactions have removed.",
               server.logs.compacted_bytes),
        single("muster_logs_offline", GAUGE, "Logs that cannot be used.", len(server.logs.offline)),
        *of_kafka,
    ]  # fmt: skip


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
