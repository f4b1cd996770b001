"""The console of a running server: its files, its answers, its events, and its changes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.routing import Route

from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.console.feed import MAX_WAITING, Stream
from muster.coordinator.http.console.routes import static_files
from muster.coordinator.http.door import Door
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server import group_snapshots
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.http.server import ControlRoute
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.support.share_members import ACCEPT, share_member
from tests.testcontrol.server import bootstrap, controlled

HOSTILE = "<img src=x onerror=alert(1)>/é "
NAME = "%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%2F%C3%A9%20"


@asynccontextmanager
async def with_console(token: str | None = None, **given: Any) -> AsyncIterator[tuple[Door, ServerControl]]:
    async with controlled(**given) as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0, token), found.server, ServerMetrics())
        await beside.start()
        try:
            yield beside.door, found
        finally:
            await beside.stop()


async def read(door: Door, path: str) -> Any:
    status, answer = await ask(door, f"/console/{path}")
    assert status == 200, answer
    return answer


async def change(door: Door, group: str, given: Any, **headers: str) -> tuple[int, Any]:
    body = json.dumps(given).encode()
    lines = {"Host": "localhost", "Connection": "close", "Content-Type": "application/json", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    reader, writer = await asyncio.open_connection(door.http.host, door.http.port)
    path = f"/console/groups/{group}/actions"
    writer.write(f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer, _, data = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(answer.split()[1]), json.loads(data)


async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_arrives() -> None:
    async with with_console() as (door, _):
        lines = {"Content-Type": "application/json", "Content-Length": "999999999"}
        status, answer = await ask(door, "/console/groups/g/actions", "POST", **lines)
        assert (status, answer["error"]["code"]) == (413, "too-large")


@asynccontextmanager
async def following(door: Door, query: str = "", **headers: str) -> AsyncIterator[asyncio.StreamReader]:
    """The stream of events, behind its head."""
    reader, writer = await asyncio.open_connection(door.http.host, door.http.port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET /console/events{query} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
    await reader.readuntil(b"retry: 1000\n\n")
    yield reader
    writer.close()


async def news_until(reader: asyncio.StreamReader, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not any(one["kind"] == kind for one in found):
        line = await reader.readuntil(b"\n")
        if line.startswith(b"data: "):
            found += json.loads(line[6:])["events"]
    return found


async def test_files_need_no_token_and_the_answers_do() -> None:
    async with with_console("secret") as (door, _):
        for path in ("/", "/console/static/console.js", "/console/static/console.css"):
            assert (await ask(door, path))[0] == 200
        assert (await ask(door, "/console/static/nothing"))[0] == 404
        for path in ("/console/groups", "/console/events", "/console/about"):
            assert (await ask(door, path))[0] == 401
        assert (await ask(door, "/console/about", Authorization="Bearer secret"))[0] == 200
        assert (await change(door, "g", {"action": "delete_group"}))[0] == 401


def test_a_page_can_run_no_other_script_than_the_files() -> None:
    index = static_files()["index.html"].decode()
    assert "<style" not in index
    assert " style=" not in index
    assert index.count("<script") == index.count('<script type="module" src="/console/static/')
    needed, missing = set[str](), {"console.js"}
    while missing:  # what the first page needs is asked for at once
        needed |= missing
        texts = [static_files()[name].decode() for name in missing]
        missing = {name for text in texts for name in re.findall(r'(?m)^import .* from "\./(.*)";', text)} - needed
    assert needed == set(re.findall(r"/console/static/(\w+\.js)", index))
    assert len(needed) < len([name for name in static_files() if name.endswith(".js")])
    for name, data in static_files().items():
        for word in (b"innerHTML", b"insertAdjacentHTML", b"document.write", b"eval(", b"http://", b"https://"):
            assert word not in data.replace(b"http://www.w3.org/2000/svg", b""), (name, word)


async def test_a_group_of_a_hostile_name_from_its_list_to_its_history() -> None:
    async with with_console() as (door, found), following(door) as stream, following(door, f"?group={NAME}") as own:
        assert (await read(door, "about"))["kind"] == "server"
        async with consuming(bootstrap(found), "orders", group_id=HOSTILE, client_id="c") as consumer:
            await found.groups.wait_stable(HOSTILE, members=1, partitions="orders")
            await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            events = await news_until(stream, "rebalance_completed")
            assert [one["kind"] for one in await news_until(own, "rebalance_completed")] == [
                one["kind"] for one in events
            ]
            stored = [one for part in group_snapshots.events(found.server, HOSTILE) for one in part]
            shown = (await read(door, f"groups/{NAME}/history?from=0&until=99999999999999"))["events"]
            assert [(one["kind"], one["time"]) for one in shown] == [(one["kind"], one["time"]) for one in stored]
            assert {one["id"] for one in events} <= {one["id"] for one in shown}
            group = await read(door, f"groups/{NAME}")
            assert (group["state"], group["member_count"], group["members"][0]["client_id"]) == ("Stable", 1, "c")
            assert group["now"][0] == "The group is Stable: 1 member has 2 partitions."
            offsets = await read(door, f"groups/{NAME}/offsets")
            assert [(one["offset"], one["end"], one["lag"]) for one in offsets["offsets"]] == [(0, 0, 0), (0, 0, 0)]
            names = [one["name"] for one in (await read(door, f"groups/{NAME}/settings"))["settings"]]
            assert "group.initial.rebalance.delay.ms" in names
            at_ms = next(one["time"] for one in stored if one["kind"] == "rebalance_completed")
            assert "joined" in (await read(door, f"groups/{NAME}/why?at={at_ms}"))["sentences"][0]
            # a group with a member cannot lose its offsets, nor be deleted
            reset = {"action": "reset_offsets", "topic": "orders", "to": "latest", "confirm": HOSTILE}
            assert (await change(door, NAME, reset))[0] == 409
            removal = {"action": "remove_member", "member": "nobody", "confirm": HOSTILE}
            assert (await change(door, NAME, removal))[1]["error"]["message"].startswith("UNKNOWN_MEMBER_ID")
        await news_until(stream, "group_emptied")
        assert (await change(door, NAME, reset))[1] == {
            "done": "The offsets of 2 partitions of orders are set to latest."
        }
        assert (await change(door, NAME, {"action": "delete_offsets", "topic": "orders", "confirm": HOSTILE}))[0] == 200
        deleted = await change(door, NAME, {"action": "delete_group", "confirm": HOSTILE})
        assert deleted[0] in (200, 409)  # a group without offsets and members may have ended by itself
        assert (await ask(door, f"/console/groups/{NAME}"))[0] == 404


async def test_changes_are_confirmed_and_from_the_console_itself() -> None:
    async with with_console() as (door, _):
        wrong: tuple[Any, ...] = (
            {"action": "delete_group"},
            {"action": "delete_group", "confirm": "h"},
            {"action": "x"},
            [],
        )
        for given in wrong:
            assert (await change(door, "g", given))[1]["error"]["code"] == "bad-request"
        right = {"action": "delete_group", "confirm": "g"}
        assert (await change(door, "g", right))[1]["error"]["message"].startswith("GROUP_ID_NOT_FOUND")
        assert (await change(door, "g", right, Origin="http://evil.example"))[0] == 401
        assert (await change(door, "g", right, Host="evil.example"))[0] == 401
        form = await change(door, "g", right, **{"Content-Type": "application/x-www-form-urlencoded"})
        assert form[1]["error"]["code"] == "bad-request"
        for change_of in (
            {"action": "reset_offsets", "topic": 1},
            {"action": "reset_offsets", "topic": "orders", "to": -1},
            {"action": "delete_offsets", "topic": "orders", "partitions": ["0"]},
            {"action": "delete_offsets", "topic": "orders", "partitions": [0] * 10_001},
            {"action": "remove_member", "member": None},
        ):
            assert (await change(door, "g", {**change_of, "confirm": "g"}))[1]["error"]["code"] == "bad-request"
        assert (await change(door, "g", {"action": "delete_offsets", "topic": "none", "confirm": "g"}))[0] == 409


async def test_the_page_of_faults_needs_the_control() -> None:
    async with with_console() as (door, found):
        assert not (await read(door, "about"))["control"]
        control = Route("/v1/{rest:path}", ControlRoute(found))
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, ServerMetrics(), [control])
        await beside.start()
        assert (await read(beside.door, "about"))["control"]
        await beside.stop()


async def test_topics_nodes_and_lists_that_are_empty() -> None:
    async with with_console(nodes=2) as (door, _):
        assert [one["topic"] for one in (await read(door, "topics?search=order"))["topics"]] == ["orders"]
        topic = await read(door, "topics/orders")
        assert [one["end"] for one in topic["partitions"]] == [0, 0]
        assert (await ask(door, "/console/topics/none"))[0] == 404
        assert [one["node"] for one in (await read(door, "nodes"))["nodes"]] == [1, 2]
        assert (await read(door, "clients"))["clients"] == []
        assert (await read(door, "transactions"))["open"] == []
        assert (await read(door, "refused"))["events"] == []
        assert (await read(door, "groups?search=none&type=share&state=Empty&only=trouble"))["groups"] == []
        assert (await ask(door, "/console/groups?order=none"))[0] == 400
        assert (await ask(door, "/console/groups?limit=501"))[0] == 400


async def test_a_share_group_has_a_lag_and_members() -> None:
    async with with_console(topics=["t:1"]) as (door, found):
        await found.topics.produce("t", [NewRecord(b"a"), NewRecord(b"b"), NewRecord(b"c")])
        async with share_member(found.server, "g", "w", "t") as member:
            assert await member.fetch() == [(0, 0, 2, 1)]
            await member.acknowledge({0: [(0, 0, ACCEPT)]})
            row = (await read(door, "groups?type=share"))["groups"][0]
            assert (row["group"], row["lag"], row["members"]) == ("g", 2, 1)
            group = await read(door, "groups/g")
            assert group["now"][0] == "The group is Stable: 1 member shares 1 partition."
            assert [one["lag"] for one in (await read(door, "groups/g/offsets"))["offsets"]] == [2]
            names = [one["name"] for one in (await read(door, "groups/g/settings"))["settings"]]
            assert {"share.heartbeat.interval.ms", "errors.deadletterqueue.topic.name"} <= {*names}
            assert all(not name.startswith("consumer.") for name in names)
            reset = {"action": "reset_offsets", "topic": "t", "to": "earliest", "confirm": "g"}
            assert (await change(door, "g", reset))[0] == 409  # it has a member
            await member.leave()
        assert (await change(door, "g", reset))[1] == {"done": "The offsets of 1 partitions of t are set to earliest."}
        assert [one["offset"] for one in (await read(door, "groups/g/offsets"))["offsets"]] == [0]
        delete = {"action": "delete_offsets", "topic": "t", "confirm": "g"}
        assert (await change(door, "g", delete))[1] == {"done": "The offsets of t are deleted."}
        assert (await read(door, "groups/g/offsets"))["offsets"] == []


async def test_a_page_that_reads_too_slowly_loses_its_stream() -> None:
    stream = Stream(None)
    for number in range(MAX_WAITING + 1):
        stream.put(b"%d" % number)
    assert [len(data) > MAX_WAITING async for data in stream.messages()] == [True]
