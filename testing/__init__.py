"""Muster for tests of applications with Kafka consumers. The server runs in the test's process, or as a process.

    from muster.testing import Muster

    with Muster(topics={"orders": 6}) as muster:
        start_consumers(muster.bootstrap_servers)
        group = muster.group("billing").wait_stable(members=3, partitions="orders")
        assert group.assignment["orders"].keys() == set(range(6))

In asynchronous tests the same verbs are awaited: `async with Muster() as muster`, or `muster.aio` of a running server.
With pytest, the fixture `muster` can be used as soon as this package is installed (`docs/testing.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.testing.public import (
        AsyncGroup,
        AsyncMuster,
        AsyncNode,
        AsyncTopic,
        CannotBeDone,
        Group,
        GroupView,
        Line,
        MemberView,
        Muster,
        MusterTestCase,
        NewRecord,
        Node,
        NodeView,
        Record,
        RecordsView,
        Topic,
        WaitFailed,
        WrongValue,
    )

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
    "RecordsView",
    "Topic",
    "WaitFailed",
    "WrongValue",
]


def __getattr__(name: str) -> Any:
    """Import a name of this package at its first use. In each run pytest loads the plugin of this package, so other
    imports wait until a test needs them.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from muster.testing import public

    found = globals()[name] = getattr(public, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
