"""The reference of `muster.testing`: each class and function with its parameters and docstrings, from the code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final
from unittest import TestCase

from muster import testing
from muster.testing import faults

_HEAD: Final = """# The API for tests

[Testing applications](../testing.md) says what to use when. With `.aio` of a server, topic, group or node, the same
methods are awaited.
"""
_INHERITED: Final = {*dir(tuple), *dir(AssertionError), *dir(TestCase)}
_LEFT_OUT: Final = {"AsyncGroup", "AsyncMuster", "AsyncNode", "AsyncTopic"}
"""Classes with the methods of others, to be awaited."""


def page() -> str:
    """The page."""
    return "\n".join(
        [
            _HEAD,
            *_of_module(testing),
            "\n## `muster.testing.faults` { #faults }\n\nWhat a test gives to `muster.faults.add`.",
            *_of_module(faults),
            "",
        ]
    )


def _of_module(module: ModuleType) -> Iterator[str]:
    for name in module.__all__:
        thing = getattr(module, name)
        if name not in _LEFT_OUT and (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield from ("", f"## `{name}` {{ #{name.lower()} }}", "", _text(thing))
            if inspect.isclass(thing):
                yield from _of_class(thing)


def _of_class(of: type) -> Iterator[str]:
    rows = [row for name in dir(of) if name[0] != "_" and name not in _INHERITED and (row := _row(of, name))]
    if rows:
        yield from ("", "| | |", "|---|---|", *rows)


def _row(of: type, name: str) -> str:
    """A row for a method or a property with a docstring; "" for anything else."""
    thing = inspect.getattr_static(of, name)
    function = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    if not callable(function):
        return ""
    text = _text(function).replace("|", r"\|")
    return f"| `{name}{'' if isinstance(thing, property) else _parameters(function)}` | {text} |"


def _parameters(function: Any) -> str:
    """The parameters of a function: `(members, *, timeout=10)`."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "()"
    shown = [str(one.replace(annotation=inspect.Parameter.empty)) for one in known if one.name not in ("self", "cls")]
    return f"({', '.join(shown)})"


def _text(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
