"""No request and no connection leaves a cycle of objects: the collector need not visit old objects.

`test_memory_comes_back` checks the same for all ends of a connection.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from muster.coordinator.server import Server
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.coordinator.api.authorization_cases import CASES, commit
from tests.support.muster import connected, running

PATIENCE_S = 60


async def ask_everything(server: Server) -> None:
    """Send each existing request, on a connection of its own; then everything that they made is removed."""
    async with connected(server) as client:
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000))
        topic_id = server.topics.by_name["t"].topic_id
        await client.ask(commit(topic_id))
    for case in CASES:
        for version in (None, case.version):  # some can be sent in one of these versions only
            async with connected(server) as client:
                # some of them close the connection
                with suppress(asyncio.IncompleteReadError, OSError, UnrepresentableField):
                    await asyncio.wait_for(client.ask(case.request(topic_id), version), PATIENCE_S)
    async with connected(server) as client:
        await client.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=10_000))
        await client.ask(DeleteGroupsRequest(["g"]))


def name_of(one: Any) -> str:
    kind = type(one)
    if kind.__module__ == "builtins":
        return f"{kind.__qualname__} of {getattr(one, '__module__', None) or getattr(one, '__qualname__', '?')}"
    return f"{kind.__module__}.{kind.__qualname__}"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_no_request_leaves_a_reference_cycle(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> Counter[str]:
        async with running() as server:
            await ask_everything(server)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            for _ in range(2):
                await ask_everything(server)
            gc.collect()
            found = Counter(map(name_of, gc.garbage))
            gc.set_debug(0)
            gc.garbage.clear()
            return found

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            found = runner.run(main())
    finally:
        gc.set_debug(0)
        gc.enable()
    # cycles do stay of the clients here, which use asyncio's streams
    assert not {name: number for name, number in found.items() if "muster.coordinator" in name}, found
