"""Small logs on the disk for the tests, written by the server's own code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from muster.coordinator.log import batches
from tests.support.markers import build_control

Pair = tuple[bytes | None, bytes | None]


def batch(records: list[Pair], base_offset: int, **how: Any) -> bytes:
    """One batch; see `batches.build`."""
    return bytes(batches.build(records, base_offset=base_offset, **{"timestamp_ms": 1_000, **how}))


def marker(kind: int, base_offset: int, producer_id: int) -> bytes:
    """The control batch that ends a transaction."""
    return bytes(
        build_control(kind, timestamp_ms=1_000, producer_id=producer_id, producer_epoch=0, base_offset=base_offset)
    )


def write_segment(root: Path, data: Iterable[bytes] | bytes, partition: int = 0, base_offset: int = 0) -> Path:
    """A segment file of an offsets partition in a data directory."""
    folder = root / f"__consumer_offsets-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020}.log"
    path.write_bytes(data if isinstance(data, bytes) else b"".join(data))
    return path
