"""The probes on a running Muster, and on one whose answers are changed on their way."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Awaitable, Callable

import pytest

from muster.conform.probes import asking, frames, run_probes, running, scene
from muster.conform.probes.catalogue import Probe
from muster.conform.probes.link import Dial, plain
from muster.conform.probes.place import Place
from muster.conform.results import Outcome, Severity, Span, State
from tests.conform.changing_proxy import Change, body_of, changing
from tests.support import muster


def dial_to(port: int) -> Dial:
    async def dial() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await plain("127.0.0.1", port)

    return dial


async def test_muster_answers_all_probes_and_nothing_is_left() -> None:
    async with muster.running() as server:
        dial = dial_to(server.bound[0].port)
        versions = await asking.advertised(dial)
        outcomes, left = await run_probes(dial, versions, may_alter=True)
        assert left == []
        assert [one for one in outcomes if one.state in (State.FAILED, State.FLAKY)] == []
        assert sum(one.state is State.PASSED for one in outcomes) >= 650
        asker = asking.Asker(dial, versions)
        link = await asker.open()
        assert (await asker.ask(link, "ListGroups", {}))["Groups"] == []
        named = [one["Name"] for one in (await asker.ask(link, "Metadata", {"Topics": None}))["Topics"]]
        await link.close()
        assert not [name for name in named if not name.startswith("__")]


async def played(probe: Probe, change: Change) -> Outcome:
    """What comes of a probe when the answers are changed."""
    async with muster.running() as server, changing(("127.0.0.1", server.bound[0].port), change) as proxy:
        asker = asking.Asker(dial_to(proxy.port), await asking.advertised(dial_to(server.bound[0].port)))
        place, why = await scene.prepare(asker)
        assert not why
        (outcome,) = await running.Runner(asker, place).run([probe])
        return outcome


async def test_a_byte_too_many_is_marked() -> None:
    def change(api: str, _: int, __: dict[str, object], frame: bytes) -> bytes | None:
        return frame + b"\0" if api == "ListGroups" else None

    outcome = await played(Probe("ListGroups", 4, "rich"), change)
    assert (outcome.state, outcome.severity, outcome.tries) == (State.FAILED, Severity.CLIENTS_BREAK, 2)
    assert outcome.wrong == Span(len(outcome.answer) - 1, len(outcome.answer), "behind the last field")
    assert outcome.kip == "ListGroupsResponse.json"
    assert outcome.request == "ListGroups v4"


async def test_an_error_that_kafka_does_not_have() -> None:
    def change(api: str, version: int, _: dict[str, object], frame: bytes) -> dict[str, object] | None:
        return {**body_of(api, version, frame), "ErrorCode": 7777} if api == "ListGroups" else None

    outcome = await played(Probe("ListGroups", 4, "rich"), change)
    assert (outcome.diff, outcome.severity) == ("Kafka has no error 7777", Severity.DIFFERS)
    assert outcome.wrong is not None
    assert outcome.answer[outcome.wrong.start : outcome.wrong.end] == struct.pack(">h", 7777)


async def test_what_differs_only_once_is_flaky() -> None:
    seen = []

    def change(api: str, _: int, __: dict[str, object], frame: bytes) -> bytes | None:
        seen.append(api)
        return frame[:-1] if api == "ListGroups" and seen.count(api) == 1 else None

    outcome = await played(Probe("ListGroups", 4, "rich"), change)
    assert outcome.state is State.FLAKY
    assert outcome.why.startswith("it differed at first")


async def test_on_a_cluster_groups_and_transactions_are_those_of_the_broker_that_is_asked() -> None:
    async with muster.running({"muster.nodes": "3"}) as server:
        asker = asking.Asker(dial_to(server.bound[1].port), await asking.advertised(dial_to(server.bound[1].port)))
        place, why = await scene.prepare(asker)
        assert (why, place.node_id) == ("", 2)
        rows = [("JoinGroup", 9), ("EndTxn", 5), ("Fetch", 12), ("Produce", 9), ("ConsumerGroupDescribe", 1)]
        outcomes = await running.Runner(asker, place).run([Probe(api, version, "rich") for api, version in rows])
        assert [one.state for one in outcomes] == [State.PASSED] * 5
        assert await scene.clean(asker, place) == []


async def test_a_target_that_dies_is_said_and_the_rest_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "OPEN_TRIES", 1)
    async with muster.running() as server:
        asker = asking.Asker(dial_to(server.bound[0].port), await asking.advertised(dial_to(server.bound[0].port)))
        place, _ = await scene.prepare(asker)
    runner = running.Runner(asker, place)
    outcomes = await runner.run([Probe("ListGroups", 4, "rich"), frames.PROBES[0], Probe("ListGroups", 4, "tags")])
    assert {one.state for one in outcomes} == {State.SKIPPED}
    assert all(one.why.startswith("the target accepts no connection any more: ") for one in outcomes)
    assert (await scene.prepare(asker))[1].startswith("the target accepts no connection")
    assert (await scene.clean(asker, place))[0].startswith(f"names that begin with {place.prefix}: the target")


async def test_the_probe_that_ends_the_target_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "OPEN_TRIES", 1)
    server: list[asyncio.Server] = []

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        server[0].close()
        writer.close()

    server.append(await asyncio.start_server(die, "127.0.0.1", 0))
    asker = asking.Asker(dial_to(server[0].sockets[0].getsockname()[1]), {16: (0, 4)})
    place = Place("p", "t", uuid.UUID(int=0))
    monkeypatch.setattr(running, "AT_ONCE", 1)
    killer, other = await running.Runner(asker, place).run(
        [Probe("ListGroups", 4, "rich"), Probe("ListGroups", 3, "rich")]
    )
    assert (killer.state, other.state) == (State.FAILED, State.SKIPPED)
    assert "was not answered: the connection was closed; then the target accepts no connection any more" in killer.diff


async def answer_wrongly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that answers every request with its correlation id plus one, and closes nothing."""
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            body = struct.pack(">ihi", struct.unpack_from(">i", request, 4)[0] + 1, 0, 0)
            writer.write(struct.pack(">i", len(body)) + body)
    except (asyncio.IncompleteReadError, ConnectionError, struct.error, ValueError):
        writer.close()


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that reads everything and says nothing."""
    while await reader.read(1_000):
        pass
    writer.close()


@pytest.mark.parametrize(
    ("serve", "name", "text"),
    [
        (answer_wrongly, "correlation-ids", "the correlation id is 1, but the request had 0"),
        (answer_wrongly, "unknown-api", "an unknown API is asked for, and the connection stays open: Kafka closes it"),
        (stay_silent, "oversized", "a request of 2 GiB begins, and the connection stays open: Kafka closes it"),
    ],
)
async def test_frames_that_are_answered_wrongly(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    name: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "CLOSES_S", 0.05)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        asker = asking.Asker(dial_to(server.sockets[0].getsockname()[1]), {18: (0, 3)})
        place, why = await scene.prepare(asker)
        assert why == "the target has no Metadata"
        (probe,) = [one for one in frames.PROBES if one.name == name]
        (outcome,) = await running.Runner(asker, place).run([probe])
    finally:
        server.close()
    assert (outcome.state, outcome.diff) == (State.FAILED, text)
