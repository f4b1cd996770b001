"""The alert rules and the dashboard in deploy/: their queries name metrics that exist."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.cli import build_parser
from muster.coordinator.config import load
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.topics import NewRecord
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled
from tools.site.references.metrics import rows

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "muster.json"
METRIC = re.compile(r"\b(?:muster|kafka|process)_\w+")


def queries() -> list[str]:
    """The queries of the rules and of the dashboard."""
    texts = re.findall(r"(?ms)^ +expr: (.*?)\n +(?:for|labels):", (RULES / "muster.rules.yml").read_text("utf-8"))
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [*texts, *(target["expr"] for panel in panels for target in panel["targets"])]


async def scraped() -> str:
    """The metrics of a server with a group that is behind, and an alert."""
    metrics = ServerMetrics()
    async with controlled(metrics=metrics) as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, metrics)
        await beside.start()
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await found.topics.produce("orders", [NewRecord(b"x", partition=0)] * 3)
            await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            for _ in range(2):  # the second one has the requests and syncs of the first
                _, text = await ask(beside.door, "/metrics")
        await beside.stop()
    assert isinstance(text, str)
    return text


def given_of(text: str) -> list[str]:
    """The series of a scrape, each with the same value for half an hour, as promtool reads them."""
    rows = []
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            labels = name.replace("{", '{instance="one",') if "{" in name else name + '{instance="one"}'
            rows.append(f"      - {{series: {json.dumps(labels)}, values: '{value}x30'}}")
    return rows


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
async def test_each_panel_of_the_dashboard_shows_something_of_a_scrape(tmp_path: Path) -> None:
    panels = [one for one in queries() if "$instance" in one]
    lines = ["tests:", "  - interval: 1m", "    input_series:", *given_of(await scraped()), "    promql_expr_test:"]
    for query in panels:
        asked = json.dumps(query.replace("$instance", ".*"))
        # no result is this one: promtool says what it got
        lines += [f"      - expr: {asked}", "        eval_time: 20m", "        exp_samples: [{value: -12345}]"]
    (tmp_path / "test.yml").write_text("\n".join(lines), encoding="utf-8")
    words = ["promtool", "test", "rules", "test.yml"]
    done = await asyncio.to_thread(
        subprocess.run, words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    got = re.findall(r'expr: "(.*)", time: 20m.*\n.*exp: *(.*)\n.*got: *(.*)', done.stdout)
    assert len(got) == len(panels), done.stdout
    empty = [query for query, _, found in got if found.strip() in ("", "nil")]
    # a panel about what has not happened has nothing to show yet
    assert [one for one in empty if not re.search("expired|errors", one)] == []


def test_the_compose_file_and_the_manifests_start_a_server() -> None:
    files = [ROOT / "deploy" / name for name in ("compose.yaml", "kubernetes/single.yaml", "kubernetes/nodes.yaml")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        given = dict(re.findall(r'(?m)^ +(KAFKA_\w+): "?([^"\n]+)"?$', text))
        given |= dict(re.findall(r'name: (KAFKA_\w+), value: "?([^"}]+)"?\}', text))
        config = load(environment={name: value.replace("$(POD_IP)", "10.0.0.7") for name, value in given.items()})
        assert {listener.port for listener in config.listeners} <= {9092, 19092}
        assert config.value("muster.http.listener") == "http://0.0.0.0:9404"
        assert config.value("muster.http.token.file").startswith("/run/")
        for words in re.findall(r"args: (\[.*\])", text):
            assert build_parser("serve").parse_args(["serve", *json.loads(words)]).cluster is not None
        assert "9404" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "systemd" / "muster.service").read_text(encoding="utf-8")
    (words,) = re.findall(r"(?m)^ExecStart=/opt/muster/bin/muster (.*)$", text)
    assert str(build_parser("serve").parse_args(shlex.split(words)).data_dir) == "/var/lib/muster/data"
    unit = tmp_path / "muster.service"
    unit.write_text(text.replace("/opt/muster/bin/muster", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_each_query_of_the_rules_and_of_the_dashboard_names_a_metric_that_is_served() -> None:
    async with controlled() as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, ServerMetrics())
        await beside.start()
        _, text = await ask(beside.door, "/metrics")
        await beside.stop()
    served = set(re.findall(r"(?m)^# TYPE (\w+)", text))
    # a node over PostgreSQL serves these too
    served |= {row.name for row in rows() if row.name.startswith("muster_cluster_")}
    named = {name.removesuffix("_bucket") for query in queries() for name in METRIC.findall(query)}
    assert len(queries()) == 31
    assert named - served == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize("what", ["check", "test"])
def test_promtool_accepts_the_rules(what: str) -> None:
    file = "muster.rules.yml" if what == "check" else "muster.test.yml"
    done = subprocess.run(["promtool", what, "rules", file], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
