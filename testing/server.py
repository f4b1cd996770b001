"""`Muster` is a server for tests. It runs in a thread of this process with an event loop of its own, or as a
process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from muster.coordinator.config.listeners import show
from muster.testcontrol import checks
from muster.testcontrol.errors import WrongValue
from muster.testing.group_handles import AsyncGroup, Group
from muster.testing.handles import AsyncNode, AsyncTopic, Node, Topic
from muster.testing.loop_bridge import LoopBridge, raise_failure
from muster.testing.server_lines import ServerLines
from muster.testing.settings import Given, TopicsGiven, Value, merged
from muster.testing.verbs import OnThisLoop, Runner, Verbs

if TYPE_CHECKING:
    from muster.testing.faults import AsyncFaults, Faults
    from muster.testing.scenarios import Scenario
    from muster.testing.time import AsyncTime, Time


T = TypeVar("T")

MAX_PORT: Final = 65_535


class Muster:
    """A server under test.

    `with Muster() as muster` starts and stops the server. `async with Muster() as muster` is for asynchronous tests,
    where each verb is awaited. Or call `start` and `stop`. The server listens on a free port of 127.0.0.1, and keeps
    this port over `restart`.

    Data in memory stays as long as this object, so `restart` keeps it. The data in the memory of a server with
    `process` ends with that process.
    """

    def __init__(
        self,
        properties: Mapping[str, Value] | None = None,
        *,
        topics: TopicsGiven = (),
        directory: Path | str | None = None,
        nodes: int = 1,
        seed: int | None = None,
        process: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        runner: Runner | None = None,
        **keywords: Value,
    ) -> None:
        """`properties`: by Kafka's names; or as `keywords`: `group_max_size=3` is group.max.size. Both override
        `settings.DEFAULTS`, which make groups of tests stable fast. `topics`: {"orders": 6}. `directory`: for the data;
        None: in memory. `nodes`: the number of brokers. `seed`: makes random ids the same in each run (not with
        `process`). `process`: the server is a process of its own, which a test can really kill. `port` 0: a free port.
        `runner`: runs a server in another way.

        Raises ConfigError for an unknown property or a wrong value of a property, and WrongValue for a wrong argument.
        """
        checks.whole("nodes", nodes, least=1)
        checks.whole_or_none("seed", seed)
        checks.whole("port", port, most=MAX_PORT)
        checks.text("host", host)
        if directory is not None and not isinstance(directory, str | Path):
            raise WrongValue(checks.sentence("directory", directory, "a path"))
        given = self._given = Given(merged(properties, keywords), topics, nodes, show(host, port))
        self._seed = seed
        self._can_be_played = directory is None and not process and runner is None
        if runner is None:
            runner = _runner(given, None if directory is None else Path(directory), seed, process)
        self._runner = runner

    # ---- start and stop

    def start(self) -> Self:
        """Start the server. Returns when clients can connect. Raises CannotBeDone when it runs already, and OSError
        when a port or a directory cannot be used.
        """
        self._runner.start()
        return self

    def stop(self) -> None:
        """Stop the server in order: members are informed, and logs are flushed. Has no effect when it does not run."""
        self._runner.stop()

    def kill(self) -> None:
        """End the server as `kill -9` does: connections are cut, and nothing more is written. `start` starts it again
        with the data that is left. Raises CannotBeDone when it does not run.
        """
        self._runner.kill()

    def restart(self) -> None:
        """Stop the server in order, and start it again on the same ports with the same data."""
        self.stop()
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._runner.is_running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        try:
            self.raise_failure(error)
        finally:
            self.stop()

    def raise_failure(self, error: BaseException | None = None) -> None:
        """Raise the exception that a function or a predicate of a rule has raised, if any. Each exception is raised
        once: at the end of the rule's block, of the server's block, or of the test. `error`: the test's own failure; a
        note is added to it.
        """
        raise_failure(self._runner.take_failure(), error)

    async def __aenter__(self) -> AsyncMuster:
        return await self.aio.start()

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            self.raise_failure(error)
        finally:
            await self.aio.stop()

    def play(self, story: Callable[[AsyncMuster], Awaitable[T]], *, limit_s: float = 3_600.0) -> T:
        """Play a story with a new server of the same settings; this server need not run. `story(muster)` is awaited on
        an event loop that the new server uses, too. On this loop, time passes only when nothing is left to do, and then
        immediately: a minute takes some ms. If all clients run on this loop (aiokafka), runs with the same `seed` are
        the same. Returns the story's result.

        Raises what the story raises, and TimeIsUp, an AssertionError, after `limit_s` of virtual time. Raises
        WrongValue for a server with a directory or a process of its own.
        """
        # most tests have no play, and do not need this import
        from muster.testing.play.playing import play

        if not self._can_be_played:
            raise WrongValue("a play has its server in memory and on its own loop: no directory, process or runner")
        checks.function("story", story)
        seed = 0 if self._seed is None else self._seed
        return play(
            self._given, seed, story, lambda runner: Muster(runner=runner).aio, checks.seconds("limit_s", limit_s)
        )

    # ---- verbs

    @property
    def runner(self) -> Runner:
        """The runner of the server."""
        return self._runner

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for Kafka clients: host:port of each node, with commas; of the first listener."""
        return self._runner.bootstrap_servers

    @property
    def lines(self) -> ServerLines:
        """The log lines of the server."""
        return self._runner.lines

    @property
    def bridge(self) -> LoopBridge:
        """The loop bridge to the event loop on which the server's verbs run."""
        return self._runner.bridge

    @property
    def aio(self) -> AsyncMuster:
        """The same server for asynchronous tests."""
        return AsyncMuster(self)

    def verbs(self) -> Verbs:
        """All verbs of the server. Only the event loop behind `bridge` may call them. Raises CannotBeDone when it does
        not run.
        """
        return self._runner.verbs()

    def topic(self, name: str) -> Topic:
        """A topic by its name, whether it exists or not."""
        return Topic(self.bridge, self.verbs, name)

    def group(self, group_id: str) -> Group:
        """A group by its id, whether it exists or not."""
        return Group(self.bridge, self.verbs, group_id)

    @property
    def faults(self) -> Faults:
        """Rules of faults: `muster.testing.faults`."""
        # most tests have no faults, time or scenarios, and do not need these imports
        from muster.testing.faults import Faults

        return Faults(self.bridge, self.verbs)

    @property
    def time(self) -> Time:
        """The server's time, to be frozen and moved."""
        from muster.testing.time import Time

        return Time(self.bridge, self.verbs)

    def scenario(self, name: str, **parameters: Any) -> Scenario:
        """Start a scenario, a failure of real clusters, by its name (docs/testcontrol.md): `with
        muster.scenario("zombie", group="billing", member="app-1")`. Raises NoSuchFault, CannotBeDone, and WrongFault
        for a wrong parameter.
        """
        from muster.testing import scenarios

        return scenarios.start(self.bridge, self.verbs, name, parameters)

    @property
    def groups(self) -> list[str]:
        """The ids of all groups."""
        found: list[str] = self.bridge.call(lambda: self.verbs().groups.ids())
        return found

    @property
    def topics(self) -> list[str]:
        """The names of all topics except Kafka's internal topics, ascending."""
        found: list[str] = self.bridge.call(lambda: self.verbs().topics.names())
        return [name for name in found if not name.startswith("__")]

    def tidy(self) -> None:
        """Release held joins, paused nodes and faults, and let time run, for the next test on this server."""
        self.bridge.call(lambda: self.verbs().tidy())

    @property
    def nodes(self) -> list[Node]:
        """The brokers, in the order of their ids."""
        ids: list[int] = self.bridge.call(lambda: self.verbs().nodes.ids())
        return [Node(self.bridge, self.verbs, node_id) for node_id in ids]

    def coordinator(self, group_id: str) -> Node:
        """The node that coordinates a group."""
        checks.text("the id of a group", group_id)
        found: int = self.bridge.call(lambda: self.verbs().nodes.coordinator_of(group_id))
        return Node(self.bridge, self.verbs, found)


class AsyncMuster:
    """A server under test, for asynchronous tests: the result of `async with Muster()`, and of `Muster.aio`. The server
    starts and ends in a thread, so that the event loop of the test continues.
    """

    def __init__(self, muster: Muster) -> None:
        self.sync = muster

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for Kafka clients: host:port of each node, with commas."""
        return self.sync.bootstrap_servers

    def topic(self, name: str) -> AsyncTopic:
        """A topic by its name, whether it exists or not."""
        return AsyncTopic(self.sync.bridge, self.sync.verbs, name)

    def group(self, group_id: str) -> AsyncGroup:
        """A group by its id, whether it exists or not."""
        return AsyncGroup(self.sync.bridge, self.sync.verbs, group_id)

    @property
    def nodes(self) -> list[AsyncNode]:
        """The brokers, in the order of their ids."""
        return [AsyncNode(self.sync.bridge, self.sync.verbs, node.id) for node in self.sync.nodes]

    @property
    def faults(self) -> AsyncFaults:
        """Rules of faults: `muster.testing.faults`."""
        return self.sync.faults.aio

    @property
    def time(self) -> AsyncTime:
        """The server's time, to be frozen and moved."""
        return self.sync.time.aio

    async def scenario(self, name: str, **parameters: Any) -> Scenario:
        """See `Muster.scenario`: `async with await muster.scenario(…)`."""
        from muster.testing import scenarios

        return await scenarios.start_aio(self.sync.bridge, self.sync.verbs, name, parameters)

    async def groups(self) -> list[str]:
        """The ids of all groups."""
        found: list[str] = await self.sync.bridge.awaited(lambda: self.sync.verbs().groups.ids())
        return found

    async def coordinator(self, group_id: str) -> AsyncNode:
        """The node that coordinates a group."""
        checks.text("the id of a group", group_id)
        found: int = await self.sync.bridge.awaited(lambda: self.sync.verbs().nodes.coordinator_of(group_id))
        return AsyncNode(self.sync.bridge, self.sync.verbs, found)

    async def start(self) -> AsyncMuster:
        """Start the server."""
        await self._change("start")
        return self

    async def stop(self) -> None:
        """Stop the server in order."""
        await self._change("stop")

    async def restart(self) -> None:
        """Stop the server in order, and start it again on the same ports with the same data."""
        await self.stop()
        await self.start()

    async def kill(self) -> None:
        """End the server as `kill -9` does. `start` starts it again with the data that is left."""
        await self._change("kill")

    async def _change(self, how: str) -> None:
        runner = self.sync.runner
        if isinstance(runner, OnThisLoop):
            await runner.change(how)
        else:
            await _in_thread(getattr(self.sync, how))


async def _in_thread(work: Callable[[], object]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # only a program with another event loop than asyncio's has this package
        import anyio.to_thread

        await anyio.to_thread.run_sync(work)
    else:
        await asyncio.to_thread(work)


def _runner(given: Given, directory: Path | None, seed: int | None, process: bool) -> Runner:
    if process:
        # most tests have their server in a thread, and do not need this import
        from muster.testing.in_process import InProcess

        if seed is not None:
            raise WrongValue("a server in a process of its own draws its ids itself: it takes no seed")
        return InProcess(given, directory)
    from muster.testing.in_thread import InThread

    return InThread(given, directory, seed)
