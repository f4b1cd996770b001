"""A progress bar on stderr. It appears only on a terminal, so that piped output stays plain."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

WIDTH = 30
LONG_BYTES = 64 * 1024 * 1024
"""Fewer bytes are read at once, without a bar."""


class _Bar:
    """A bar that is visible while its block runs."""

    def __init__(self, what: str, *, is_long: bool = True) -> None:
        self._what = what
        self._shown = -1
        self._on = is_long and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, percent: int, detail: str = "") -> None:
        if self._on and percent != self._shown:
            self._shown = percent
            filled = WIDTH * percent // 100
            bar = "#" * filled + "-" * (WIDTH - filled)
            print(f"\r\x1b[K{self._what} [{bar}] {percent:3} %{detail}", end="", file=sys.stderr, flush=True)


class Progress(_Bar):
    """The progress in bytes."""

    def __init__(self, what: str, total_bytes: int) -> None:
        super().__init__(what, is_long=total_bytes >= LONG_BYTES)
        self._total = max(total_bytes, 1)
        self._done = 0

    def add(self, count: int) -> None:
        """Add bytes that are done."""
        self._done += count
        percent = min(100 * self._done // self._total, 100)
        self._show(percent, f"  {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")


class Steps(_Bar):
    """The progress as a share of 1."""

    def reach(self, share: float) -> None:
        """Set the share that is done."""
        self._show(int(100 * share))
