"""Each verb is defined once: its asynchronous form has the same signature and docstring."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from muster.testing import AsyncGroup, AsyncNode, AsyncTopic, Group, Node, Topic
from muster.testing.faults import AsyncFault, AsyncFaults, Fault, Faults
from muster.testing.time import AsyncTime, Time
from muster.testing.verbs import Verb

PAIRS = [
    (Topic, AsyncTopic), (Group, AsyncGroup), (Node, AsyncNode), (Fault, AsyncFault), (Faults, AsyncFaults),
    (Time, AsyncTime),
]  # fmt: skip


def verbs(kind: type[Any]) -> list[str]:
    return [name for base in kind.__mro__ for name, found in vars(base).items() if isinstance(found, Verb)]


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_both_forms_of_a_verb_are_one_definition(blocking: type[Any], awaited: type[Any]) -> None:
    assert verbs(blocking) == verbs(awaited) != []
    for name in verbs(blocking):
        first, second = vars(blocking)[name], vars(awaited)[name]
        assert not inspect.iscoroutinefunction(first)
        assert inspect.iscoroutinefunction(second)
        assert inspect.signature(first) == inspect.signature(second)
        assert first.__doc__ == second.__doc__
        assert first.__doc__ or name.startswith("_")
        assert first.__qualname__ == f"{blocking.__name__}.{name}"
        assert second.__qualname__ == f"{awaited.__name__}.{name}"


def test_a_verb_has_a_timeout_exactly_when_it_waits() -> None:
    for kind, _ in PAIRS:
        for base in kind.__mro__:
            for found in (one for one in vars(base).values() if isinstance(one, Verb)):
                assert found.waits == ("timeout" in inspect.signature(found.body).parameters)
