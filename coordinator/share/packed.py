"""Batches in flight in a few arrays: what a partition with many runs keeps while nobody uses it.

A run of records takes some 30 bytes here, and ten times as many as objects. So a million records in flight take little
memory even when each record was produced, delivered and locked alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from muster.coordinator.share.in_flight import Batch, Before, Run

_NO_LOCK: Final = -1
_Kind = tuple[int, int, str, int, Before | None, bool]
"""What many runs have in common."""


class Packed:
    """See the module. `first`, `last`: the first and the last offset in flight. There is at least one batch."""

    __slots__ = ("_divided", "_firsts", "_kinds", "_lasts", "_locks", "_number_of_kinds", "_sizes")

    def __init__(self, batches: Sequence[Batch]) -> None:
        runs = [run for batch in batches for run in batch.runs]
        known: dict[_Kind, int] = {}
        self._sizes = array("I", [len(batch.runs) for batch in batches])
        self._divided = bytes([batch.is_divided for batch in batches])
        self._firsts = array("q", [run.first for run in runs])
        self._lasts = array("q", [run.last for run in runs])
        self._locks = array("q", [_NO_LOCK if run.lock_until_ms is None else run.lock_until_ms for run in runs])
        self._number_of_kinds = array("I", [known.setdefault(_kind(run), len(known)) for run in runs])
        self._kinds: Sequence[_Kind] = tuple(known)

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._firsts)

    def batches(self) -> list[Batch]:
        """The batches as objects."""
        runs = []
        kinds = self._kinds
        for first, last, until_ms, number in zip(
            self._firsts, self._lasts, self._locks, self._number_of_kinds, strict=True
        ):
            state, deliveries, member, change, before, is_final = kinds[number]
            end = first if last == first else last  # one number for both
            run = Run(first, end, state, deliveries, member, None if until_ms == _NO_LOCK else until_ms)
            if change or is_final:
                run.change, run.before, run.is_final = change, before, is_final
            runs.append(run)
        found, at = [], 0
        for size, is_divided in zip(self._sizes, self._divided, strict=True):
            found.append(Batch.of(runs[at : at + size], is_divided=bool(is_divided)))
            at += size
        return found


def _kind(run: Run) -> _Kind:
    return run.state, run.deliveries, run.member, run.change, run.before, run.is_final
