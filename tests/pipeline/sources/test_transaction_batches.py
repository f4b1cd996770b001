"""Transactions in the offsets partitions of a directory. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.transactions import partitions_of, parts_of
from tests.pipeline.raw import commit
from tests.pipeline.sources.logs import batch, marker, write_segment

COMMIT, ABORT = 1, 0


def parts(root: Path) -> list[dict[str, Any]]:
    return [part for segments in partitions_of(str(root)) for part in parts_of(str(root), segments)]


def of(producer_id: int, base_offset: int, *groups: str, epoch: int = 0) -> bytes:
    records = [commit(group=group, offset=5) for group in groups]
    return batch(
        records, base_offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )


def test_committed_aborted_and_open_transactions_are_found(tmp_path: Path) -> None:
    first = [of(7, 0, "g", "h"), of(8, 2, "g"), batch([commit()], 3), of(7, 4, "g"), marker(ABORT, 5, 8)]
    write_segment(tmp_path, first, 3)
    write_segment(tmp_path, [marker(COMMIT, 6, 7), of(9, 7, "z"), marker(COMMIT, 8, 77)], 3, base_offset=6)
    write_segment(tmp_path, [of(7, 0, "k"), marker(COMMIT, 1, 7)], 5)
    found = parts(tmp_path)
    assert [(one["partition"], one["producer_id"], one["outcome"], one["offsets"], one["groups"]) for one in found] == [
        (3, 8, "aborted", 1, ["g"]),
        (3, 7, "committed", 3, ["g", "h"]),
        (3, 9, None, 1, ["z"]),
        (5, 7, "committed", 1, ["k"]),
    ]
    assert (found[0]["start_ms"], found[0]["end_ms"], found[2]["end_ms"]) == (1_000, 1_000, None)


def test_other_records_in_transactions_are_not_counted(tmp_path: Path) -> None:
    odd = batch([(b"\0\x63", b""), (b"\0", b"x"), (None, b"y"), commit()], 0, producer_id=7, producer_epoch=0,
                base_sequence=0, transactional=True)  # fmt: skip
    write_segment(tmp_path, [odd, marker(COMMIT, 4, 7)])
    assert [one["offsets"] for one in parts(tmp_path)] == [1]


def test_a_file_removed_meanwhile_is_skipped(tmp_path: Path) -> None:
    path = write_segment(tmp_path, [of(7, 0, "g"), marker(COMMIT, 1, 7)])
    (segments,) = partitions_of(str(tmp_path))
    path.unlink()
    assert list(parts_of(str(tmp_path), segments)) == []
    with pytest.raises(NoSource):
        partitions_of(str(tmp_path / "nowhere"))
