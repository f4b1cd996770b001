"""Runs `muster serve` until the program that started it has ended. A test that SIGKILL ends cannot stop its server, but
the pipe between them closes.

    python -m muster.testing.beside PORTS DIRECTORY serve …

`PORTS`: the ports of the previous server, with commas, or `-`. `DIRECTORY`: is deleted when the program that started
this one has ended; or `-`.
"""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import sys
import threading

NONE = "-"


def _until_alone(alone: threading.Event) -> None:
    """Wait for the end of the pipe. Nobody writes to the pipe, and it ends when no process has its other end."""
    while os.read(0, 1_024):
        pass
    alone.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _main(ports: str, directory: str) -> None:
    if ports != NONE:
        # a first start imports this module later
        from muster.testcontrol.machine import ControlledMachine

        ControlledMachine.ports_of_before = tuple(map(int, ports.split(",")))
    alone = threading.Event()
    threading.Thread(target=_until_alone, args=(alone,), name="muster-alone", daemon=True).start()
    try:
        # run by its name: an import would make the pipeline, which the command imports, a part of `muster.testing`
        runpy.run_module("muster.cli", run_name="__main__", alter_sys=True)
    finally:
        if alone.is_set() and directory != NONE:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv.pop(1), sys.argv.pop(1))
