"""Fixtures of the tests of streams groups."""

from __future__ import annotations

import pytest

from tests.coordinator.groups.streams.harness import StreamsGroupHarness


@pytest.fixture
def harness() -> StreamsGroupHarness:
    return StreamsGroupHarness()
