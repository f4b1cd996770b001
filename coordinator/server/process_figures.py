"""Figures of the process, under the names that all clients of Prometheus use. A system without /proc has fewer."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from muster.coordinator.server.exposition import COUNTER, GAUGE, Metric, single

_PROC: Final = Path("/proc/self")


def process_metrics() -> Iterator[Metric]:
    """The present figures of this process."""
    times = os.times()
    yield single("process_cpu_seconds_total", COUNTER, "CPU time of the process.", times.user + times.system)
    about = "The most open files of the process."
    yield single("process_max_fds", GAUGE, about, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with suppress(OSError):
        fields = (_PROC / "statm").read_text().split()
        about = "Memory of the process that is in the machine's memory."
        yield single("process_resident_memory_bytes", GAUGE, about, int(fields[1]) * resource.getpagesize())
        yield single("process_open_fds", GAUGE, "Open files of the process.", len(os.listdir(_PROC / "fd")))
