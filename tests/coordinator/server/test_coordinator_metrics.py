"""Kafka's `group-coordinator-metrics`: their names, and what their figures are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.http.watch import of_kafka
from muster.coordinator.runtime.figures import MAX_GROUPS, CommitCounts
from muster.coordinator.server.coordinator_metrics import PREFIX, CoordinatorMetrics, ThreadFigures
from muster.coordinator.server.exposition import Metric, exposition
from muster.coordinator.server.group_figures import BusiestCommits
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import AtOnce, Thread, at_once
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled

NAMES = Path(__file__).parents[2] / "data" / "kafka-group-coordinator-metrics.txt"
"""All attributes of `kafka.server:type=group-coordinator-metrics` of a running Kafka 4.4.0, as its JMX shows them."""


def values_of(metrics: list[Any]) -> dict[str, float]:
    lines = b"".join(at_once(exposition(metrics))).decode().splitlines()
    rows = (line.rpartition(" ") for line in lines if line.startswith(PREFIX))
    return {name.removeprefix(f"{PREFIX}_"): float(value) for name, _, value in rows}


async def test_a_server_has_all_names_of_kafka_4_4_and_counts_its_commits() -> None:
    metrics = ServerMetrics()
    async with controlled(metrics=metrics) as found:
        metrics.serves(found.server)
        metrics.coordinator.shards.is_due = True
        for protocol in ("classic", "consumer"):
            async with consuming(bootstrap(found), "orders", group_id=protocol) as consumer:
                await found.groups.wait_stable(protocol, members=1, partitions="orders")
                for offset in range(1, 4):
                    await consumer.commit(dict.fromkeys(consumer.assignment(), offset))
        collected = await metrics.collect(of_kafka)
        values = values_of(collected)
    kafkas = {name.replace("-", "_") for name in NAMES.read_text(encoding="utf-8").split()}
    assert kafkas - values.keys() == set()
    assert {name for name in values.keys() - kafkas if "{" not in name} == set()
    assert values["offset_commit_count"] >= 2 * 3 * 2
    assert values["offset_count"] == 4
    assert values["batch_flush_time_ms_max"] > 0
    assert values["group_completed_rebalance_count"] >= 1
    assert values['num_partitions{state="active"}'] >= 1
    assert values['group_count{protocol="classic"}'] >= 1
    lines = b"".join(at_once(exposition(collected))).decode().splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if line.startswith("muster_group_committed_offsets_total{"))
    assert counts == {
        f'muster_group_committed_offsets_total{{group="{group}"}}': counts[
            f'muster_group_committed_offsets_total{{group="{group}"}}'
        ]
        for group in ("classic", "consumer")
    }
    assert sum(map(int, counts.values())) == values["offset_commit_count"]


def test_rates_are_those_of_the_last_half_minute() -> None:
    metrics = CoordinatorMetrics()
    for second in range(61):
        metrics.note(second * 1000)
        metrics.counts["offset_deletion"] += 3
        metrics.shards.flushes += 1
    values = values_of([*metrics.metrics(60_000, waiting=2)])
    assert values["offset_deletion_rate"] == pytest.approx(3, abs=0.2)
    assert values["batch_flush_rate"] == pytest.approx(1, abs=0.1)
    assert values["event_queue_size"] == 2
    assert 0 <= values["thread_idle_ratio_avg"] <= 1
    assert values["background_thread_idle_ratio_avg"] == 1


def test_durations_are_those_of_the_last_minute() -> None:
    metrics = CoordinatorMetrics()
    metrics.queued.add(1_000_000, 9_000_000)
    for took_ms in range(1, 101):
        metrics.queued.add(50_000_000, took_ms * 1000)
    values = values_of([*metrics.metrics(100_000, waiting=0)])
    found = [values[f"event_queue_time_ms_{share}"] for share in ("p50", "p95", "p99", "p999", "max")]
    assert found == [51, 96, 100, 100, 100]
    assert values["event_purgatory_time_ms_max"] == 0


def test_an_append_that_is_due_is_timed_until_it_is_durable() -> None:
    figures = CoordinatorMetrics().shards
    figures.is_due = True
    waiting: list[Callable[[Any], object]] = []
    clock: Any = type("At", (), {"us": 1_000, "mono_us": lambda self: self.us})()
    figures.time_append(clock, 4, 400, waiting.append)
    clock.us = 3_500
    waiting[0](None)
    figures.time_append(clock, 4, 400, lambda durable: durable(OSError()))
    assert not figures.is_due
    assert [recent.sorted_us(3)[0] for recent in (figures.linger, figures.flush, figures.purgatory)] == [
        4_000,
        600,
        2_500,
    ]
    assert len(figures.purgatory.sorted_us(3)) == 1


@pytest.mark.parametrize("is_at_once", [True, False])
def test_work_in_the_thread_is_timed(is_at_once: bool) -> None:
    figures = ThreadFigures()
    ticks = iter(range(1_000, 9_000, 500))
    clock: Any = type("Ticks", (), {"mono_us": lambda _: next(ticks)})()
    is_done = threading.Event()
    inner = AtOnce() if is_at_once else Thread(lambda callback: callback())
    worker = figures.watch(inner, clock)
    assert figures.watch(worker, clock) is worker
    seen: list[Any] = []

    def done(result: Any, error: Exception | None) -> None:
        seen.append((result, error))
        is_done.set()

    worker.run(lambda: 7, done)
    assert is_done.wait(10)
    worker.close()
    assert seen == [(7, None)]
    assert figures.queued.sorted_us(0) == figures.worked.sorted_us(0) == [500]
    assert figures.busy_us == 500


def rows_of(metric: Metric) -> dict[str, int]:
    return {group: count for (group,), count in metric.samples.items()}


def test_no_count_of_commits_falls_and_none_is_lost() -> None:
    counts = CommitCounts()
    busiest = BusiestCommits(counts)

    def commit(**offsets: int) -> None:
        for group, count in offsets.items():
            counts.of(group).offsets += count

    commit(a=5, b=3, c=1)
    assert rows_of(busiest.metric(2)) == {"a": 5, "b": 3, "": 1}
    assert rows_of(busiest.metric(2)) == {"a": 5, "b": 3, "": 1}  # nothing has happened, so no group changes its place
    commit(c=4, b=1)
    # c takes the place of a, which committed nothing; what c had committed before stays with the others
    assert rows_of(busiest.metric(2)) == {"b": 4, "c": 4, "": 1}
    busiest.forget("c")
    assert rows_of(busiest.metric(2)) == {"b": 4, "a": 0, "": 1}
    assert counts.all == 14
    assert rows_of(busiest.metric(0)) == {"b": 4, "a": 0, "": 1}


def test_groups_above_the_limit_are_counted_together() -> None:
    counts = CommitCounts()
    for number in range(MAX_GROUPS + 5):
        counts.of(str(number)).offsets += 1
    assert len(counts.of_groups) == MAX_GROUPS
    assert (counts.others.offsets, counts.all) == (5, MAX_GROUPS + 5)


def test_epochs_without_a_known_group_count_as_those_of_consumer_groups() -> None:
    metrics = ServerMetrics()
    metrics.count_events([Event(events.EPOCH_BUMPED, "gone", {"cause": events.LEFT, "epoch": 2})], Now(1, 1))
    assert metrics.coordinator.counts["consumer_group_rebalance"] == 1
