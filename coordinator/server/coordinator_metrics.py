"""Kafka's own `group-coordinator-metrics`, under the names that Prometheus' JMX exporter gives them.

All names of Kafka 4.4 are here, or in `kafka_metrics` (groups by type and state). A test in `tests/coordinator/server/`
compares them with a real broker's. Where Muster works in another way, the text of a metric says what its figure is.
"""

from __future__ import annotations

import resource
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.coordinator.runtime.figures import KEPT_MS, Recent, ShardFigures
from muster.coordinator.server.exposition import GAUGE, Metric, single
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Worker

PREFIX: Final = "kafka_server_group_coordinator_metrics"
WINDOW_MS: Final = 10_000
"""How often the counts are noted, for rates. A rate is that of the last 30 to 40 seconds."""
WINDOWS: Final = 4
QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))

COUNTED: Final[Mapping[str, str]] = {
    "group_completed_rebalance": "Completed rebalances of classic groups",
    "consumer_group_rebalance": "New epochs of consumer groups",
    "share_group_rebalance": "New epochs of share groups",
    "streams_group_rebalance": "New epochs of Streams groups",
    "offset_commit": "Committed offsets",
    "offset_expiration": "Offsets that were removed by expiration",
    "offset_deletion": "Offsets that were removed by deletion",
}
"""What has a count and a rate."""
NOT_DONE: Final = (
    "cleanup_cycle", "cleanup_eligible", "delete_error", "delete_success", "get_error", "get_success", "set_error",
    "set_success",
)  # fmt: skip
"""What Kafka counts of descriptions of topologies. Muster keeps none, so these counts stay 0."""
_PLAIN: Final[Mapping[str, tuple[float, str]]] = {
    "batch_buffer_cache_size_bytes": (0, "Muster keeps no buffers of batches."),
    "batch_buffer_cache_discard_count": (0, "Muster keeps no buffers of batches."),
}


class CoordinatorMetrics:
    """See the module. `shards`: what the shards count. `counts`: what happened, by the names of `COUNTED`."""

    def __init__(self) -> None:
        self.shards = ShardFigures()
        self.counts: Counter[str] = Counter()
        self.queued = Recent()
        """How long requests of groups waited for their handler."""
        self.handled = Recent()
        """How long their handlers took."""
        self.in_thread = ThreadFigures()
        self._noted: deque[tuple[int, Counter[str], int, int]] = deque(maxlen=WINDOWS)

    def note(self, mono_ms: int) -> None:
        """Note the present counts, if a window has passed. The event loop calls this again and again."""
        if not self._noted or mono_ms - self._noted[-1][0] >= WINDOW_MS:
            self._noted.append((mono_ms, self._now(), _used_us(), self.in_thread.busy_us))

    def _now(self) -> Counter[str]:
        return self.counts + Counter(offset_commit=self.shards.commits.all, batch_flush=self.shards.flushes)

    def metrics(self, mono_ms: int, waiting: int) -> Iterator[Metric]:
        """The present metrics. `waiting`: how many jobs wait for the event loop."""
        counts = self._now()
        began_ms, before, busy_us, in_thread_us = self._noted[0] if self._noted else (mono_ms, counts, 0, 0)
        passed_ms = mono_ms - began_ms

        def rate(name: str) -> float:
            return (counts[name] - before[name]) * 1000 / passed_ms if passed_ms else 0

        def idle(used_us: int) -> float:
            return min(max(1 - used_us / (passed_ms * 1000), 0), 1) if passed_ms else 1

        for name, about in COUNTED.items():
            yield single(f"{PREFIX}_{name}_count", GAUGE, f"{about}.", counts[name])
            yield single(f"{PREFIX}_{name}_rate", GAUGE, f"{about}, in a second.", rate(name))
        yield single(f"{PREFIX}_batch_flush_rate", GAUGE, "Appends of batches, in a second.", rate("batch_flush"))
        about = "The share of time in which the thread of the event loop used no CPU."
        yield single(f"{PREFIX}_thread_idle_ratio_avg", GAUGE, about, idle(_used_us() - busy_us))
        about = "The share of time in which the thread for large work did nothing."
        used_us = self.in_thread.busy_us - in_thread_us
        yield single(f"{PREFIX}_background_thread_idle_ratio_avg", GAUGE, about, idle(used_us))
        about = "Jobs that wait for the event loop."
        yield single(f"{PREFIX}_event_queue_size", GAUGE, about, waiting)
        for name, about, recent in (
            ("event_queue_time_ms", "How long requests of groups waited for their handler", self.queued),
            ("event_processing_time_ms", "How long handlers of requests of groups took", self.handled),
            ("event_purgatory_time_ms", "From an append until it was durable", self.shards.purgatory),
            ("batch_linger_time_ms", "How long records were gathered for a batch", self.shards.linger),
            ("batch_flush_time_ms", "How long the append of a batch took", self.shards.flush),
            ("background_queue_time_ms", "How long work waited for the thread for large work", self.in_thread.queued),
            ("background_processing_time_ms", "How long large work took in its thread", self.in_thread.worked),
        ):
            yield from _quantiles(f"{PREFIX}_{name}", about, recent.sorted_us(mono_ms))
        loads = [*self.shards.loads]
        about = "The mean time, in ms, that the latest shards of groups took to load."
        yield single(f"{PREFIX}_partition_load_time_avg", GAUGE, about, sum(loads) / len(loads) if loads else 0)
        about = "The longest of these times, in ms."
        yield single(f"{PREFIX}_partition_load_time_max", GAUGE, about, max(loads, default=0))
        for name, (value, about) in _PLAIN.items():
            yield single(f"{PREFIX}_{name}", GAUGE, about, value)
        for name in NOT_DONE:
            for kind in ("count", "rate"):
                about = "Muster keeps no descriptions of topologies."
                yield single(f"{PREFIX}_streams_group_topology_description_{name}_{kind}", GAUGE, about, 0)


def _quantiles(name: str, about: str, sorted_us: list[int]) -> Iterator[Metric]:
    for suffix, share in QUANTILES:
        place = min(int(share * len(sorted_us)), len(sorted_us) - 1)
        value = sorted_us[place] / 1000 if sorted_us else 0
        whole = f"{about}, in ms, in the last {KEPT_MS // 60_000} minute; frequent ones by samples."
        yield single(f"{name}_{suffix}", GAUGE, whole, value)


def _used_us() -> int:
    """The CPU time of this thread, or of the process on a system that does not know it."""
    used = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return int((used.ru_utime + used.ru_stime) * 1e6)


class ThreadFigures:
    """The durations of work in the thread for large work."""

    def __init__(self) -> None:
        self.queued = Recent()
        self.worked = Recent()
        self.busy_us = 0

    def watch(self, worker: Worker, clock: Clock) -> Worker:
        """The worker, whose work is timed by the machine's clock."""
        return worker if isinstance(worker, _TimedWorker) else _TimedWorker(worker, self, clock)


class _TimedWorker:
    def __init__(self, worker: Worker, figures: ThreadFigures, clock: Clock) -> None:
        self._worker = worker
        self._mono_us = clock.mono_us
        self._figures = figures

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        given_us = self._mono_us()
        began_us = ended_us = given_us

        def timed() -> Any:
            nonlocal began_us, ended_us
            began_us = self._mono_us()
            try:
                return work()
            finally:
                ended_us = self._mono_us()

        def finished(result: Any, error: Exception | None) -> None:
            figures = self._figures
            figures.queued.add(began_us, began_us - given_us)
            figures.worked.add(ended_us, ended_us - began_us)
            figures.busy_us += ended_us - began_us
            done(result, error)

        self._worker.run(timed, finished)

    def close(self) -> None:
        self._worker.close()
