"""The progress of an analysis: a bar on stderr. The bar is only shown on a terminal, so that a pipe gets plain text."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WIDTH: Final = 24
_QUERIES: Final = "DataFrameQueryContextLogger"
"""The name of the logger in which pyspark also logs every error that it raises."""


class Progress:
    """The progress over several steps, one after the other. `steps`: the number of steps, at least."""

    def __init__(self, steps: int, *, on: bool | None = None) -> None:
        """`on` says whether the bar is shown. None means: only if stderr is a terminal."""
        self.steps = steps
        self._done = 0
        self._on = sys.stderr.isatty() if on is None else on

    def begin(self, what: str) -> None:
        """Begin the next step."""
        if self._on:
            filled = WIDTH * min(self._done, self.steps) // max(self.steps, 1)
            bar = "#" * filled + "-" * (WIDTH - filled)
            print(f"\r\x1b[K[{bar}] {what} …", end="", file=sys.stderr, flush=True)
        self._done += 1

    def end(self) -> None:
        """End the progress: all steps are done, or one has failed."""
        if self._on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Hide the output of a JVM that starts in this block. Its errors are raised as exceptions."""
    if verbose:
        yield
        return
    logging.getLogger(_QUERIES).setLevel(logging.CRITICAL)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as aside:
            os.dup2(aside.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
