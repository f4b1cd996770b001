"""Muster for tests of applications with Kafka consumers: a server in the test's own process, or beside it.

    from muster.testing import Muster

    with Muster(topics={"orders": 6}) as muster:
        start_consumers(muster.bootstrap_servers)
        group = muster.group("billing").wait_stable(members=3, partitions="orders")
        assert group.assignment["orders"].keys() == set(range(6))

In asynchronous tests the same verbs are awaited: `async with Muster() as muster`, or `muster.aio` of one that runs.
With pytest, the fixture `muster` is there as soon as this is installed (`docs/testing.md`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from muster.testcontrol.errors import CannotBeDone, WaitFailed, WrongValue
    from muster.testcontrol.nodes import NodeView
    from muster.testcontrol.topics import NewRecord, Record
    from muster.testcontrol.views import GroupView, MemberView
    from muster.testing.aio import AsyncGroup, AsyncNode, AsyncTopic
    from muster.testing.case import MusterTestCase
    from muster.testing.server import AsyncMuster, Muster
    from muster.testing.server_lines import Line
    from muster.testing.sync import Group, Node, Topic

__all__ = [
    "AsyncGroup",
    "AsyncMuster",
    "AsyncNode",
    "AsyncTopic",
    "CannotBeDone",
    "Group",
    "GroupView",
    "Line",
    "MemberView",
    "Muster",
    "MusterTestCase",
    "NewRecord",
    "Node",
    "NodeView",
    "Record",
    "Topic",
    "WaitFailed",
    "WrongValue",
]

# pytest loads the plugin of this package in each run, even if no test needs a server. So nothing is imported before a
# test uses it.
_WHERE: Final = {
    "AsyncGroup": "muster.testing.aio",
    "AsyncMuster": "muster.testing.server",
    "AsyncNode": "muster.testing.aio",
    "AsyncTopic": "muster.testing.aio",
    "CannotBeDone": "muster.testcontrol.errors",
    "Group": "muster.testing.sync",
    "GroupView": "muster.testcontrol.views",
    "Line": "muster.testing.server_lines",
    "MemberView": "muster.testcontrol.views",
    "Muster": "muster.testing.server",
    "MusterTestCase": "muster.testing.case",
    "NewRecord": "muster.testcontrol.topics",
    "Node": "muster.testing.sync",
    "NodeView": "muster.testcontrol.nodes",
    "Record": "muster.testcontrol.topics",
    "Topic": "muster.testing.sync",
    "WaitFailed": "muster.testcontrol.errors",
    "WrongValue": "muster.testcontrol.errors",
}


def __getattr__(name: str) -> Any:
    """A name of this package, imported at its first use."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
