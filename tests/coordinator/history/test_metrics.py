"""Metrics as Prometheus reads them."""

from __future__ import annotations

from muster.coordinator.server.metrics import COUNTER, GAUGE, Metric, prometheus_text, single


def test_metrics_have_the_text_format_of_prometheus() -> None:
    odd = 'a "group"\\\n'
    metrics = [
        single("muster_up", GAUGE, "It is\nup \\ down.", 1),
        Metric("muster_x_total", COUNTER, "X.", {("b", odd): 2.5, ("a", ""): 12345678901}, ("one", "two")),
        Metric("muster_none", GAUGE, "Nothing yet.", {}, ("state",)),
    ]
    assert prometheus_text(metrics) == (
        "# HELP muster_up It is\\nup \\\\ down.\n"
        "# TYPE muster_up gauge\n"
        "muster_up 1\n"
        "# HELP muster_x_total X.\n"
        "# TYPE muster_x_total counter\n"
        'muster_x_total{one="a",two=""} 12345678901\n'
        'muster_x_total{one="b",two="a \\"group\\"\\\\\\n"} 2.5\n'
        "# HELP muster_none Nothing yet.\n"
        "# TYPE muster_none gauge\n"
    )
    assert prometheus_text([]) == ""
