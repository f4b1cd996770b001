"""`muster serve` for as long as the program is there that started it: a test that is ended by SIGKILL stops no server,
but the pipe that it held open is closed then.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading


def _until_alone() -> None:
    """Nothing is ever written to the pipe; that it ends means that nobody holds its other end."""
    while os.read(0, 1_024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_until_alone, name="muster-alone", daemon=True).start()
    # by name: the command line knows the pipeline too, of which nothing is loaded here
    runpy.run_module("muster.coordinator.cli", run_name="__main__", alter_sys=True)
