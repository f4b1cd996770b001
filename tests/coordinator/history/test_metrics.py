"""Metrics as Prometheus reads them, and the figures of groups."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.server.exposition import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Exemplar,
    Histogram,
    Lines,
    Metric,
    exposition,
    single,
)
from muster.coordinator.server.group_figures import GroupFigures
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import at_once

NOW = Now(5_000, 1_700_000_000_500)


def text(*metrics: Metric | Lines, is_open: bool = False) -> str:
    return b"".join(at_once(exposition(metrics, is_open=is_open))).decode()


def test_metrics_have_the_text_format_of_prometheus() -> None:
    odd = 'a "group"\\\n'
    assert text(
        single("muster_up", GAUGE, "It is\nup \\ down.", 1),
        Metric("muster_x_total", COUNTER, "X.", {("b", odd): 2.5, ("a", ""): 12345678901}, ("one", "two")),
        Metric("muster_none", GAUGE, "Nothing yet.", {}, ("state",)),
        Lines("kafka_x", GAUGE, "Lines.", ["kafka_x 1\n"] * 2),
    ) == (
        "# HELP muster_up It is\\nup \\\\ down.\n"
        "# TYPE muster_up gauge\n"
        "muster_up 1\n"
        "# HELP muster_x_total X.\n"
        "# TYPE muster_x_total counter\n"
        'muster_x_total{one="a",two=""} 12345678901\n'
        'muster_x_total{one="b",two="a \\"group\\"\\\\\\n"} 2.5\n'
        "# HELP muster_none Nothing yet.\n"
        "# TYPE muster_none gauge\n"
        "# HELP kafka_x Lines.\n"
        "# TYPE kafka_x gauge\n"
        "kafka_x 1\n"
        "kafka_x 1\n"
    )
    assert text() == ""


def test_openmetrics_names_the_event_of_a_counter() -> None:
    metric = Metric("x_total", COUNTER, "X.", {("g",): 3}, ("group",), {("g",): Exemplar({"epoch": "7"}, 1_500)})
    assert text(metric, is_open=True) == (
        '# HELP x X.\n# TYPE x counter\nx_total{group="g"} 3 # {epoch="7"} 1 1.500\n# EOF\n'
    )
    assert " # " not in text(metric).partition("TYPE")[2]


def test_a_histogram_counts_durations_below_each_end() -> None:
    histogram = Histogram()
    for took_us in (100, 128, 300, 200_000_000):
        histogram.by_bits[took_us.bit_length()] += 1
        histogram.sum_us += took_us
    lines = text(Metric("t_seconds", HISTOGRAM, "T.", {("Fetch",): histogram}, ("api",))).splitlines()[2:]
    assert lines[:3] == [
        't_seconds_bucket{api="Fetch",le="0.000128"} 1',
        't_seconds_bucket{api="Fetch",le="0.000256"} 2',
        't_seconds_bucket{api="Fetch",le="0.000512"} 3',
    ]
    assert lines[-3:] == [
        't_seconds_bucket{api="Fetch",le="+Inf"} 4',
        't_seconds_sum{api="Fetch"} 200.000528',
        't_seconds_count{api="Fetch"} 4',
    ]


def happened(group_id: str) -> list[Event]:
    started = {"cause": events.SESSION_EXPIRED, "generation": 3}
    return [
        Event(events.REBALANCE_STARTED, group_id, started),
        Event(events.REBALANCE_COMPLETED, group_id, {"join_phase_ms": 250, "sync_phase_ms": None}),
        Event(events.EPOCH_BUMPED, group_id, {"cause": events.LEFT, "epoch": 8}),
        Event(events.EPOCH_RECONCILED, group_id, {"took_ms": 500, "paused_partition_ms": 1_500}),
        Event(events.MEMBER_EXPIRED, group_id, {}),
        Event(events.REQUEST_REFUSED, group_id, {"error": 25}),
    ]


def test_a_group_has_its_rebalances_by_cause_and_what_was_lost() -> None:
    figures = GroupFigures()
    figures.count(happened("g"), NOW)
    found = text(*figures.metrics(NOW._replace(mono_ms=7_000)), is_open=True)
    for line in (
        'muster_group_rebalances_total{group="g",cause="session_expired"} 1 # {generation="3"} 1 1700000000.500',
        'muster_group_rebalances_total{group="g",cause="member_left"} 1 # {epoch="8"} 1 1700000000.500',
        'muster_group_rebalance_seconds_total{group="g",phase="join"} 0.25',
        'muster_group_rebalance_seconds_total{group="g",phase="reconcile"} 0.5',
        'muster_group_paused_partition_seconds_total{group="g"} 1.5',
        'muster_group_expired_members_total{group="g"} 1',
        'muster_group_refusals_total{group="g",error="UNKNOWN_MEMBER_ID"} 1',
        'muster_group_since_rebalance_seconds{group="g"} 2',
    ):
        assert line in found.splitlines()
    figures.count([Event(events.GROUP_DELETED, "g", {})], NOW)
    assert 'group="g"' not in text(*figures.metrics(NOW))


def test_the_busiest_groups_have_figures_of_their_own() -> None:
    figures = GroupFigures()
    figures.most = 1
    figures.count(happened("first"), NOW)
    for _ in range(2):
        figures.count(happened("busy"), NOW)
    expired = "muster_group_expired_members_total"
    assert [line for line in text(*figures.metrics(NOW)).splitlines() if line.startswith(expired)] == [
        f'{expired}{{group=""}} 2',
        f'{expired}{{group="first"}} 1',
    ]
    # now the busier group has taken the place, and nothing that was counted together becomes less
    figures.count(happened("busy"), NOW)
    figures.count(happened("first"), NOW)
    assert [line for line in text(*figures.metrics(NOW)).splitlines() if line.startswith(expired)] == [
        f'{expired}{{group=""}} 3',
        f'{expired}{{group="busy"}} 1',
    ]


def test_loads_and_removed_offsets_have_kafkas_names() -> None:
    metrics = ServerMetrics()
    seen: list[str] = []
    metrics.subscribe(lambda some, _: seen.extend(event.kind for event in some))
    for took_ms in (10, 30):
        metrics.coordinator.shards.loads.append(took_ms)
    metrics.count_events([Event(events.OFFSETS_EXPIRED, "g", {"topics": {"t": [0, 1], "u": [3]}})], NOW)
    lines = text(*metrics.coordinator.metrics(0, 0)).splitlines()
    prefix = "kafka_server_group_coordinator_metrics"
    wanted = (f"{prefix}_partition_load", f"{prefix}_offset_expiration_count", f"{prefix}_offset_deletion_count")
    assert [line for line in lines if line.startswith(wanted)] == [
        f"{prefix}_offset_expiration_count 3",
        f"{prefix}_offset_deletion_count 0",
        f"{prefix}_partition_load_time_avg 20",
        f"{prefix}_partition_load_time_max 30",
    ]
    assert seen == [events.OFFSETS_EXPIRED]


@pytest.mark.parametrize("most", [0, 2])
def test_as_many_groups_as_configured_have_figures(most: int) -> None:
    figures = GroupFigures()
    figures.most = most
    for name in ("a", "b", "c"):
        figures.count(happened(name), NOW)
    found = text(*figures.metrics(NOW))
    assert [f'group="{name}"' in found for name in ("a", "b", "c")] == [place < most for place in range(3)]
