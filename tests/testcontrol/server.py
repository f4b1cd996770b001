"""A server under test in the test's own event loop, with all its verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from muster.coordinator.config import load
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.machine import ControlledMachine
from muster.testcontrol.server_control import ServerControl
from tests.support.muster import QUICK


@asynccontextmanager
async def controlled(
    *,
    nodes: int = 1,
    topics: Sequence[str] = ("orders:2",),
    data_dir: Path | None = None,
    starts_frozen: bool = False,
    metrics: ServerMetrics | None = None,
    users: Sequence[str] = (),
    **properties: str,
) -> AsyncIterator[ServerControl]:
    """A server that runs inside the block. Property names have _ in place of dots."""
    given = {**QUICK, "broker.session.timeout.ms": "200"}
    given.update({name.replace("_", "."): value for name, value in properties.items()})
    config = load(
        overrides=[f"{name}={value}" for name, value in given.items()],
        listen="127.0.0.1:0",
        in_memory=data_dir is None,
        data_dir=data_dir,
        topics=list(topics),
        users=list(users),
        nodes=str(nodes),
    )
    found = ServerControl(config, machine=ControlledMachine(starts_frozen=starts_frozen), metrics=metrics)
    await found.server.start()
    try:
        yield found
    finally:
        await found.server.stop()


def bootstrap(found: ServerControl) -> str:
    """The address that clients use."""
    return ",".join(f"{bound.host}:{bound.port}" for bound in found.server.bound)
