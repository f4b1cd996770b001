"""Whole runs on a Muster in the test's process, also behind a proxy that changes answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.client.connection import RequestFailed
from muster.client.security import ClientSecurity, of
from muster.conform import session
from muster.conform.player import kafka_codec as codec
from muster.conform.pulse import BUSY_S, Pulse
from muster.conform.results import Outcome, Report, Severity, State
from muster.conform.session import Session, Wishes
from muster.conform.settings import MAIN
from muster.coordinator.server import Server
from tests.conform.changing_proxy import body_of, changing
from tests.support.certificates import Authority
from tests.support.muster import running

STORY = "join-is-a-barrier"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@asynccontextmanager
async def muster(**more: str) -> AsyncIterator[Server]:
    async with running({**MAIN, **more}) as server:
        yield server


def port_of(server: Server) -> int:
    return server.bound[0].port


async def begun(port: int, *stories: str, may_alter: bool = False, security: ClientSecurity | None = None) -> Session:
    return await session.begin(
        ("127.0.0.1", port), "here", security, Wishes(stories=stories, may_alter=may_alter)
    )  # fmt: skip


async def played(port: int, *stories: str, may_alter: bool = False) -> Report:
    one = await begun(port, *stories, may_alter=may_alter)
    return await one.play(lambda _: None)


async def names_on(port: int) -> list[str]:
    """The groups and topics that are there."""
    one = await begun(port, STORY)
    runner = await one.target.connect()
    groups = await runner.ask("ListGroups", 5, {})
    topics = await runner.ask("Metadata", 12, {"Topics": None})
    await runner.close()
    return [row["GroupId"] for row in groups["Groups"]] + [
        row["Name"] for row in topics["Topics"] if not row["Name"].startswith("__")
    ]


async def test_stories_are_as_on_kafka_and_leave_nothing_behind() -> None:
    async with muster() as server:
        report = await played(
            port_of(server), STORY, "static-fencing", "share-group-one-member", "consumer-group-listed"
        )
        assert {one.id: one.state for one in report.outcomes} == {
            STORY: State.PASSED, "static-fencing": State.PASSED, "share-group-one-member": State.PASSED,
            "consumer-group-listed": State.PASSED,
        }  # fmt: skip
        assert (report.release, report.exit_status, report.left) == ("4.4", 0, ())
        assert await names_on(port_of(server)) == []


async def test_a_group_gets_the_configs_of_its_story_and_loses_them_at_the_end() -> None:
    async with muster(**{"group.share.assignment.interval.ms": "1000"}) as server:
        (skipped,) = (await played(port_of(server), "share-group-listed")).outcomes
        assert skipped.why == "needs group.share.assignment.interval.ms=0 (--may-alter sets it)"
        report = await played(port_of(server), "share-group-listed", may_alter=True)
        assert [one.state for one in report.outcomes] == [State.PASSED]
        one = await begun(port_of(server), STORY)
        runner = await one.target.connect()
        left = await runner.ask("ListConfigResources", 1, {"ResourceTypes": [32]})
        await runner.close()
        assert left["ConfigResources"] == []


def wrong_generation(api: str, version: int, request: dict[str, Any], frame: bytes) -> dict[str, Any] | None:
    """As a broker would answer that counts generations from 5."""
    if api != "JoinGroup":
        return None
    body = body_of(api, version, frame)
    return {**body, "GenerationId": body["GenerationId"] + 4} if body["GenerationId"] > 0 else None


def silent(api: str, version: int, request: dict[str, Any], frame: bytes) -> bytes | None:
    """As a broker would answer that has forgotten a field."""
    return frame[:-1] if api == "Heartbeat" else None


async def failed(port: int, story: str) -> Outcome:
    report = await played(port, story)
    (outcome,) = report.outcomes
    assert (outcome.state, report.exit_status) == (State.FAILED, 1)
    return outcome


async def test_a_difference_is_shown_with_its_request_and_the_bytes_of_the_answer() -> None:
    async with muster() as server, changing(("127.0.0.1", port_of(server)), wrong_generation) as proxy:
        outcome = await failed(proxy.port, STORY)
    assert outcome.request == "JoinGroup v9"
    assert "-    A <- join ok generation=1 protocol=range leader=A members=[A:a]" in outcome.diff.splitlines()
    assert "+    A <- join ok generation=5 protocol=range leader=A members=[A:a]" in outcome.diff.splitlines()
    assert codec.decode_response("JoinGroup", 9, outcome.answer)[1]["GenerationId"] == 5
    assert (outcome.severity, outcome.tries) == (Severity.DIFFERS, 3)
    assert outcome.wrong is not None
    assert outcome.wrong.field == "GenerationId"
    assert {hurt.client.split()[0] for hurt in outcome.hurts} >= {"aiokafka", "Java", "sarama"}


async def test_an_answer_that_cannot_be_read_breaks_clients() -> None:
    async with muster() as server, changing(("127.0.0.1", port_of(server)), silent) as proxy:
        outcome = await failed(proxy.port, "heartbeat-versions")
    assert outcome.severity is Severity.CLIENTS_BREAK
    assert "cannot be read" in outcome.why
    assert outcome.answer


async def test_what_goes_wrong_once_is_flaky_and_no_failure() -> None:
    changes = iter([True])

    def once(api: str, version: int, request: dict[str, Any], frame: bytes) -> dict[str, Any] | None:
        body = wrong_generation(api, version, request, frame)
        return body if body is not None and next(changes, False) else None

    async with muster() as server, changing(("127.0.0.1", port_of(server)), once) as proxy:
        report = await played(proxy.port, STORY)
    (outcome,) = report.outcomes
    assert (outcome.state, outcome.tries, report.exit_status) == (State.FLAKY, 2, 0)
    assert outcome.why == "it was right in try 2, alone"
    assert "generation=5" in outcome.diff


async def test_a_story_that_goes_wrong_on_a_busy_machine_is_flaky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pulse, "was_busy", lambda pulse, since, scale: True)
    async with muster() as server, changing(("127.0.0.1", port_of(server)), wrong_generation) as proxy:
        report = await played(proxy.port, STORY)
    (outcome,) = report.outcomes
    assert (outcome.state, outcome.why) == (State.FLAKY, "it never went right, but the machine was too busy to tell")


async def test_the_pulse_notices_slow_answers() -> None:
    async with muster() as server:
        pulse = Pulse((await begun(port_of(server), STORY)).target)
        pulse.start()
        await pulse.stop()
    pulse.measures.append((10.0, BUSY_S * 1.5))
    assert pulse.was_busy(9.0)
    assert not pulse.was_busy(11.0)
    assert not pulse.was_busy(9.0, scale=2)


async def test_a_story_with_a_request_that_the_broker_does_not_offer_is_skipped() -> None:
    async with muster() as server:
        one = await begun(port_of(server), "offset-delete")
        one.target.keys = {key: its for key, its in one.target.keys.items() if key != codec.api_key("OffsetDelete")}
        report = await one.play(lambda _: None)
    assert [one.why for one in report.outcomes] == ["the broker does not offer OffsetDelete v0"]
    assert report.exit_status == 2


async def test_a_request_without_a_named_version_is_sent_in_the_brokers_newest_one() -> None:
    async with muster() as server:
        one = await begun(port_of(server), STORY)
        one.target.keys = {**one.target.keys, codec.api_key("Heartbeat"): (0, 2)}
        report = await one.play(lambda _: None)
    assert [one.state for one in report.outcomes] == [State.PASSED]


async def test_a_run_that_is_cancelled_deletes_what_it_has_made() -> None:
    async with muster() as server:
        one = await begun(port_of(server), "find-coordinator-one", "session-expires", "sessions-are-each-members-own")
        heard = asyncio.Event()
        task = asyncio.create_task(one.play(lambda _: heard.set()))
        await heard.wait()  # one story has ended, the others wait for sessions to end
        task.cancel()
        report = await task
        assert one.interrupted
        assert len(report.outcomes) < 3
        assert report.left == ()
        assert await names_on(port_of(server)) == []


PROBED = ("ApiVersions", "Metadata", "CreateTopics", "DeleteTopics", "ListGroups", "DeleteGroups", "Heartbeat")


async def test_probes_are_a_level_of_their_own() -> None:
    async with muster() as server:
        one = await session.begin(("127.0.0.1", port_of(server)), "here", None, Wishes(levels=["wire"]))
        one.target.keys = {key: one.target.keys[key] for key in map(codec.api_key, PROBED)}
        heard: list[Outcome] = []
        report = await one.play(heard.append)
    assert {outcome.level for outcome in report.outcomes} == {"wire"}
    assert len(heard) == len(report.outcomes) == one.count
    assert (report.count(State.FAILED), report.left) == (0, ())


async def test_a_fetch_by_topic_id_goes_to_the_leaders_of_a_cluster() -> None:
    async with running({**MAIN, "muster.nodes": "3"}, topics=["o:3"]) as server:
        target = (await begun(port_of(server), STORY)).target
        about = {"Topics": [{"TopicId": uuid.UUID(int=0), "Name": "o"}], "AllowAutoTopicCreation": False}
        asking, fetching = await target.connect(), await target.connect()
        (topic,) = (await asking.ask("Metadata", 12, about))["Topics"]
        rows = [{"Partition": number, "FetchOffset": 0, "PartitionMaxBytes": 1} for number in range(3)]
        found = await fetching.ask(
            "Fetch", 13, {"MaxWaitMs": 0, "Topics": [{"TopicId": topic["TopicId"], "Partitions": rows}]}
        )
        await asking.close()
        await fetching.close()
    assert len({row["LeaderId"] for row in topic["Partitions"]}) == 3
    assert [row["ErrorCode"] for one in found["Responses"] for row in one["Partitions"]] == [0, 0, 0]


async def test_connections_use_tls_and_a_login(tmp_path: Path) -> None:
    authority = Authority()
    trust = tmp_path / "trust.pem"
    trust.write_text(authority.pem)
    key = authority.signed("CN=me", host="localhost").pem(tmp_path / "key.pem")
    properties = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "listener.name.sasl_ssl.ssl.keystore.location": key,
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="a secret";',
    }
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="alice" password="a secret";',
    }
    async with muster(**properties) as server:
        one = await begun(port_of(server), STORY, security=of(client, "test"))
        report = await one.play(lambda _: None)
        assert [one.state for one in report.outcomes] == [State.PASSED]
        wrong = of(client | {"sasl.jaas.config": client["sasl.jaas.config"].replace("a secret", "no")}, "test")
        with pytest.raises(RequestFailed, match="refuses alice"):
            await begun(port_of(server), STORY, security=wrong)
        with pytest.raises(RequestFailed, match=r"it speaks TLS: give security.protocol=SSL or SASL_SSL in the file"):
            await begun(port_of(server), STORY)
        encrypted = {name: value for name, value in client.items() if not name.startswith("sasl.")}
        with pytest.raises(RequestFailed, match=r"only clients that say who they are \(by PLAIN\): give security"):
            await begun(port_of(server), STORY, security=of(encrypted | {"security.protocol": "SSL"}, "test"))
        with pytest.raises(RequestFailed, match="is not trusted: self-signed certificate in certificate chain; the"):
            await begun(port_of(server), STORY, security=of({"security.protocol": "SSL"}, "test"))
    async with muster() as server:
        with pytest.raises(RequestFailed, match=r"it speaks no TLS: give security.protocol=PLAINTEXT or SASL_PLAIN"):
            await begun(port_of(server), STORY, security=of({"security.protocol": "SSL"}, "test"))
    demanding = {**properties, "listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required",
                 "listener.name.ssl.ssl.keystore.location": key, "listener.name.ssl.ssl.keystore.type": "PEM",
                 "ssl.truststore.location": str(trust), "ssl.truststore.type": "PEM"}  # fmt: skip
    async with muster(**demanding) as server:
        with pytest.raises(RequestFailed, match=r"it demands a certificate that it trusts: look at ssl.keystore"):
            await begun(port_of(server), STORY, security=of(encrypted | {"security.protocol": "SSL"}, "test"))
    with pytest.raises(RequestFailed, match=r"Connection refused; is a server listening there\?$"):
        await begun(port_of(server), STORY)
