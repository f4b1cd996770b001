"""Starts Spark's Python workers in place of `pyspark.daemon`. A worker does not collect garbage among its modules.

PySpark makes each worker collect garbage after each task, through all modules too. For the 25 tasks
of a small log, this takes half of the workers' CPU time, which is 1 s.
"""

from __future__ import annotations

import gc
from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Run one task. The garbage collector does not visit again what was left after the task before."""
    gc.freeze()
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
