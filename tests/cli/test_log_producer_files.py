from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.cli.log.check import check
from muster.cli.log.dump import dump
from tests.coordinator.log.support import GOLDEN

FOLDER = GOLDEN / "transactions" / "tx-0"


def dumped(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert dump(path, batches_only=False) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_transaction_index_is_dumped_as_kafkas_tool_does(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = dumped(FOLDER / f"{0:020d}.txnindex", capsys)
    assert first == {"version": 0, "producerId": 1, "firstOffset": 4, "lastOffset": 7, "lastStableOffset": 2}
    assert second == {"version": 0, "producerId": 0, "firstOffset": 2, "lastOffset": 8, "lastStableOffset": 6}


def test_a_producer_snapshot_is_dumped_as_kafkas_tool_does(capsys: pytest.CaptureFixture[str]) -> None:
    rows = dumped(FOLDER / f"{17:020d}.snapshot", capsys)
    assert [(row["producerId"], row["producerEpoch"], row["currentTxnFirstOffset"]) for row in rows] == [
        (0, 0, None),
        (1, 0, 16),
        (2, 2, None),
    ]
    assert [row["lastSequence"] for row in rows] == [3, 1, None]
    assert rows[0] == {
        "producerId": 0,
        "producerEpoch": 0,
        "coordinatorEpoch": 0,
        "currentTxnFirstOffset": None,
        "lastTimestamp": 1795371374303,
        "firstSequence": 3,
        "lastSequence": 3,
        "lastOffset": 13,
        "offsetDelta": 0,
    }


@pytest.mark.parametrize("name", [f"{0:020d}.txnindex", f"{9:020d}.snapshot"])
def test_a_damaged_producer_file_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes((FOLDER / name).read_bytes()[:-3])
    assert dump(path, batches_only=False) == 1
    assert str(path) in capsys.readouterr().err


def test_producer_files_pass_the_log_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(FOLDER, as_json=False) == 0
