"""Folders that belong to no topic, or claim to be another topic's: `muster log check` names them, `repair` restores
them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from muster.cli.log.check import check
from muster.cli.log.repair import repair
from muster.coordinator.log import FileStorage, batches, checkpoints
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.startup import KEEP_ALL
from muster.coordinator.topics.topics import Topics
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce

NOW = Now(0, 1_700_000_000_000)


def started(root: Path, **partitions: int) -> Topics:
    """A server's topics in a directory, with a record in each new partition."""
    topics = make_topics(FileStorage(root))
    for name, count in partitions.items():
        add_topic(topics, name, count)
        for index in range(count):
            partition = topics.open.partition(name, index)
            assert partition is not None
            produce(partition, batch(f"{name}-{index}".encode()), NOW)
    return topics


def values(topics: Topics, name: str, index: int = 0) -> list[bytes | None]:
    partition = topics.open.partition(name, index)
    assert partition is not None
    return [record.value for _, records in batches.read(partition.log.read(0, 10_000)) for record in records]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with the topic `t`, and with a copy of another server's `orders` beside it."""
    other, root = tmp_path / "other", tmp_path / "data"
    started(other, orders=3).logs.close()
    started(root, t=2).logs.close()
    for index in range(3):
        shutil.copytree(other / f"orders-{index}", root / f"orders-{index}")
        # the ids in these tests are all the same
        path = root / f"orders-{index}" / checkpoints.PARTITION_METADATA
        path.write_bytes(checkpoints.encode_topic_id(b"o" * 16))
    return root


def strays(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name.endswith("-stray"))


def test_stray_folders_are_named_and_restored_with_their_topic(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started(root).logs.close()
    assert len(strays(root)) == 3
    assert check(root, as_json=False) == 1
    output = capsys.readouterr().out
    for name in strays(root):
        assert f"{name}: damage: it belongs to no topic" in output
        assert f"muster log repair {root} --partition {name}" in output
    assert repair(root, strays(root)[1]) == 0
    assert "in their place again: orders-0, orders-1, orders-2" in capsys.readouterr().out
    assert strays(root) == []
    assert check(root, as_json=False) == 0
    topics = started(root)
    assert [values(topics, "orders", index) for index in range(3)] == [[b"orders-0"], [b"orders-1"], [b"orders-2"]]
    assert topics.by_name["orders"].topic_id == b"o" * 16
    assert topics.state.topic_configs("orders") == KEEP_ALL
    assert values(topics, "t", 1) == [b"t-1"]
    topics.logs.close()


def test_stray_folders_are_restored_unchanged_before_a_start(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(root, as_json=True) == 1
    assert '"damaged": ["orders-0", "orders-1", "orders-2"]' in capsys.readouterr().out
    assert repair(root, "orders-0") == 0
    assert check(root, as_json=False) == 0
    topics = started(root)
    assert values(topics, "orders", 2) == [b"orders-2"]
    assert strays(root) == []
    topics.logs.close()


def test_another_topic_of_the_same_name_is_not_replaced(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started(root, orders=1).logs.close()
    assert repair(root, strays(root)[0]) == 1
    assert re.search("another topic orders exists, .*: delete that topic first", capsys.readouterr().err)
    assert len(strays(root)) == 3
    topics = started(root)
    at_once(topics.deleting(topics.by_name["orders"]))
    topics.logs.close()
    assert repair(root, strays(root)[0]) == 0
    topics = started(root)
    assert values(topics, "orders") == [b"orders-0"]
    topics.logs.close()


def test_a_wrong_topic_id_is_named_and_repaired(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(3):
        shutil.rmtree(root / f"orders-{index}")
    assert check(root, as_json=False) == 0
    path = root / "t-1" / checkpoints.PARTITION_METADATA
    whole = path.read_bytes()
    path.write_bytes(checkpoints.encode_topic_id(b"x" * 16))
    capsys.readouterr()
    assert check(root, as_json=False) == 1
    assert "t-1: damage: partition.metadata names the topic" in capsys.readouterr().out
    assert repair(root, "t-1") == 0
    assert path.read_bytes() == whole
    assert check(root, as_json=False) == 0


@pytest.mark.parametrize("damage", ["folder", "log", "empty"])
def test_a_lost_metadata_log_is_named(root: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / f"{METADATA_TOPIC}-0"
    segment = folder / f"{0:020d}.log"
    if damage == "folder":
        shutil.rmtree(folder)
    elif damage == "log":
        segment.unlink()
    else:
        segment.write_bytes(b"")
    assert check(root, as_json=False) == 1
    output = capsys.readouterr().out
    assert f"{METADATA_TOPIC}-0: damage: the metadata log, which names all topics, is missing" in output
    assert "from a backup before the server starts" in output


def test_a_damaged_id_of_the_metadata_log_can_be_repaired(root: Path) -> None:
    path = root / f"{METADATA_TOPIC}-0" / checkpoints.PARTITION_METADATA
    whole = path.read_bytes()
    path.write_bytes(b"nonsense")
    assert repair(root, f"{METADATA_TOPIC}-0") == 0
    assert path.read_bytes() == whole


def test_a_folder_in_the_way_of_a_restore_is_not_removed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started(root).logs.close()
    (root / "orders-1").mkdir()
    (root / "orders-1" / f"{0:020d}.log").write_bytes(b"records")
    assert repair(root, strays(root)[1]) == 1
    assert "orders-1 exists and holds records: move this folder away first" in capsys.readouterr().err
    assert (root / "orders-1" / f"{0:020d}.log").read_bytes() == b"records"
    assert len(strays(root)) == 3
