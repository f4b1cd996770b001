"""The control socket of `muster nodes`, in the data directory. A request is one line of JSON, and so is the answer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from muster.coordinator.config.listeners import show
from muster.coordinator.server.nodes.cluster import Cluster
from muster.coordinator.server.nodes.common import WrongNode
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC

log = structlog.get_logger("muster.nodes")

NAME: Final = "control.sock"
MAX_BYTES: Final = 1_000
"""The longest line of `muster nodes`, in bytes."""


def _shortest(path: Path) -> str:
    """The absolute or the relative path, whichever is shorter: the system allows a socket's path some 100 bytes."""
    return min(str(path), os.path.relpath(path), key=len)


class Control:
    """See the module."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._path = directory / NAME
        self._server: asyncio.Server | None = None
        self._asking: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen. If that is impossible, only the program itself can control nodes."""
        try:
            self._path.unlink(missing_ok=True)  # a killed process has left this socket: no other has the directory
            bound = socket.socket(socket.AF_UNIX)
            before = os.umask(0o177)
            try:
                bound.bind(_shortest(self._path))
            finally:
                os.umask(before)
            self._server = await asyncio.start_unix_server(self._asked, sock=bound, limit=MAX_BYTES)
        except OSError as error:
            log.warning("muster nodes cannot be used", path=str(self._path), reason=error.strerror or str(error))

    async def stop(self) -> None:
        """Stop listening, and answer no request."""
        if self._server is None:
            return
        self._server.close()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        self._path.unlink(missing_ok=True)
        self._server = None

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            answer = await self._answer(await reader.readline())
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # the client has disconnected, or its line was too long
        finally:
            self._asking.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            if not isinstance(asked, dict):
                raise ValueError
        except ValueError:
            return {"error": "the request is not JSON"}
        try:
            await self._do(asked)
        except WrongNode as wrong:
            return {"error": str(wrong)}
        except ApiError as refusal:
            return {"error": refusal.message or "the disk refuses the change"}
        except OSError as error:
            return {"error": error.strerror or str(error)}
        return {"nodes": self._rows()}

    async def _do(self, asked: Mapping[str, Any]) -> None:
        what, node_id = asked.get("do"), asked.get("node")
        if what == "list":
            return
        if not isinstance(node_id, int):
            raise WrongNode("the request names no node")
        cluster = self._cluster
        actions: dict[object, Callable[[int], Any]] = {
            "stop": cluster.stop_node, "kill": cluster.kill_node, "pause": cluster.pause_node,
            "resume": cluster.resume_node, "return": cluster.return_node,
        }  # fmt: skip
        if what not in actions:
            raise WrongNode(f"nodes have no action {what}")
        done = actions[what](node_id)
        if done is not None:
            await done

    def _rows(self) -> list[dict[str, Any]]:
        cluster = self._cluster
        led: dict[int, int] = {}
        coordinated: dict[int, int] = {}
        for topic, leaders in cluster.leaders.items():
            for leader in leaders:
                led[leader.broker_id] = led.get(leader.broker_id, 0) + 1
                if topic == GROUP_OFFSETS_TOPIC:
                    coordinated[leader.broker_id] = coordinated.get(leader.broker_id, 0) + 1
        return [
            {
                "node": node_id,
                "state": cluster.states[node_id].value,
                "rack": node.config.rack,
                "addresses": [show(bound.host, bound.port) for bound in node.bound],
                "connections": node.connection_count(),
                "leads": led.get(node_id, 0),
                "coordinates": coordinated.get(node_id, 0),
            }
            for node_id, node in cluster.nodes.items()
        ]
