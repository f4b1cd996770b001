"""`muster groups record --log`: the life of a record from data directories of Kafka 4.4 and of Muster."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from muster.cli import main
from tests.test_repo import ROOT

Capture = pytest.CaptureFixture[str]
RECORDED = ROOT / "tests" / "pipeline" / "shares"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data directories: `kafka` and `muster`."""
    directory = tmp_path_factory.mktemp("shares")
    for name in ("kafka", "muster"):
        with tarfile.open(RECORDED / f"{name}.tar.xz") as files:
            files.extractall(directory / name, filter="data")
    return directory


def printed(capsys: Capture, log: Path, *words: str) -> list[str]:
    assert main(["groups", "record", *words, "--log", str(log)]) == 0
    return [line[21:] if line[:2] == "20" else line for line in capsys.readouterr().out.splitlines()]


def test_both_directories_have_the_same_life_and_muster_names_the_worker(logs: Path, capsys: Capture) -> None:
    kafka, muster = (printed(capsys, logs / name, "failing", "failing-0", "1") for name in ("kafka", "muster"))
    assert kafka[0] == muster[0] == "the group has not begun with this partition (the oldest entry of the log)"
    assert [line[:10] for line in kafka if "ended without success" in line] == [f"delivery {at}" for at in range(1, 5)]
    released = [line for line in muster if " released 1 record of failing-0 (offset 1) in delivery " in line]
    assert [line.endswith(": available again") for line in released] == [True] * 4 + [False]
    assert kafka[-1] == muster[-1] == "now: done, archived after 5 deliveries"


def test_the_moments_are_json(logs: Path, capsys: Capture) -> None:
    (line,) = printed(capsys, logs / "kafka", "failing", "failing-0", "0", "--json")
    answer = json.loads(line)
    states = [(one["state"], one["deliveries"]) for one in answer["moments"]]
    assert (states[0], states[-2], states[-1]) == (("NOT_BEGUN", 0), ("ARCHIVED", 5), ("PASSED", 0))
    assert (answer["group"], answer["events"]) == ("failing", [])


def test_what_a_directory_does_not_have_is_said(logs: Path, tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "log"
    shutil.copytree(logs / "kafka", log)

    def refused(*words: str, where: Path = log, status: int = 1) -> str:
        assert main(["groups", "record", *words, "--log", str(where)]) == status
        return capsys.readouterr().err

    assert "has no partition other-0: another broker may have it" in refused("failing", "other-0", "0")
    assert "there is no record 1000 yet" in refused("failing", "failing-0", "1000")
    assert "the share group nobody has no state for failing-0 in" in refused("nobody", "failing-0", "0")
    assert "is not a folder" in refused("failing", "failing-0", "0", where=tmp_path / "nothing")
    assert "a topic and a partition" in refused("failing", "failing", "0", status=2)
    (log / "failing-0" / "partition.metadata").unlink()
    assert "the id of the topic is not known, because" in refused("failing", "failing-0", "0")
    (log / "empty-0").mkdir()
    (log / "empty-0" / f"{7:020}.log").touch()
    assert "empty-0 ends at offset 7" in refused("failing", "empty-0", "7")
    shutil.copy(logs / "kafka" / "failing-0" / "partition.metadata", log / "failing-0")
    for place in log.glob("__share_group_state-*/*.log"):
        data = bytearray(place.read_bytes())
        data[-1] ^= 1
        place.write_bytes(data)
    assert "is damaged: " in refused("failing", "failing-0", "0")
    for place in log.glob("__share_group_state-*"):
        shutil.rmtree(place)
    assert "has no partition of __share_group_state: no share group has begun there" in refused(
        "failing", "failing-0", "0"
    )
