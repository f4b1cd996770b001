"""How the transactions in a partition ended, from the markers in its control batches (KIP-98)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import numpy as np

from muster.pipeline.gather import Mask, integers
from muster.pipeline.sources.batches import Batches, headers_of, rows_of
from muster.pipeline.sources.segment_reader import Stretch

COMMIT: Final = 1


class Outcomes:
    """The markers of each producer in the order of the log."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._kinds: dict[int, list[int]] = {}
        self._open: set[int] = set()

    @classmethod
    def of(cls, files: Iterable[Iterable[Stretch]]) -> Outcomes:
        """The outcomes for the first of some files in a row; others are read while a transaction of it is open."""
        outcomes = cls()
        for index, file in enumerate(files):
            if index and not outcomes._open:
                break
            for stretch in file:
                outcomes._add(headers_of(stretch), opens=index == 0)
                if index and not outcomes._open:
                    break
        return outcomes

    def _add(self, batches: Batches, *, opens: bool) -> None:
        concerned = batches.only(batches.is_control | batches.is_transactional)
        kinds = kinds_of(concerned)
        for offset, producer_id, kind in zip(
            concerned.base_offset.tolist(), concerned.producer_id.tolist(), kinds, strict=True
        ):
            if kind is not None:
                self._offsets.setdefault(producer_id, []).append(offset)
                self._kinds.setdefault(producer_id, []).append(kind)
                self._open.discard(producer_id)
            elif opens:
                self._open.add(producer_id)

    def committed(self, batches: Batches) -> Mask:
        """Which batches count: those of no transaction and those of one that was committed."""
        counts = ~batches.is_transactional
        for index in np.flatnonzero(batches.is_transactional):
            producer_id = int(batches.producer_id[index])
            later = bisect_right(self._offsets.get(producer_id, []), int(batches.base_offset[index]))
            kinds = self._kinds.get(producer_id, [])
            counts[index] = later < len(kinds) and kinds[later] == COMMIT
        return counts


def kinds_of(batches: Batches) -> list[int | None]:
    """What the marker in each batch says; None for batches of data and for markers of another kind."""
    kinds: list[int | None] = [None] * len(batches.position)
    controls = np.flatnonzero(batches.is_control)
    if len(controls):
        rows, _ = rows_of(batches.only(batches.is_control))
        start, end, valid = rows.key
        told = valid & (end - start >= 4)
        kind = integers(rows.data, np.where(told, start + 2, 0), 2)
        for batch in np.flatnonzero(told):
            if kind[batch] in (0, COMMIT):
                kinds[int(controls[rows.batch[batch]])] = int(kind[batch])
    return kinds
