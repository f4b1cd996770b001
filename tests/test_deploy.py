"""The alert rules and the dashboard in deploy/: their queries name metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server.metrics import ServerMetrics
from tests.coordinator.http.doors import ask
from tests.testcontrol.server import controlled

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "muster.json"
METRIC = re.compile(r"\b(?:muster|kafka|process)_\w+")


def queries() -> list[str]:
    """The queries of the rules and of the dashboard."""
    texts = re.findall(r"(?ms)^ +expr: (.*?)\n +(?:for|labels):", (RULES / "muster.rules.yml").read_text("utf-8"))
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [*texts, *(target["expr"] for panel in panels for target in panel["targets"])]


async def test_each_query_of_the_rules_and_of_the_dashboard_names_a_metric_that_is_served() -> None:
    async with controlled() as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, ServerMetrics())
        await beside.start()
        _, text = await ask(beside.door, "/metrics")
        await beside.stop()
    served = set(re.findall(r"(?m)^# TYPE (\w+)", text))
    # a node over PostgreSQL serves these too
    served |= set(re.findall(r"(?m)^\| `(muster_cluster_\w+)`", (ROOT / "docs" / "metrics.md").read_text("utf-8")))
    named = {name.removesuffix("_bucket") for query in queries() for name in METRIC.findall(query)}
    assert len(queries()) == 31
    assert named - served == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize("what", ["check", "test"])
def test_promtool_accepts_the_rules(what: str) -> None:
    file = "muster.rules.yml" if what == "check" else "muster.test.yml"
    done = subprocess.run(["promtool", what, "rules", file], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
