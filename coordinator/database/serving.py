"""`muster serve --cluster URL`: stand by until the office is free, serve while it is held, and stand by again."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.config import Config
from muster.coordinator.config.listeners import show
from muster.coordinator.database.postgres import PostgresStore
from muster.coordinator.database.store import StoreAway
from muster.coordinator.database.term import Term, give_back, stand_by
from muster.coordinator.machine import Machine
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.server import GC_EVERY_OBJECTS, SWITCH_S, THIS_MACHINE, stopping_at_signals

log = structlog.get_logger("muster.cluster")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Properties of the broker, with Kafka 4.3's defaults."""

    broker_session_timeout_ms: int = 9_000
    """How long the lease of the office is."""


def serving(url: str, name: str, directory: Path | None) -> Callable[[Config, Any], Coroutine[Any, Any, None]]:
    """What `server.run` is given in the place of its own `serve`. `directory`: where the copy is made; None: one that
    is removed at the end.
    """
    return partial(_serve, url, name, directory)


async def _serve(
    url: str, name: str, directory: Path | None, config: Config, ready: Callable[[str, int], None]
) -> None:
    if directory is not None:
        await _serve_from(url, name, directory, config, ready)
        return
    with tempfile.TemporaryDirectory(prefix="muster-cluster-") as made:
        await _serve_from(url, name, Path(made), config, ready)


async def _serve_from(url: str, name: str, directory: Path, config: Config, ready: Callable[[str, int], None]) -> None:
    stop = stopping_at_signals()
    lease_ms = config.settings(ClusterSettings).broker_session_timeout_ms
    store = PostgresStore(url, name, timeout_ms=lease_ms // 3)
    machine = THIS_MACHINE
    holder, address = machine.draw_uuid_text(), _address(config)
    try:
        await _terms(config, store, machine, machine.clock(), directory, holder, address, lease_ms, stop, ready)
    finally:
        await store.close()
    log.info("stopped")


async def _terms(
    config: Config,
    store: PostgresStore,
    machine: Machine,
    clock: Clock,
    directory: Path,
    holder: str,
    address: str,
    lease_ms: int,
    stop: asyncio.Event,
    ready: Callable[[str, int], None],
) -> None:
    sys.setswitchinterval(SWITCH_S)
    while True:
        taken = await stand_by(store, clock, holder, address, lease_ms, stop)
        if taken is None:
            return
        office, asked_ms = taken
        term = Term(config, store, machine, clock, directory, loaded=gc.freeze)
        try:
            await term.begin(office, asked_ms, lease_ms)
        except StoreAway as error:
            log.warning("the office cannot be taken", reason=str(error), what="this node stands by again")
            continue
        except BaseException:
            await give_back(store, holder, office.epoch)
            raise
        gc.set_threshold(GC_EVERY_OBJECTS)
        gc.enable()
        assert term.server is not None
        first = term.server.bound[0]
        ready("localhost" if first.host in WILDCARDS else first.host, first.port)
        await _first_of(stop, term.lost)
        whole = await term.end()
        if stop.is_set():
            if whole:
                await give_back(store, holder, office.epoch)
            return


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()


def _address(config: Config) -> str:
    """What other nodes, and `muster cluster status`, call this one."""
    first = config.listeners[0]
    if first.advertised_host:
        return show(first.advertised_host, first.advertised_port or first.port)
    return show(socket.gethostname() if first.host in WILDCARDS else first.host, first.port)
