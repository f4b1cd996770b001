"""Reads CPU time and memory of a process from Linux's /proc."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """The CPU time of a process until now: user and system time of all threads."""
    return sum(map(int, _fields(pid)[11:13])) / _TICKS_PER_S


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name of the command: state, parent, and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    return int(_fields(pid)[1])


def family_cpu_s(pid: int) -> float:
    """The CPU time until now of a process and its children, both the running ones and those that have ended."""
    spent = sum(map(int, _fields(pid)[11:15])) / _TICKS_PER_S
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process may end between the list and the look
            if parent_of(int(place.name)) == pid:
                spent += cpu_s(int(place.name))
    return spent


def cpu_ms(pid: int) -> float:
    """The CPU time of a process until now, in ms, by a clock without ticks. It is for work of a few ms."""
    return time.clock_gettime_ns(_clock_of(pid)) / 1e6


def _clock_of(pid: int) -> int:
    """The id of a process's CPU clock on Linux, as clock_getcpuclockid returns it."""
    return ~pid << 3 | 2


def resident_mb(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")
