"""Fixtures for the tests of several packages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from muster.coordinator.server import Server
from tests.support.muster import running


@pytest.fixture
async def muster_server() -> AsyncIterator[Server]:
    """A server in this event loop, in memory, with one topic "t" of three partitions."""
    async with running(topics=["t:3"]) as server:
        yield server
