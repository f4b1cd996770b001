"""What Spark starts its Python workers with, in place of `pyspark.daemon`: Python looks for no garbage in what a worker
has loaded.

PySpark has each worker look for garbage after each task, through all modules too: for the 25 tasks of a small log that
is 1 s of CPU, half of what its workers use.
"""

from __future__ import annotations

import gc
from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """One task. What the search after the task before has left is not looked through any more."""
    gc.freeze()
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
