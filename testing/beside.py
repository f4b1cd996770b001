"""`muster serve` for as long as the program runs that started it. A test that is ended by SIGKILL stops no server, but
the pipe that it held open is closed then.

    python -m muster.testing.beside PORTS DIRECTORY serve …

`PORTS`: the ports of the server before, with commas; `-` without any. `DIRECTORY`: deleted when the program has ended
that started this one; `-` without one.
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
    """Wait for the end of the pipe, which nobody writes to: then no process holds its other end."""
    while os.read(0, 1_024):
        pass
    alone.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _main(ports: str, directory: str) -> None:
    if ports != NONE:
        # imported here: a first start needs it later
        from muster.testcontrol.machine import ControlledMachine

        ControlledMachine.ports_of_before = tuple(map(int, ports.split(",")))
    alone = threading.Event()
    threading.Thread(target=_until_alone, args=(alone,), name="muster-alone", daemon=True).start()
    try:
        # by name: the command line knows the pipeline too, and nothing of that is loaded here
        runpy.run_module("muster.cli", run_name="__main__", alter_sys=True)
    finally:
        if alone.is_set() and directory != NONE:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv.pop(1), sys.argv.pop(1))
