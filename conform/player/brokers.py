"""A connection to a cluster, in place of a connection to one broker. Each request goes to the leader or coordinator, as
clients do it, and is sent again when that broker changes. `routing` says which broker a request is for.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.player import routing
from muster.conform.player.connection import RUNNER, Connection, Open, codes, unheard
from muster.conform.player.story import Body, Reply, Send

Address = tuple[str, int]

AGAIN_S = 0.02
MAX_TRIES = 500
"""How often another broker is searched, every 20 ms."""
CONNECT_S = 10.0


class BrokersConnection:
    """Works as `Connection` does: requests wait in line on it, and replies come in order."""

    def __init__(self, addresses: Sequence[Address], on_reply: Callable[[Reply], object], opened: Open) -> None:
        self.on_reply, self._opened = on_reply, opened
        self.open: collections.deque[tuple[Send, float, asyncio.Future[Body] | None]] = collections.deque()
        self._addresses = list(addresses)
        self._links: dict[Address, Connection] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._leaders: dict[routing.Place, Address] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._sessions: dict[tuple[str, str], Address] = {}
        self._news = asyncio.Event()
        self.trouble, self.last = "", b""
        self.task = asyncio.create_task(self._work())

    def send(self, send: Send, future: asyncio.Future[Body] | None = None) -> None:
        """Raises ValueError for what cannot be encoded."""
        codec.encode_request(send.api, send.version, 0, send.client_id, send.body)
        self.open.append((send, time.monotonic(), future))
        self._news.set()

    async def ask(self, api: str, version: int, body: Body) -> Body:
        """Ask on behalf of the runner: the answer."""
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self.send(Send(RUNNER, api, version, RUNNER, body, None), future)
        async with asyncio.timeout(20):
            return await future

    async def close(self) -> None:
        """Close the connections to all brokers."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        for link in self._links.values():
            await link.close()

    async def _work(self) -> None:
        while True:
            while not self.open:
                self._news.clear()
                await self._news.wait()
            send, sent, future = self.open[0]
            try:
                body = await self._answer(send, send.body)
            except Exception as error:
                self.open.popleft()
                if future is None:
                    raise
                future.set_exception(error)
                continue
            self.open.popleft()
            if future is None:
                took_ms = (time.monotonic() - sent) * 1000
                self.on_reply(Reply(send.actor, send.api, send.version, send.body, body, took_ms))
            elif not future.done():
                future.set_result(body)

    # ---- one request

    async def _answer(self, send: Send, body: Body) -> Body:
        """Answer from all brokers that are concerned; each part is repeated alone, so that no other part is done
        twice.
        """
        for _ in range(MAX_TRIES):
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                parts = await self._parts(send.api, body)
                if len(parts) > 1 and not _is_for_all(send.api):
                    reported = [await self._answer(send, part) for _, part in parts]
                    return routing.joined(send.api, body, reported, self._names)
                answers = [await self._of(address, send, part) for address, part in parts]
                if not _is_to_be_asked_again(send.api, body, answers):
                    return routing.joined(send.api, body, answers, self._names)
            self._coordinators.clear()
            self._leaders.clear()
            await asyncio.sleep(AGAIN_S)
        raise ConnectionError(f"nobody answers {send.api}")

    async def _parts(self, api: str, body: Body) -> list[tuple[Address, Body]]:
        """The parts of the request, by the broker that gets each."""
        if _is_for_all(api):
            return [(address, body) for address in await self._living()]
        names = routing.coordinated(api, body)
        if names:
            found = {name: await self._coordinator(*name) for name in names}
            there = dict.fromkeys(found.values())
            if len(there) == 1:
                return [(address, body) for address in there]
            kind = names[0][0]
            return [
                (address, routing.only_names(api, body, lambda name, at=address: found[kind, name] == at))  # type: ignore[misc]  # bound now
                for address in there
            ]
        session = None
        if api in routing.OF_SESSIONS:
            session = body["GroupId"], body["MemberId"]
        await self._learn_names(routing.topic_ids(api, body))
        places = routing.places(api, body, self._names)
        if not places and session is not None and session in self._sessions:
            return [(self._sessions[session], body)]
        if places:
            leaders = await self._led_by(places)
            there = dict.fromkeys(leaders.values())
            if session is not None:
                self._sessions[session] = next(iter(there))
            if len(there) == 1:
                return [(address, body) for address in there]
            return [
                (
                    address,
                    routing.only_places(api, body, self._names, lambda place, at=address: leaders[place] == at),  # type: ignore[misc]  # bound now
                )
                for address in there
            ]
        return [((await self._living())[0], body)]

    async def _of(self, address: Address, send: Send, body: Body) -> Body:
        link = await self._link(address)
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        link.send(Send(send.actor, send.api, send.version, send.client_id, body, None), future)
        return await self._first(link, future)

    async def _first(self, link: Connection, future: asyncio.Future[Body]) -> Body:
        """The answer; ConnectionError when the broker closes the connection instead."""
        both: list[asyncio.Future[Any]] = [future, link.task]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise ConnectionError("hung up")
        return future.result()

    # ---- which broker

    async def _link(self, address: Address) -> Connection:
        link = self._links.get(address)
        if link is None or link.task.done():
            async with asyncio.timeout(CONNECT_S):
                link = self._links[address] = await Connection.to(*address, opened=self._opened)
        return link

    async def _living(self) -> list[Address]:
        found = []
        for address in self._addresses:
            with contextlib.suppress(OSError):
                await self._link(address)
                found.append(address)
        if not found:
            raise ConnectionError("no broker is there")
        return found

    async def _asked(self, api: str, version: int, body: Body) -> Body:
        """The answer of any broker."""
        address = (await self._living())[0]
        return await self._of(address, Send(RUNNER, api, version, RUNNER, body, None), body)

    async def _coordinator(self, kind: int, name: str) -> Address:
        known = self._coordinators.get((kind, name))
        if known is None:
            found = await self._asked("FindCoordinator", 6, {"KeyType": kind, "CoordinatorKeys": [name]})
            row = found["Coordinators"][0]
            if row["ErrorCode"] in routing.NOT_HERE:
                raise ConnectionError("no coordinator yet")
            if row["ErrorCode"]:  # the name is invalid: any broker says so
                return (await self._living())[0]
            known = self._coordinators[kind, name] = (row["Host"], row["Port"])
        return known

    async def _learn_names(self, ids: Sequence[uuid.UUID]) -> None:
        """Ask for the names of topics that a request names by id."""
        topics = [{"TopicId": one, "Name": None} for one in ids if one not in self._names]
        if topics:
            found = await self._asked("Metadata", 12, {"Topics": topics, "AllowAutoTopicCreation": False})
            self._names.update({topic["TopicId"]: topic["Name"] for topic in found["Topics"] if topic["Name"]})

    async def _led_by(self, places: Sequence[routing.Place]) -> dict[routing.Place, Address]:
        if not all(place in self._leaders for place in places):
            topics = [{"TopicId": uuid.UUID(int=0), "Name": name} for name in dict.fromkeys(one for one, _ in places)]
            found = await self._asked("Metadata", 12, {"Topics": topics, "AllowAutoTopicCreation": False})
            where = {row["NodeId"]: (row["Host"], row["Port"]) for row in found["Brokers"]}
            for topic in found["Topics"]:
                self._names[topic["TopicId"]] = topic["Name"]
                for row in topic["Partitions"]:
                    if row["LeaderId"] in where:
                        self._leaders[topic["Name"], row["PartitionIndex"]] = where[row["LeaderId"]]
        # a partition that does not exist has no leader: it goes with the others, or to any broker
        others = [self._leaders[place] for place in places if place in self._leaders]
        anybody = others[0] if others else (await self._living())[0]
        return {place: self._leaders.get(place, anybody) for place in places}


AnyConnection = Connection | BrokersConnection


def _is_for_all(api: str) -> bool:
    return api in routing.OF_ALL or api in routing.SEEN_BY_ALL


def _is_to_be_asked_again(api: str, body: Body, answers: Sequence[Body]) -> bool:
    if api in routing.SEEN_BY_ALL:
        reported = [
            sorted((topic["Name"] or "", topic["ErrorCode"], len(topic["Partitions"])) for topic in one["Topics"])
            for one in answers
        ]
        return any(one != reported[0] for one in reported)
    if routing.coordinated(api, body) or api in routing.OF_LEADERS or api in routing.OF_ALL:
        return any(not routing.NOT_HERE.isdisjoint(codes(one)) for one in answers)
    return False


async def connect(
    host: str, port: int, on_reply: Callable[[Reply], object] = unheard, opened: Open = asyncio.open_connection
) -> AnyConnection:
    """Connect to a broker, or to all brokers of `A:1,B:2`. This text is in the place of a host, with the port 0."""
    if "," not in host:
        return await Connection.to(host, port, on_reply, opened)
    pairs = [one.rsplit(":", 1) for one in host.split(",")]
    return BrokersConnection([(name, int(number)) for name, number in pairs], on_reply, opened)
