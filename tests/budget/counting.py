"""Counts the work of a node for some requests: the same work gives the same numbers on every machine.

What is counted is the node's own code and the libraries that it calls. The virtual machine around it, asyncio's loop
and the client are not counted.
"""

from __future__ import annotations

import asyncio
import collections
import dis
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from muster.coordinator.log.storage.memory import MemoryFile
from muster.coordinator.system import jobs
from muster.simulation import process
from muster.simulation.cluster.faulty_store import FaultyStore
from muster.simulation.process import Process
from muster.virtual.faulty_storage import FaultyFile
from muster.virtual.machine import VirtualProcess
from muster.virtual.wires import Wire
from muster.virtual.world import VirtualTimer

Trace = Callable[[FrameType, str, Any], Any]
NOT_COUNTED: Final = (
    "/tests/", "/simulation/", "/virtual/", "/asyncio/", "/tracemalloc.py", "/unittest/", "/structlog/",
)  # fmt: skip
"""Places of code that is not the node's. A server binds its loggers once (`coordinator.system.logging`), tests at each
use.
"""
MAKERS: Final = frozenset(
    number
    for name, number in dis.opmap.items()
    if name.startswith(("BUILD_", "MAKE_", "FORMAT_", "RETURN_GENERATOR", "LIST_TO_TUPLE"))
)
"""Instructions that make an object."""


class Cost(NamedTuple):
    """What one request costs on average."""

    instructions: float
    """Instructions of Python."""
    calls: float
    """Calls of Python functions."""
    objects: float
    """Objects made by an instruction, or by a class that is written in Python."""
    sends: float
    """Writes to sockets."""
    disk_writes: float
    syncs: float
    """Syncs of files, and writes to the database of a cluster."""
    timers: float
    """Timers that were set."""
    kilobytes: float
    """Memory at its highest during the requests, above what was there before."""


Stack = tuple[str, ...]
"""The functions that were running, the outermost first. The last one has the instruction."""


class Counter:
    """Counts while `counting` is entered. `where`: instructions by stack, if it `explains`."""

    explains = False

    def __init__(self) -> None:
        self.where: collections.Counter[Stack] = collections.Counter()
        self.instructions = self.calls = self.objects = 0
        self.sends = self.disk_writes = self.syncs = self.timers = 0

    def _started(self, code: CodeType) -> None:
        """A function was called, or a generator was resumed."""
        self.calls += 1
        self.objects += code.co_name in ("__init__", "__new__")

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the work of callbacks of the event loop and of jobs of threads."""
        run, job, work = asyncio.Handle._run, Process.run_job, jobs.outcome
        with ExitStack() as stack:
            traced = stack.enter_context(_monitoring(self) if sys.version_info >= (3, 12) else _tracing(self))
            stack.enter_context(patch.object(asyncio.Handle, "_run", traced(run)))
            stack.enter_context(patch.object(Process, "run_job", traced(job)))
            stack.enter_context(patch.object(VirtualProcess, "run_job", traced(VirtualProcess.run_job)))
            stack.enter_context(patch.object(process, "outcome", traced(work)))
            for kind, name, figure in _OUTSIDE:
                stack.enter_context(patch.object(kind, name, self._counted(getattr(kind, name), figure)))
            yield

    def _counted(self, work: Callable[..., Any], figure: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            setattr(self, figure, getattr(self, figure) + 1)
            return work(*arguments, **named)

        return counted

    def cost(self, requests: int, peak_bytes: int) -> Cost:
        """Return the cost of each of `requests` requests."""
        counts = [self.instructions, self.calls, self.objects, self.sends, self.disk_writes, self.syncs, self.timers]
        return Cost._make([*(round(count / requests, 2) for count in counts), round(peak_bytes / 1024, 1)])


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a function whose instructions are counted."""


@contextmanager
def _tracing(counter: Counter) -> Iterator[Wrap]:
    """Python 3.11: a trace function is called at each instruction."""
    tracers: dict[CodeType, Trace | None] = {}

    def call(frame: FrameType, event: str, arg: Any) -> Trace | None:
        code = frame.f_code
        if code not in tracers:
            tracers[code] = tracer(code)
        if tracers[code] is not None:
            counter._started(code)
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return tracers[code]

    def tracer(code: CodeType) -> Trace | None:
        if not _is_counted(code):
            return None
        opcodes = code.co_code

        def trace(frame: FrameType, event: str, _: Any) -> Trace:
            if event == "opcode":
                counter.instructions += 1
                counter.objects += opcodes[frame.f_lasti] in MAKERS
                if counter.explains:
                    counter.where[_stack(frame)] += 1
            return trace

        return trace

    def traced(work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any) -> Any:
            before = sys.gettrace()
            sys.settrace(call)
            try:
                return work(*arguments)
            finally:
                sys.settrace(before)

        return measured

    yield traced


@contextmanager
def _monitoring(counter: Counter) -> Iterator[Wrap]:
    """Python 3.12 and newer (PEP 669): a trace function would miss the first call of each function."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # newer than the oldest Python
    tool, events, is_on = 3, monitoring.events, False
    opcodes: dict[CodeType, bytes] = {}

    def instruction(code: CodeType, offset: int) -> Any:
        if not _is_counted(code):
            return monitoring.DISABLE
        if is_on:
            if code not in opcodes:
                opcodes[code] = code.co_code
            counter.instructions += 1
            counter.objects += opcodes[code][offset] in MAKERS
            if counter.explains:
                counter.where[_stack(sys._getframe(1))] += 1
        return None

    def started(code: CodeType, _: int) -> Any:
        if not _is_counted(code):
            return monitoring.DISABLE
        if is_on:
            counter._started(code)
        return None

    def traced(work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any) -> Any:
            nonlocal is_on
            was_on, is_on = is_on, True
            try:
                return work(*arguments)
            finally:
                is_on = was_on

        return measured

    monitoring.use_tool_id(tool, "budget")
    try:
        monitoring.register_callback(tool, events.INSTRUCTION, instruction)
        for event in (events.PY_START, events.PY_RESUME):
            monitoring.register_callback(tool, event, started)
        monitoring.set_events(tool, events.INSTRUCTION | events.PY_START | events.PY_RESUME)
        yield traced
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


def _stack(frame: FrameType | None) -> Stack:
    names: list[str] = []
    while frame is not None and _is_counted(frame.f_code):
        names.append(_name(frame.f_code))
        frame = frame.f_back
    return tuple(reversed(names))


@cache
def _name(code: CodeType) -> str:
    file = code.co_filename.rpartition("/muster/")[2]
    return f"{file}: {getattr(code, 'co_qualname', code.co_name)}"


@cache
def _is_counted(code: CodeType) -> bool:
    return not any(place in code.co_filename for place in NOT_COUNTED)


_OUTSIDE: Final[tuple[tuple[Any, str, str], ...]] = (
    (Wire, "write", "sends"),
    (MemoryFile, "pwrite", "disk_writes"),
    (MemoryFile, "sync", "syncs"),
    (FaultyFile, "sync", "syncs"),
    (FaultyStore, "commit", "syncs"),
    (VirtualTimer, "__init__", "timers"),
)


def peak_bytes(work: Callable[[], object]) -> int:
    """The highest memory during some work, above the memory before it."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
