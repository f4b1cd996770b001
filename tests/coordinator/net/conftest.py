"""Fixtures of the tests of connections."""

from __future__ import annotations

import pytest

from tests.coordinator.net.connection_harness import ConnectionHarness


@pytest.fixture
async def harness() -> ConnectionHarness:
    return ConnectionHarness()
