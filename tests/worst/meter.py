"""Counts the work between two returns to the event loop, in instructions of Python.

Each line that is run counts as many instructions as it was compiled to; a loop within a line counts again each time. A
function in C counts by the size of its argument, at `NS_AN_INSTRUCTION`: sorting, hashing, encoding, the matching of
patterns. So the same work gives the same number on every machine.

A piece ends where a callback of the loop ends, and where a job in slices might be interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import builtins
import dis
import hashlib
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType
from typing import Any, Final
from unittest.mock import patch

from re2 import _re2

from muster.coordinator.log.records.headers import crc32c
from muster.coordinator.system.jobs.job_queue import JobQueue

NS_AN_INSTRUCTION: Final = 10
"""The time of one instruction on a usual machine: 1,000,000 instructions take some 10 ms."""

Trace = Callable[[FrameType, str, Any], Any]


class Meter:
    """The counter of this module. `worst`: the longest of all pieces since `reset`, in instructions."""

    def __init__(self) -> None:
        self.worst = 0
        self.where: list[tuple[int, str]] = []
        """For the worst piece, if `explains`: the functions that took most of it, with their shares."""
        self.explains = False
        self._count = [0]
        self._tracers: dict[CodeType, Trace | None] = {}
        self._shares: dict[str, int] = {}

    def reset(self) -> None:
        """Begin again."""
        self.worst, self.where, self._count[0] = 0, [], 0
        self._shares.clear()

    def cut(self) -> None:
        """End a piece: the loop might do something else here."""
        count = self._count[0]
        if count > self.worst:
            self.worst = count
            self.where = _largest([(share, name) for name, share in self._shares.items()])
        self._count[0] = 0
        self._shares.clear()

    def weigh(self, instructions: float, what: str) -> None:
        """Count something in C that takes as long as so many instructions."""
        self._count[0] += int(instructions)
        if self.explains:
            self._shares[what] = self._shares.get(what, 0) + int(instructions)

    # ---- work in Python

    def _call(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        code = frame.f_code
        try:
            return self._tracers[code]
        except KeyError:
            made = self._tracers[code] = self._tracer(code)
            return made

    def _tracer(self, code: CodeType) -> Trace | None:
        if any(room in code.co_filename for room in ("/tests/", "/simulation/", "/virtual/")):
            return None  # the machine around the node: this is not the server's code
        lines, count, sorting = _instructions(code), self._count, _sorting_lines(code)
        name = f"{code.co_filename.rpartition('/')[2]}:{code.co_name}"

        def trace(frame: FrameType, event: str, arg: Any) -> Trace:
            if event == "line":
                count[0] += lines.get(frame.f_lineno, 1)
            return trace

        def explain(frame: FrameType, event: str, arg: Any) -> Trace:
            if event == "line":
                self.weigh(lines.get(frame.f_lineno, 1), name)
            return explain

        def with_sorting(frame: FrameType, event: str, arg: Any) -> Trace:
            if event == "line":
                self.weigh(lines.get(frame.f_lineno, 1), name)
                if frame.f_lineno in sorting:
                    lists = [len(one) for one in frame.f_locals.values() if isinstance(one, list)]
                    self.weigh(_sorting(range(max(lists, default=0))), "list.sort")
            return with_sorting

        return with_sorting if sorting else explain if self.explains else trace

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Inside the block the work of all callbacks of this thread's event loop counts."""
        meter, run = self, asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            meter._count[0] = 0
            sys.settrace(meter._call)
            try:
                run(handle)
            finally:
                sys.settrace(None)
                meter.cut()

        self._tracers.clear()  # here `explains` has another meaning
        weighed = {function: _weighed(self, function, cost) for function, cost in _IN_C.items()}
        with ExitStack() as stack:
            stack.enter_context(patch.object(asyncio.Handle, "_run", measured))
            for target, name, function in _places():
                stack.enter_context(patch.object(target, name, weighed[function]))
            stack.enter_context(patch.object(_re2.RE2, "Match", self._matching(_re2.RE2.Match)))
            yield

    def _matching(self, match: Callable[..., Any]) -> Callable[..., Any]:
        def weighed(compiled: Any, anchor: Any, text: bytes, *more: Any) -> Any:
            self.weigh(_match_cost(compiled, text), "RE2.Match")
            return match(compiled, anchor, text, *more)

        return weighed


class CuttingClock:
    """The clock of a `JobQueue`. After each step of a job the queue asks for the time, and may stop until the next
    iteration.
    """

    def __init__(self, clock: Any, meter: Meter) -> None:
        self._clock, self._meter = clock, meter
        self._do_steps = JobQueue._do_steps.__code__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def mono_ms(self) -> int:
        """The time of the clock."""
        if sys._getframe(1).f_code is self._do_steps:
            self._meter.cut()
        ms: int = self._clock.mono_ms()
        return ms


def _instructions(code: CodeType) -> dict[int, int]:
    """How many instructions each line of a function has."""
    counts: dict[int, int] = {}
    line = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        line = starts.get(one.offset) or line
        counts[line] = counts.get(line, 0) + 1
    return counts


def _sorting_lines(code: CodeType) -> set[int]:
    """Lines that sort a list in place."""
    if "sort" not in code.co_names:
        return set()
    found: set[int] = set()
    line = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        line = starts.get(one.offset) or line
        if one.argval == "sort" and one.opname.startswith(("LOAD_METHOD", "LOAD_ATTR")):
            found.add(line)
    return found


_sorted_by_python: Final = sorted
"""The function that this module uses itself."""


def _largest(shares: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return _sorted_by_python(shares, reverse=True)[:8]


# ---- work in C


def _size(what: Any, *_: Any) -> int:
    return len(what) if hasattr(what, "__len__") else 0


def _sorting(what: Any, *_: Any) -> float:
    size = _size(what)
    return size * math.log2(size + 1)


def _match_cost(compiled: Any, text: bytes) -> float:
    """An automaton without captures takes a step for each byte; one with captures copies them for each instruction of
    the pattern at each byte.
    """
    groups = compiled.NumberOfCapturingGroups()
    return len(text) * (compiled.ProgramSize() * (groups + 1) / 200 if groups else 0.5)


_IN_C: Final[dict[Callable[..., Any], Callable[..., float]]] = {
    sorted: _sorting,
    sum: _size,
    any: _size,
    all: _size,
    binascii.b2a_base64: lambda data, *_: len(data) / 4,
    binascii.a2b_base64: lambda data, *_: len(data) / 20,
    base64.b64encode: lambda *_: 0,
    json.dumps: lambda what, *_: _size(str(what)) / 4,
    zlib.crc32: lambda data, *_: len(data) / 50,
    crc32c: lambda data, *_: len(data) / 100,
    hashlib.pbkdf2_hmac: lambda _name, _password, _salt, iterations, *_: iterations * 20,
}
"""The cost of each function, in instructions of Python. The text of bytes in base64 is copied several times after that.
"""


def _places() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Where these functions are found: in their own modules, and in modules that imported them by name."""
    for function in _IN_C:
        home = builtins if function.__module__ == "builtins" else sys.modules[function.__module__]
        if getattr(home, function.__name__, None) is function:
            yield home, function.__name__, function
    for name, module in list(sys.modules.items()):
        if name.startswith("muster."):
            for attribute, value in list(vars(module).items()):
                if callable(value) and value.__hash__ is not None and value in _IN_C:
                    yield module, attribute, value


def _weighed(meter: Meter, function: Callable[..., Any], cost: Callable[..., float]) -> Callable[..., Any]:
    name = function.__name__

    def weighed(*arguments: Any, **named: Any) -> Any:
        meter.weigh(cost(*arguments), name)
        return function(*arguments, **named)

    return weighed
