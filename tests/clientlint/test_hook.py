"""The linter on a running server: it sees what clients get, also behind faults; and its reports."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from muster.clientlint.calls import Certainty
from muster.clientlint.findings import MAX_FINDINGS, Findings
from muster.clientlint.serving import ClientLint
from muster.clientlint.watcher import MAX_KEPT, Broken, Kept
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.fetch import FetchRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.metadata import MetadataRequest
from muster.testcontrol.faults.actions import Cut, Error, LoseAnswer, Trickle
from muster.testcontrol.faults.engine import Faults
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.rule import once
from muster.testcontrol.interceptors import Interceptors
from tests.clientlint.scripted import CLIENT
from tests.support.muster import connected, running
from tests.support.servers import MusterServer


async def test_the_linter_sees_what_a_client_sends_and_gets(tmp_path: Path) -> None:
    said: list[str] = []
    report = tmp_path / "report.json"
    async with running({"muster.client.lint.report.file": str(report)}) as server:
        interceptors = Interceptors(server)
        lint = ClientLint(server, interceptors, said.append)
        faults = Faults(server, interceptors)
        await lint.start()
        async with connected(server, "c") as client:
            await client.ask(ApiVersionsRequest("tool", "2.0"))
            await client.ask(MetadataRequest(), version=1)
            faults.add(Match(api="FindCoordinator"), Error("INVALID_REQUEST"), once())
            await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
            faults.add(Match(api="Heartbeat"), Trickle(size=3, every_ms=1), once())
            answer = await client.ask(HeartbeatRequest("g", 1, "m"))
            assert answer.error_code == 25
            faults.add(Match(api="Heartbeat"), LoseAnswer(), once())
            client.send(HeartbeatRequest("g", 1, "m"))
            assert await client.closed()
        async with connected(server, "c") as client:
            await client.ask(FetchRequest(session_epoch=-1), version=4)
            faults.add(Match(api="Metadata"), Cut("middle"), once())
            client.send(MetadataRequest())
            assert await client.closed()
        await lint.stop()
    found = json.loads(report.read_text())
    assert said == []
    assert [(one["rule"], one["api"], one["software"], one["version"]) for one in found["findings"]] == [
        ("old-version", "Metadata", "tool", "2.0"),
        ("invalid-request", "FindCoordinator", "tool", "2.0"),
        ("old-version", "Fetch", "tool", "2.0"),
    ]
    assert found["requests"] == 7
    assert found["clients"] == [{"client_id": "c", "software": "tool", "version": "2.0", "host": "/127.0.0.1"}]
    assert found["findings"][0]["first_ms"] > 1_600_000_000_000


async def test_a_report_as_text_and_where_it_cannot_be_written(tmp_path: Path) -> None:
    said: list[str] = []
    async with running({"muster.client.lint.report.file": str(tmp_path / "no" / "folder")}) as server:
        lint = ClientLint(server, Interceptors(server), said.append)
        await lint.start()
        async with connected(server, "old") as client:
            await client.ask(MetadataRequest(), version=1)
        async with connected(server, "new") as client:
            await client.ask(MetadataRequest())
        await lint.stop()
    (text,) = said
    head, _, old, finding, evidence, do, _, new = text.splitlines()
    assert head == "client lint: 2 requests of 2 clients; 1 findings are sure, 0 say perhaps"
    assert old == "old (unnamed software, 127.0.0.1): 1 finding"
    assert finding.startswith("  [sure] old-version (ages): A client uses an old version of an API")
    assert "Metadata version 1: no leader epochs" in evidence
    assert do.startswith("    Do: Use the newest version")
    assert new == "new (unnamed software, 127.0.0.1): nothing was found"


async def test_a_server_without_the_linter_asks_nothing_at_its_requests() -> None:
    async with running() as server:
        assert [point.is_watched for point in server.intercept_points.values()] == [False]


def test_findings_are_bounded() -> None:
    findings = Findings()
    for number in range(MAX_FINDINGS + 5):
        findings.add(Broken("old-version", CLIENT._replace(client_id=str(number)), "Fetch", 1, "w", Certainty.SURE))
    assert len(findings.all) == MAX_FINDINGS
    assert findings.not_kept == 5


def test_the_sentences_that_prove_replace_those_that_suspect() -> None:
    findings = Findings()
    for number, sure in enumerate((Certainty.PERHAPS, Certainty.PERHAPS, Certainty.SURE, Certainty.PERHAPS)):
        findings.add(Broken("ended-generation", CLIENT, "OffsetCommit", number, f"w{number}", sure))
    (one,) = findings.all
    assert (str(one.certainty), one.count, one.first_ms, one.last_ms) == ("sure", 4, 0, 3)
    assert one.evidence == [(2, "w2"), (3, "w3")]


@pytest.mark.parametrize("count", [MAX_KEPT, MAX_KEPT + 3])
def test_what_watchers_remember_is_bounded(count: int) -> None:
    kept: Kept[int, int] = Kept()
    for number in range(count):
        kept.put(number, number)
        kept.find(0)
    assert len(kept) == MAX_KEPT
    assert kept.find(0) == 0


@pytest.mark.parametrize("door", ["--http", "--control"])
def test_the_property_makes_a_server_report_at_its_door_and_at_its_end(tmp_path: Path, door: str) -> None:
    report = tmp_path / "report.json"
    properties = {"muster.client.lint.enable": "true", "muster.client.lint.report.file": str(report)}
    server = MusterServer(tmp_path, properties, in_memory=True, arguments=[door, "127.0.0.1:0"])
    server.start()
    try:
        address = server.log_lines("http is served")[0]["address"]
        with urlopen(f"{address}/client-lint") as answer:
            assert answer.read().startswith(b"client lint: 0 requests of 0 clients")
        with urlopen(f"{address}/client-lint.json") as answer:
            assert json.load(answer)["findings"] == []
    finally:
        server.stop()
    assert json.loads(report.read_text())["requests"] == 0
