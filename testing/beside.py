"""`muster serve` for as long as the program is there that started it: a test that is ended by SIGKILL stops no server,
but the pipe that it held open is closed then.

    python -m muster.testing.beside PORTS DIRECTORY serve …

`PORTS`: where a server of before listened, with commas; `-` for none. `DIRECTORY`: deleted when the program is gone
that started this one; `-` for none.
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
    """Nothing is ever written to the pipe; that it ends means that nobody holds its other end."""
    while os.read(0, 1_024):
        pass
    alone.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _main(ports: str, directory: str) -> None:
    if ports != NONE:
        # imported here: a first start needs it later
        from muster.testcontrol.seeded import ControlledMachine

        ControlledMachine.ports_of_before = tuple(map(int, ports.split(",")))
    alone = threading.Event()
    threading.Thread(target=_until_alone, args=(alone,), name="muster-alone", daemon=True).start()
    try:
        # by name: the command line knows the pipeline too, of which nothing is loaded here
        runpy.run_module("muster.cli", run_name="__main__", alter_sys=True)
    finally:
        if alone.is_set() and directory != NONE:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv.pop(1), sys.argv.pop(1))
