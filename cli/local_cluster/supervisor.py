"""Starts the database and the nodes of a local cluster, watches them, and stops the nodes and then the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from muster.cli.local_cluster.embedded_postgres import EmbeddedPostgres
from muster.cli.local_cluster.processes import Failed, NodeProcess, ended
from muster.coordinator.system.clock import pause_s


class Supervisor:
    """One run of a local cluster."""

    def __init__(
        self,
        database: EmbeddedPostgres,
        make_tables: Callable[[str], Awaitable[object]],
        make_nodes: Callable[[str], Sequence[NodeProcess]],
        report: Callable[[str], None],
        restart_after_s: float | None = None,
    ) -> None:
        """`make_tables` and `make_nodes` get the database's URL. `report` gets a sentence about a node that ended.

        `restart_after_s`: when such a node starts again; None: never.
        """
        self._database = database
        self._make_tables = make_tables
        self._make_nodes = make_nodes
        self._report = report
        self._restart_after_s = restart_after_s
        self.nodes: Sequence[NodeProcess] = ()
        self.url = ""

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until this is cancelled, or all nodes or the database have ended. `ready`: all nodes serve.

        Everything has stopped when it returns. Raises `Failed`.
        """
        try:
            self.url = url = await self._database.start()
            database = asyncio.create_task(self._database.wait())
            try:
                await self._while_up(database, self._make_tables(url))
                self.nodes = self._make_nodes(url)
                await self._while_up(database, _all(node.start() for node in self.nodes))
                ready()
                await self._while_up(database, _all(self._look_after(node) for node in self.nodes))
            finally:
                database.cancel()
            raise Failed("no node is left")
        finally:
            await asyncio.gather(*(node.stop() for node in self.nodes))
            await self._database.stop()

    def hurry(self) -> None:
        """Stop everything by force; `run` returns soon."""
        for node in self.nodes:
            node.kill()
        self._database.kill()

    async def _while_up(self, database: asyncio.Task[str], work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, database}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                for node in self.nodes:
                    node.kill()  # without its database a node has nothing to hand over, and would wait for it
                words = self._database.last_words()
                raise Failed(f"the database {database.result()}" + (f": {words}" if words else ""))
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look_after(self, node: NodeProcess) -> None:
        while True:
            status = await node.wait()
            what = f"node {node.node_id} ({node.address}) {'has stopped' if status == 0 else ended(status)}"
            why = node.last_words() if status > 0 else ""
            if self._restart_after_s is None:
                others = any(one.is_running for one in self.nodes)
                self._report(
                    f"{what}{why}" + ("; other nodes lead what it led once its lease is over" if others else "")
                )
                return
            self._report(f"{what}{why}; it starts again in {self._restart_after_s:g} s")
            await pause_s(self._restart_after_s)
            try:
                await node.start()
            except Failed as error:
                self._report(f"{error}; it is not started again")
                return
            self._report(f"node {node.node_id} is ready at {node.address} again, process {node.pid}")


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """Do all of this at the same time; the first failure cancels the rest."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
