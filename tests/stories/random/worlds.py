"""What a history is played on: a server over TCP in real time, or a core in virtual time in place of a server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from muster.conform.player import tcp
from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.connection import RUNNER
from muster.conform.player.story import Body, Reply, Send, Story
from tests.stories.random.mirror import Mirror
from tests.stories.random.ways import OwnWays

Described = tuple[str, int, Body]
"""A request that changes nothing: API, version, body."""


class Clock(Protocol):
    """The time of one history."""

    def now_ms(self) -> int:
        """Milliseconds since the history began."""
        ...

    async def sleep(self, ms: float) -> None:
        """Let time pass."""
        ...


class World(Protocol):
    """One server, as one history sees it."""

    name: str

    async def transmit(self, send: Send) -> None:
        """Send a request; its reply comes later."""
        ...

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done()`, at most for `seconds`; whether it is done."""
        ...

    def taken(self) -> list[Reply]:
        """The replies since the last call."""
        ...

    def arrived(self) -> list[Reply]:
        """The replies so far, which stay for `taken`."""
        ...

    async def drop(self, actor: str) -> None:
        """The actor's process dies."""
        ...

    async def handled(self, group_id: str) -> None:
        """Wait until all earlier requests are handled, as far as possible now."""
        ...

    async def described(self, requests: Sequence[Described]) -> list[Body] | None:
        """The answers to these requests, which change nothing; None: this server is not asked."""
        ...

    async def close(self) -> None:
        """The history is over."""
        ...


class RealClock:
    """The machine's time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def now_ms(self) -> int:
        return int((time.monotonic() - self._began_s) * 1000)

    async def sleep(self, ms: float) -> None:
        await asyncio.sleep(ms / 1000)


class ServerWorld(tcp.Driver):
    """A server over TCP. Each actor has one connection more than it has parked requests."""

    def __init__(self, name: str, host: str, port: int) -> None:
        super().__init__(host, port)
        self.name = name
        self._tries: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def on_reply(self, reply: Reply) -> None:
        """No actor gets a reply about a transaction that says "not yet". It gets the reply of an end when the markers
        are written.
        """
        if tcp.transient(reply) and self._tries[id(reply.request)] < tcp.MAX_TRIES:
            self._tries[id(reply.request)] += 1
            self._begin(self._ask_again(reply))
        elif reply.api == "EndTxn" and not reply.body["ErrorCode"]:
            self._begin(self._when_at_rest(reply))
        else:
            super().on_reply(reply)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_again(self, reply: Reply) -> None:
        await asyncio.sleep(tcp.AGAIN_S)
        await self.transmit(Send(reply.actor, reply.api, reply.version, reply.actor, reply.request, None))

    async def _when_at_rest(self, reply: Reply) -> None:
        runner = await connect(self.host, self.port)
        await self.at_rest(runner, reply.request["TransactionalId"])
        await runner.close()
        super().on_reply(reply)

    async def transmit(self, send: Send) -> None:
        free = next((one for one in self.connections[send.actor] if not one.open), None)
        if free is None:
            free = await connect(self.host, self.port, self.on_reply)
            self.connections[send.actor].append(free)
        free.send(send)

    def arrived(self) -> list[Reply]:
        return self.replies

    async def drop(self, actor: str) -> None:
        for connection in self.connections.pop(actor, []):
            await connection.close()

    async def handled(self, group_id: str) -> None:
        """A shard answers requests in their order. When it has answered two later requests, earlier ones are done, or
        wait for something else.
        """
        runner = await self._runner()
        for _ in range(2):
            await runner.ask("Heartbeat", 3, {"GroupId": group_id, "GenerationId": 1, "MemberId": "nobody"})

    async def described(self, requests: Sequence[Described]) -> list[Body] | None:
        runner = await self._runner()
        return [await runner.ask(*request) for request in requests]

    async def _runner(self) -> AnyConnection:
        if not self.connections[RUNNER]:
            self.connections[RUNNER].append(await connect(self.host, self.port))
        return self.connections[RUNNER][0]


class VirtualClock:
    """Time that passes only when a test moves it; `worlds` advance with it."""

    def __init__(self) -> None:
        self._now_ms = 0
        self.worlds: list[CoreWorld] = []

    def now_ms(self) -> int:
        return self._now_ms

    async def sleep(self, ms: float) -> None:
        self._now_ms += int(ms)
        for world in self.worlds:
            world.core.live_until(self._now_ms)


class CoreWorld:
    """A core in place of a server. `ways`: how it behaves, which may be deliberately wrong."""

    def __init__(self, name: str, story: Story, ways: OwnWays, clock: VirtualClock) -> None:
        self.name, self._clock = name, clock
        self.core = Mirror(story, ways)
        clock.worlds.append(self)

    async def transmit(self, send: Send) -> None:
        self.core.ask(send)
        self.core.live_until(self._clock.now_ms())

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        return done()

    def taken(self) -> list[Reply]:
        return self.core.taken()

    def arrived(self) -> list[Reply]:
        return self.core.replies

    async def drop(self, actor: str) -> None:
        self.core.drop(actor)

    async def handled(self, group_id: str) -> None:
        """A request is handled as soon as it is sent."""

    async def described(self, requests: Sequence[Described]) -> list[Body] | None:
        return None

    async def close(self) -> None:
        self._clock.worlds.remove(self)
