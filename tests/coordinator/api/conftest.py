"""Fixtures of the tests of the dispatcher."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api import registry
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.protocol.api import ApiKey
from tests.coordinator.api.dispatch_harness import HEARTBEAT, LEAVE, Seen


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Heartbeat, JoinGroup and LeaveGroup are kept, not handled."""
    seen: Seen = []

    def keep(node: Node, context: RequestContext, request: Any, respond: Respond) -> None:
        seen.append((context, request, respond))

    for key in (HEARTBEAT, ApiKey.JOIN_GROUP, LEAVE):
        monkeypatch.setitem(registry._loaded, key, keep)
    return seen
