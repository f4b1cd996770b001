"""The test control over HTTP: every operation of the contract, and the errors."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.coordinator.http.address import DoorAddress
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.http.contract import contract
from muster.testcontrol.http.server import MAX_BYTES, OPERATIONS, ControlDoor
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming
from tests.support.muster import until
from tests.support.share_members import share_member
from tests.testcontrol.controls import ControlClient
from tests.testcontrol.server import bootstrap, controlled


@asynccontextmanager
async def with_control(token: str | None = None, **given: Any) -> AsyncIterator[tuple[ControlClient, ServerControl]]:
    async with controlled(**given) as found:
        control = ControlDoor(found, DoorAddress("127.0.0.1", 0, token), ServerMetrics())
        await control.start()
        try:
            yield ControlClient(control, token), found
        finally:
            await control.stop()


def test_every_operation_of_the_contract_has_a_verb_and_no_other() -> None:
    named = [one["operationId"] for methods in contract()["paths"].values() for one in methods.values()]
    assert sorted(named) == sorted(OPERATIONS)


async def test_every_verb_of_the_control_works() -> None:
    async with with_control(nodes=2) as (control, found):
        ask = control.ask
        assert (await ask("GET", "/v1/openapi.json"))["openapi"] == "3.1.0"
        server = await ask("GET", "/v1/server")
        assert (server["nodes"], server["bootstrap_servers"]) == ([1, 2], bootstrap(found))
        await _topics(control)
        async with consuming(bootstrap(found), "bills", group_id="g / 1", client_id="c"):
            await _groups(control)
        await _empty_group(control, found)
        await _faults(control)
        await _time(control)
        for verb, state in (
            ("pause", "paused"),
            ("resume", "up"),
            ("stop", "stopped"),
            ("return", "up"),
            ("kill", "killed"),
        ):
            nodes = await ask("POST", f"/v1/nodes/2/{verb}")
            assert [one["state"] for one in nodes["nodes"]] == ["up", state]
        assert len((await ask("GET", "/v1/nodes"))["nodes"]) == 2
        assert set(OPERATIONS) - control.asked == SHARE_OPERATIONS


SHARE_OPERATIONS = {
    "configureGroup", "groupRecords", "waitAcknowledged", "waitRecords", "expireLocks", "deliverAgain",
    "holdAcknowledgements", "releaseAcknowledgements",
}  # fmt: skip


async def test_every_verb_on_the_records_of_share_groups_works() -> None:
    async with with_control(topics=["t:1"]) as (control, found):
        ask, group = control.ask, "/v1/groups/g"
        await found.topics.produce("t", [NewRecord(b"a"), NewRecord(b"b"), NewRecord(b"c")])
        await ask("POST", f"{group}/configure", {"configs": {"share.delivery.count.limit": 3}})
        async with share_member(found.server, "g", "w", "t") as member:
            assert await member.fetch() == [(0, 0, 2, 1)]
            held = await ask("POST", f"{group}/wait-records", {"what": "in_flight", "records": 3, "member": "w"})
            assert held["records"][0]["held"] == {"w": 3}
            await ask("POST", f"{group}/deliver-again", {"topic": "t", "partition": 0, "offset": 1})
            assert (await ask("POST", f"{group}/expire-locks", {"member": "w", "topic": "t"}))["records"] == 2
            again = await member.fetch()
            assert sum(last - first + 1 for _, first, last, _ in again) == 3
            await ask("POST", f"{group}/hold-acknowledgements")
            acks = [(first, last, 1) for _, first, last, _ in again]
            acknowledging = asyncio.create_task(member.acknowledge({0: acks}))
            await found.groups.wait_acknowledgements_held("g", 1)
            assert (await ask("GET", group))["acknowledgements_waiting"] == 1
            assert (await ask("POST", f"{group}/release-acknowledgements"))["released"] == 1
            assert await acknowledging == [0]
            assert (await ask("POST", f"{group}/wait-acknowledged", {"topic": "t"}))["lag"] == 0
            records = await ask("GET", f"{group}/records")
            assert [(one["accepted"], one["released"]) for one in records["records"]] == [(3, 3)]
            refused = await control.refused("POST", f"{group}/wait-records", {"what": "eaten"})
            assert refused["message"].startswith("what is 'eaten'; one of in_flight, released, archived, dead_letters")
            for verb in ("expire-locks", "deliver-again"):
                body = {"topic": "t", "partition": 0, "offset": 1}
                assert (await control.refused("POST", f"{group}/{verb}", body))["code"] == "conflict"
            body = {"configs": {"share.delivery.count.limit": "many"}}
            assert (await control.refused("POST", f"{group}/configure", body))["code"] == "conflict"
        assert control.asked >= SHARE_OPERATIONS


async def _topics(control: ControlClient) -> None:
    ask = control.ask
    made = await ask("POST", "/v1/topics", {"name": "bills", "partitions": 2, "configs": {"retention.ms": "100000"}})
    assert [one["end_offset"] for one in made["partitions"]] == [0, 0]
    raw = base64.b64encode(b"\xff\x00").decode()
    rows = [
        {"value": "a", "key": "k", "partition": 0, "headers": {"h": "v"}, "timestamp_ms": 1_000},
        {"value_base64": raw, "partition": 0, "timestamp_ms": 2_000},
        {"value": None, "partition": 1},
    ]
    produced = await ask("POST", "/v1/topics/bills/produce", {"records": rows})
    assert produced["records"] == [
        {"partition": 0, "offset": 0},
        {"partition": 0, "offset": 1},
        {"partition": 1, "offset": 0},
    ]
    read = await ask("GET", "/v1/topics/bills/records?partition=0&offset=0&limit=5")
    assert (read["end_offset"], read["records"][0]["value"], read["records"][0]["headers"]) == (2, "a", {"h": "v"})
    assert (read["records"][1]["value"], read["records"][1]["value_base64"]) == (None, raw)
    assert len((await ask("POST", "/v1/topics/bills/grow", {"partitions": 3}))["partitions"]) == 3
    assert len((await ask("GET", "/v1/topics/bills"))["partitions"]) == 3
    await ask("POST", "/v1/topics", {"name": "gone"})
    await ask("DELETE", "/v1/topics/gone")
    names = [one["name"] for one in (await ask("GET", "/v1/topics"))["topics"]]
    assert ("bills" in names, "gone" in names) == (True, False)


async def _groups(control: ControlClient) -> None:
    ask, group = control.ask, "/v1/groups/g%20%2F%201"
    stable = await ask("POST", f"{group}/wait-stable", {"members": 1, "partitions": "bills", "timeout_ms": 10_000})
    assert (stable["group"], stable["state"], len(stable["members"])) == ("g / 1", "Stable", 1)
    assert stable["members"][0]["assignment"] == [{"topic": "bills", "partitions": [0, 1, 2]}]
    assert (await ask("GET", group))["leader"] == stable["members"][0]["member_id"]
    assert [one["group"] for one in (await ask("GET", "/v1/groups"))["groups"]] == ["g / 1"]
    await ask("POST", f"{group}/hold-joins")
    await ask("POST", f"{group}/rebalance")
    assert (await ask("GET", group))["held"]
    await ask("POST", f"{group}/release")
    await ask("POST", f"{group}/wait-stable", {"members": 1})
    member = (await ask("GET", group))["members"][0]["member_id"]
    await ask("POST", f"{group}/expire", {"member_id": member})
    again = await ask("POST", f"{group}/wait-stable", {"members": 1})
    await ask("POST", f"{group}/remove", {"client_id": "c"})
    await ask("POST", f"{group}/wait-stable", {"members": 1})
    assert again["generation"] > stable["generation"]
    history = await ask("GET", f"{group}/history?last=2")
    assert len(history["events"]) == 2
    assert any("was removed" in line or "rebalance" in line for line in history["timeline"])
    failed = await control.refused("POST", f"{group}/wait-stable", {"members": 3, "timeout_ms": 50})
    assert failed["code"] == "timeout"
    assert failed["details"]["waited_for"] == "is stable with 3 members"
    assert failed["details"]["group"]["members"]
    assert failed["details"]["timeline"]


async def _empty_group(control: ControlClient, found: ServerControl) -> None:
    ask, group = control.ask, "/v1/groups/other"
    reset = await ask("POST", f"{group}/reset-offsets", {"topic": "bills", "to": "earliest"})
    assert reset["lag"] == 3
    timed = {"topic": "bills", "partitions": [0], "to": {"timestamp_ms": 1_500}}
    assert (await ask("POST", f"{group}/reset-offsets", timed))["offsets"][0]["offset"] == 1
    await ask("POST", f"{group}/reset-offsets", {"topic": "bills", "partitions": [1], "to": 1})
    assert (await ask("GET", f"{group}/offsets"))["lag"] == 1
    assert (await ask("POST", f"{group}/wait-consumed", {"topic": "bills", "lag": 1}))["lag"] == 1
    await ask("POST", f"{group}/reset-offsets", {"topic": "bills", "to": "latest"})
    assert (await ask("POST", f"{group}/wait-consumed", {"topic": "bills"}))["lag"] == 0
    assert found.groups.describe("other").total_lag == 0


async def _faults(control: ControlClient) -> None:
    ask = control.ask
    rule = await ask(
        "POST",
        "/v1/faults",
        {"match": {"api": "Metadata"}, "then": {"do": "hold"}, "when": {"until_released": True}, "name": "held"},
    )
    assert (await ask("GET", f"/v1/faults/{rule['id']}"))["hits"] == 0
    assert [one["id"] for one in (await ask("GET", "/v1/faults"))["rules"]] == [rule["id"]]
    assert (await ask("POST", f"/v1/faults/{rule['id']}/release"))["spent"]
    await ask("DELETE", f"/v1/faults/{rule['id']}")
    scenario = await ask("POST", "/v1/scenarios/slow-coordinator", {"group": "x", "ms": 1})
    listed = await ask("GET", "/v1/scenarios")
    assert ([one["id"] for one in listed["running"]], len(listed["kinds"])) == ([scenario["id"]], 11)
    assert not (await ask("GET", f"/v1/scenarios/{scenario['id']}"))["done"]
    await ask("DELETE", f"/v1/scenarios/{scenario['id']}")
    await ask("DELETE", "/v1/faults")
    assert (await ask("GET", "/v1/fault-log?after=0")) == {"hits": [], "forgotten": 0}


async def _time(control: ControlClient) -> None:
    ask = control.ask
    assert not (await ask("GET", "/v1/time"))["frozen"]
    before = (await ask("POST", "/v1/time/freeze"))["wall_ms"]
    assert (await ask("POST", "/v1/time/advance", {"ms": 100}))["wall_ms"] == before + 100
    assert (await ask("POST", "/v1/time/run-until", {"condition": "idle"}))["wall_ms"] == before + 100
    empty = {"condition": "stable", "group": "nobody", "limit_ms": 1_000, "settle_ms": 0}
    failed = await control.refused("POST", "/v1/time/run-until", empty)
    assert (failed["code"], failed["message"]) == (
        "timeout",
        "not so after 1000 ms of virtual time: group nobody is stable",
    )
    assert not (await ask("POST", "/v1/time/thaw"))["frozen"]


async def test_wrong_control_requests_are_refused() -> None:
    async with with_control() as (control, _):
        for method, path, body, code, words in (
            ("GET", "/v1/tea", None, "not-found", "there is no /v1/tea"),
            ("PUT", "/v1/faults", None, "method-not-allowed", "/v1/faults takes GET, POST, DELETE, not PUT"),
            ("POST", "/v1/topics", b"{", "bad-request", "the body is no JSON"),
            ("POST", "/v1/topics", [], "bad-request", "the body is to be a JSON object"),
            ("POST", "/v1/topics", {}, "bad-request", "name is missing; a text was expected"),
            ("POST", "/v1/topics", {"name": 1}, "bad-request", "name is 1; a text was expected"),
            ("POST", "/v1/topics", {"name": "a", "size": 1}, "bad-request", "size means nothing here"),
            (
                "POST",
                "/v1/topics",
                {"name": "a", "partitions": 0},
                "bad-request",
                "partitions is 0; a whole number from 1 on",
            ),
            ("POST", "/v1/topics", {"name": "orders"}, "conflict", "already exists"),
            ("GET", "/v1/topics/none", None, "conflict", "there is no topic none"),
            ("GET", "/v1/topics/orders/records?limit=x", None, "bad-request", "limit is 'x'; a whole number"),
            ("POST", "/v1/topics/orders/produce", {"records": [{"value_base64": "?"}]}, "bad-request", "no base64"),
            ("POST", "/v1/groups/g/expire", {}, "bad-request", "exactly one of"),
            ("POST", "/v1/groups/g/expire", {"member_id": "m"}, "conflict", "there is no member 'm'"),
            ("POST", "/v1/groups/g/rebalance", None, "conflict", "there is no group g"),
            ("POST", "/v1/groups/g/reset-offsets", {"topic": "orders", "to": "x"}, "bad-request", "to is 'x'"),
            (
                "POST",
                "/v1/groups/g/reset-offsets",
                {"topic": "orders", "partitions": [9], "to": 0},
                "conflict",
                "orders-9",
            ),
            ("POST", "/v1/faults", {"then": {"do": "x"}}, "bad-request", "do is 'x'"),
            ("GET", "/v1/faults/f9", None, "not-found", "there is no rule f9"),
            ("POST", "/v1/scenarios/x", None, "not-found", "there is no scenario x"),
            ("POST", "/v1/scenarios/zombie", {}, "bad-request", "zombie needs group, member"),
            ("POST", "/v1/scenarios/disk-full", {"x": 1}, "bad-request", "x means nothing to disk-full; nothing does"),
            ("POST", "/v1/scenarios/slow-coordinator", {"ms": "1"}, "bad-request", "ms is '1'; a number"),
            ("GET", "/v1/scenarios/s9", None, "not-found", "no scenario s9 runs"),
            ("POST", "/v1/time/run-until", {"condition": "soon"}, "bad-request", "condition is to be idle"),
            ("POST", "/v1/nodes/9/stop", None, "not-found", "there is no node 9"),
            ("POST", "/v1/nodes/1/resume", None, "conflict", "1"),
            ("POST", "/v1/topics", b"x" * (MAX_BYTES + 1), "too-large", "a body may have"),
        ):
            error = await control.refused(method, path, body)
            assert error["code"] == code, (path, error)
            assert words in error["message"], error
        error = await control.refused("GET", "/v1/time", Origin="http://example.com")
        assert (error["code"], "browser" in error["message"]) == ("unauthorized", True)


async def test_the_control_needs_its_token() -> None:
    async with with_control("secret") as (control, _):
        await control.ask("GET", "/v1/server")
        control.headers = {"Authorization": "Bearer other"}
        assert (await control.refused("GET", "/v1/server"))["code"] == "unauthorized"
        control.headers = {}
        assert (await control.refused("GET", "/v1/server"))["code"] == "unauthorized"


async def test_hostile_bodies_are_refused() -> None:
    async with with_control() as (control, found):
        for body, code, words in (
            (b"[" * 100_000, "bad-request", "nested too deep"),
            (b'{"then": ' + b'{"x":' * 100_000, "bad-request", "nested too deep"),
            (b'{"when": {"times": ' + b"9" * 10_000 + b"}}", "bad-request", "no JSON"),
            (b'{"\xff": 1}', "bad-request", "no JSON"),
            (b'{"then": NaN}', "bad-request", "then is nan; an object"),
            (b'{"match": {"group": "' + b"x" * 500_000 + b'"}}', "bad-request", "then: do is None"),
            (b'{"' + b"x" * 500_000 + b'": 1}', "bad-request", "… is none of match"),
            (b'{"records": [' + b"{}," * 5_000 + b"{}]}", "bad-request", "5001 records; at most 5000"),
        ):
            path = "/v1/topics/orders/produce" if b"records" in body else "/v1/faults"
            # the content type is ignored: the body is read as JSON
            error = await control.refused("POST", path, body, **{"Content-Type": "text/plain"})
            assert (error["code"], words in error["message"]) == (code, True), error
            assert len(error["message"]) < 1_000
        too_many = {"name": "wide", "partitions": 10_001}
        assert "at most 10000" in (await control.refused("POST", "/v1/topics", too_many))["message"]
        await found.topics.produce("orders", [NewRecord(b"x" * 400_000, partition=0) for _ in range(4)])
        for limit, reported in (("3", 2), ("1000000", 2), ("1", 1)):
            read = await control.ask("GET", f"/v1/topics/orders/records?partition=0&limit={limit}")
            assert (len(read["records"]), read["end_offset"]) == (reported, 4)
        error = await control.refused("GET", "/v1/time", Host="a-page-that-leads-here.example:9094")
        assert (error["code"], "browser" in error["message"]) == ("unauthorized", True)
        for host in ("localhost", "127.0.0.1:9094", "[::1]:9094"):
            assert (await control.send("GET", "/v1/time", Host=host))[0] == 200
        for host in (
            "[::1",
            "localhost:x",
            "localhost:99999",
            "::1]",
            "[::g]",
            "[]",
            "localhost:-1",
            "a" * 5_000 + ":x",
        ):
            error = await control.refused("GET", "/v1/time", Host=host)
            assert (error["code"], "the header Host is" in error["message"]) == ("bad-request", True), (host, error)
            assert len(error["message"]) < 1_000
        error = await control.refused("GET", "//[::1/v1/time")
        assert (error["code"], "there is no //[::1/v1/time" in error["message"]) == ("not-found", True), error


async def test_a_wait_ends_when_its_client_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.coordinator.http.door.MAX_CONNECTIONS", 2)
    async with with_control() as (control, found):
        at = control.control.http.host, control.control.http.port
        body = b'{"members": 1, "timeout_ms": 2147483647}'
        head = b"POST /v1/groups/g/wait-stable HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        waiting = [await asyncio.open_connection(*at) for _ in range(2)]
        for _, writer in waiting:
            writer.write(head + body)
        await until(lambda: control.control.http.clients == 2)
        assert (await control.refused("GET", "/v1/time"))["code"] == "busy"
        for _, writer in waiting:
            writer.close()
            await writer.wait_closed()
        await until(lambda: not control.control.http.clients)
        assert (await control.send("GET", "/v1/time"))[0] == 200
        # a client that sends two requests at once gets two answers, in order
        reader, writer = await asyncio.open_connection(*at)
        writer.write(head.replace(b"%d" % len(body), b"17") + b'{"timeout_ms": 9}' + b"GET /v1/time HTTP/1.1\r\n")
        writer.write(b"Host: localhost\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        assert (said.count(b"HTTP/1.1 504"), said.count(b"HTTP/1.1 200")) == (1, 1)
        assert said.index(b"504") < said.index(b'"frozen"')
        writer.close()
        await writer.wait_closed()
        assert found.groups.ids() == []


async def test_a_slow_control_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.coordinator.http.door.PATIENCE_MS", 50)
    async with with_control() as (control, _):
        reader, writer = await asyncio.open_connection(control.control.http.host, control.control.http.port)
        writer.write(b"POST /v1/faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_control_connection_is_reused_and_closed_by_garbage() -> None:
    async with with_control() as (control, _):
        reader, writer = await asyncio.open_connection(control.control.http.host, control.control.http.port)
        writer.write(b"HEAD /v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 405")
        for _ in range(2):
            writer.write(b"GET /v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            assert b'"version"' in await reader.readexactly(length)
        writer.write(b"\x00\x01rubbish\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()


async def test_a_stop_ends_waiting_control_requests() -> None:
    async with with_control() as (control, _):
        waiting = asyncio.ensure_future(
            control.send("POST", "/v1/groups/g/wait-stable", {"members": 1, "timeout_ms": 60_000})
        )
        await until(lambda: bool(control.control.http.clients))
        await control.control.stop()
        with pytest.raises(ConnectionError):
            await waiting
