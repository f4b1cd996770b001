"""The figures of a member: series of its report that say how the member does in its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.coordinator.telemetry.reports import GROUP, MEMBER, Report

_PREFIX: Final = "org.apache.kafka.consumer."
FIGURES: Final[Mapping[str, str]] = {
    "last_poll_s": "last.poll.seconds.ago",
    "poll_interval_avg_ms": "time.between.poll.avg",
    "poll_interval_max_ms": "time.between.poll.max",
    "heartbeats_per_s": "coordinator.heartbeat.rate",
    "rebalance_latency_avg_ms": "coordinator.rebalance.latency.avg",
    "rebalance_latency_max_ms": "coordinator.rebalance.latency.max",
    "rebalances": "coordinator.rebalance.total",
    "failed_rebalances": "coordinator.failed.rebalance.total",
}
"""Short names, and the metrics of Kafka's consumers (KIP-714) without their common beginning."""


def figures(report: Report) -> dict[str, float]:
    """The figures that the client has pushed. A client whose subscription has other metrics has no figures."""
    series = report.series
    return {name: series[metric] for name, tail in FIGURES.items() if (metric := _PREFIX + tail) in series}


SILENT_S: Final = 5.0
"""A member whose last poll is this long ago, in seconds, is about to cause a rebalance."""


def last_poll(report: Report) -> dict[str, int]:
    """The fields of an event about a member that stopped polling, as the member has reported it. Else no fields."""
    ago_s = report.series.get(_PREFIX + FIGURES["last_poll_s"])
    if ago_s is None or ago_s < SILENT_S:
        return {}
    return {"last_poll": report.pushed_ms - round(ago_s * 1_000), "reported": report.pushed_ms}


def summary(report: Report) -> dict[str, Any]:
    """A report as JSON, without its series."""
    client, labels = report.client, report.labels
    return {
        "id": client.client_instance_id,
        "client_id": client.client_id,
        "software": f"{client.client_software_name} {client.client_software_version}",
        "host": client.client_source_address,
        "group": labels.get(GROUP),
        "member": labels.get(MEMBER),
        "instance": labels.get("group_instance_id"),
        "rack": labels.get("client_rack"),
        "transactional_id": labels.get("transactional_id"),
        "pushed_ms": report.pushed_ms,
        "pushes": report.pushes,
        "has_ended": report.has_ended,
        "is_cut": report.is_cut,
        "figures": figures(report),
    }


def whole(report: Report) -> dict[str, Any]:
    """A report as JSON, with its series."""
    return summary(report) | {"series": report.series}
