"""`muster log` as a user runs it."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli import main
from muster.coordinator.log import DirectoryLocked, FileStorage, LogConfig, LogManager, LogSettings, batches
from muster.coordinator.log.storage.lock import DirectoryLock
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce

GOLDEN = Path(__file__).parent / "golden" / "offsets-log"
OLD = Path(__file__).parent / "golden" / "old-formats"
PARTS = ("key", "value")
NOW = 1_700_000_000_000
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with Kafka's offsets partitions."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def damage(data: Path) -> Path:
    path = data / "__consumer_offsets-14" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[550] ^= 1
    path.write_bytes(content)
    return path


class TestDump:
    def test_segments_of_kafka_are_dumped_as_kafkas_tool_does(self, capsys: Captured) -> None:
        assert main(["log", "dump", str(GOLDEN)]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        expected = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]
        assert len(expected) == 458
        assert lines == expected
        assert [list(line) for line in lines] == [list(line) for line in expected]

    def test_a_file_that_is_not_a_log_is_refused(self, tmp_path: Path, capsys: Captured) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("root:x:0:0:root:/root:/bin/bash\n" * 9)
        assert main(["log", "dump", str(path)]) == 1
        assert "notes.txt has no whole batch in it" in capsys.readouterr().err

    def test_one_partition_or_one_segment_is_dumped(self, capsys: Captured) -> None:
        folder = GOLDEN / "__consumer_offsets-14"
        assert main(["log", "dump", str(folder), "--jsonl"]) == 0
        of_folder = capsys.readouterr().out
        assert main(["log", "dump", str(folder / "00000000000000000000.log")]) == 0
        assert capsys.readouterr().out == of_folder
        assert json.loads(of_folder.splitlines()[0])["partition"] == 14

    def test_batches_are_dumped_with_their_headers(self, capsys: Captured) -> None:
        assert main(["log", "dump", str(GOLDEN), "--batches"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == 240
        assert all(row["crcIsRight"] for row in rows)
        assert sum(row["control"] for row in rows) == 9

    @pytest.mark.parametrize("codec", range(5))
    def test_other_topics_and_unknown_records_are_dumped(self, codec: int, tmp_path: Path, capsys: Captured) -> None:
        manager = LogManager(FileStorage(tmp_path), LogSettings())
        manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
        rows = [(b"\0\x63later", b"\0\0x"), (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x63later"), (None, b"x"), (b"\0", None)]
        for topic in ("__consumer_offsets", "orders"):
            manager.open_log(topic, 0, config=LogConfig(preallocate=True)).append(
                0, batches.build(rows, timestamp_ms=NOW, compression=codec), wall_ms=NOW
            )
        manager.close(clean=False)
        assert main(["log", "dump", str(tmp_path)]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["key"] for row in found] == [
            {"type": 99, "raw": "AGNsYXRlcg=="},
            {"type": 1, "data": {"group": "g", "topic": "t", "partition": 0}},
            None,
            {"type": None, "raw": "AA=="},
        ]
        assert found[1]["value"] == {"raw": "AGNsYXRlcg=="}
        assert main(["log", "dump", str(tmp_path / "orders-0")]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["key"] for row in found] == ["AGNsYXRlcg==", "AAEAAWcAAXQAAAAA", None, "AA=="]

    def test_message_sets_are_dumped_as_kafkas_tool_does(self, capsys: Captured) -> None:
        assert main(["log", "dump", str(OLD / "old-0")]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        expected = [json.loads(line) for line in (OLD / "expected.jsonl").read_text().splitlines()]
        texts = [[None if line[at] is None else base64.b64decode(line[at]).decode() for at in PARTS] for line in lines]
        assert texts == [[line[at] for at in PARTS] for line in expected]
        for name in ("offset", "timestamp"):
            assert [line[name] for line in lines] == [line[name] for line in expected]

    def test_batches_of_message_sets_are_dumped(self, capsys: Captured) -> None:
        assert main(["log", "dump", str(OLD / "old-0"), "--batches"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == 70
        assert all(row["crcIsRight"] for row in rows)
        assert {(row["magic"], row["timestampType"]) for row in rows} == {
            (0, "NoTimestampType"), (1, "CreateTime"), (1, "LogAppendTime"), (2, "CreateTime"), (2, "LogAppendTime"),
        }  # fmt: skip
        packed = [row for row in rows if row["compression"] != "none"]
        assert {(row["magic"] < 2, row["baseOffset"] is None, row["count"] is None) for row in packed} == {
            (True, True, True),
            (False, False, False),
        }
        assert (rows[0]["position"], rows[0]["size"], rows[0]["crc"]) == (0, 39, 2086401123)

    @pytest.mark.parametrize("dump", [["dump"], ["dump", "--batches"]])
    def test_a_batch_of_a_later_format_is_reported_with_its_position(
        self, dump: list[str], tmp_path: Path, capsys: Captured
    ) -> None:
        whole = batches.build([(b"k", b"v")], timestamp_ms=NOW)
        later = bytearray(whole)
        later[16] = 3
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(whole + later)
        assert main(["log", *dump, str(path)]) == 1
        output = capsys.readouterr()
        assert len(output.out.splitlines()) == 1
        assert f"{path} is not readable at byte {len(whole)}: the batch at byte {len(whole)} has magic 3" in output.err

    def test_a_damaged_segment_is_reported_with_its_position(self, data: Path, capsys: Captured) -> None:
        path = damage(data)
        assert main(["log", "dump", str(path)]) == 1
        output = capsys.readouterr()
        assert len(output.out.splitlines()) == 2
        assert f"{path} is damaged at byte 435" in output.err

    def test_a_directory_without_a_log_is_refused(self, tmp_path: Path, capsys: Captured) -> None:
        assert main(["log", "dump", str(tmp_path)]) == 2
        assert main(["log", "dump", str(tmp_path / "none")]) == 2
        assert "give a data directory or a partition's folder" in capsys.readouterr().err

    def test_a_closed_pipe_ends_the_dump_without_an_error(self) -> None:
        command = [sys.executable, "-m", "muster.cli", "log", "dump", str(GOLDEN)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


class TestCheckAndRepair:
    def test_an_undamaged_directory_passes_the_check(self, capsys: Captured) -> None:
        assert main(["log", "check", str(GOLDEN)]) == 0
        assert capsys.readouterr().out == "26 partitions, 26 segments, 240 batches, 58899 bytes: all sound\n"

    def test_message_sets_pass_the_check(self, capsys: Captured) -> None:
        assert main(["log", "check", str(OLD)]) == 0
        assert capsys.readouterr().out == "1 partitions, 1 segments, 70 batches, 8309 bytes: all sound\n"

    def test_an_unknown_format_is_not_removed_by_repair(self, data: Path, capsys: Captured) -> None:
        path = data / "__consumer_offsets-14" / "00000000000000000000.log"
        content = bytearray(path.read_bytes())
        content[16] = 7
        path.write_bytes(content)
        assert main(["log", "check", str(data)]) == 1
        output = capsys.readouterr().out
        assert f"__consumer_offsets-14: damage: {path} at byte 0: magic 7, only 0, 1 and 2 are known" in output
        assert "__consumer_offsets-14: Stop the server and move the folder to a server that can read it" in output
        assert main(["log", "check", str(data), "--json"]) == 1
        assert "move the folder" in json.loads(capsys.readouterr().out.splitlines()[0])["advice"]
        assert main(["log", "repair", str(data), "--partition", "14"]) == 1
        assert "has batches of a format that this version does not know; nothing was changed" in capsys.readouterr().err
        assert path.read_bytes() == content
        assert [one.name for one in path.parent.iterdir() if "damaged" in one.name] == []

    def test_damage_is_found_and_repaired(self, data: Path, capsys: Captured) -> None:
        path = damage(data)
        assert main(["log", "check", str(data)]) == 1
        output = capsys.readouterr().out
        assert f"__consumer_offsets-14: damage: {path} at byte 435: the CRC" in output
        assert f"muster log repair {data} --partition 14" in output
        assert main(["log", "check", str(data / "__consumer_offsets-14"), "--json"]) == 1
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (rows[0]["file"], rows[0]["position"], rows[0]["severity"]) == (str(path), 435, "damage")
        assert rows[-1]["summary"]["damaged"] == ["__consumer_offsets-14"]
        assert main(["log", "repair", str(data), "--partition", "14"]) == 0
        output = capsys.readouterr().out
        assert "lost: offsets 2 to 3" in output
        assert f"{path}.damaged" in output
        assert main(["log", "check", str(data)]) == 0
        capsys.readouterr()
        assert main(["log", "repair", str(data), "--partition", "__consumer_offsets-14"]) == 0
        assert "nothing to repair" in capsys.readouterr().out

    @pytest.mark.parametrize("content", ["", "nonsense"])
    def test_a_folder_without_a_known_topic_is_reported(self, content: str, tmp_path: Path, capsys: Captured) -> None:
        clock = ManualClock()
        topics = make_topics(FileStorage(tmp_path), clock)
        for name in ("t", "u"):
            produce(add_topic(topics, name), batch(), Now(0, NOW))
        topics.logs.close()
        path = tmp_path / "t-0" / "partition.metadata"
        as_written = path.read_text()
        path.write_text(content)
        assert main(["log", "check", str(tmp_path)]) == 1
        output = capsys.readouterr().out
        assert f"t-0: damage: {path}: it does not hold version 0 and a topic_id\n" in output
        assert f"muster log repair {tmp_path} --partition t-0" in output
        assert main(["log", "repair", str(tmp_path), "--partition", "t-0"]) == 0
        assert f"{path} was written anew" in capsys.readouterr().out
        assert path.read_text() == as_written
        assert path.with_name("partition.metadata.damaged").read_text() == content
        assert main(["log", "check", str(tmp_path)]) == 0
        topics = make_topics(FileStorage(tmp_path), clock)
        assert topics.by_name["t"].is_online(0)
        at_once(topics.deleting(topics.by_name["u"]))
        topics.logs.close()
        (tmp_path / "u-0").mkdir()
        (tmp_path / "u-0" / "partition.metadata").write_text("nonsense")
        capsys.readouterr()
        assert main(["log", "repair", str(tmp_path), "--partition", "u-0"]) == 1
        assert "the metadata log has none of that name" in capsys.readouterr().err

    def test_check_and_dump_need_no_write_permission(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = os.open

        def read_only(path: str, flags: int, *more: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise OSError(errno.EROFS, "Read-only file system", path)
            return opened(path, flags, *more)

        monkeypatch.setattr(os, "open", read_only)
        assert main(["log", "check", str(data)]) == 0
        assert main(["log", "dump", str(data)]) == 0

    def test_repair_is_refused_while_a_server_uses_the_directory(
        self, data: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def held(_: object, directory: str, __: object) -> None:
            raise DirectoryLocked(directory, 4711)

        monkeypatch.setattr(DirectoryLock, "__init__", held)
        path = damage(data)
        before = path.read_bytes()
        assert main(["log", "repair", str(data), "--partition", "14"]) == 1
        assert "process 4711: stop it first" in capsys.readouterr().err
        assert path.read_bytes() == before

    def test_a_missing_partition_or_directory_is_refused(self, data: Path, capsys: Captured) -> None:
        assert main(["log", "repair", str(data), "--partition", "99"]) == 2
        assert "is no partition's folder" in capsys.readouterr().err
        assert main(["log", "check", str(data / "none")]) == 2

    @pytest.mark.parametrize("how", ["cut", "emptied", "gone"])
    def test_records_lost_after_a_clean_stop_are_found_and_repaired(
        self, how: str, tmp_path: Path, capsys: Captured
    ) -> None:
        manager = LogManager(FileStorage(tmp_path), LogSettings())
        manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
        for topic in ("orders", "others"):
            for _ in range(3):
                manager.open_log(topic, 0).append(0, batches.build([(b"k", b"v")], timestamp_ms=NOW), wall_ms=NOW)
        manager.close()
        assert main(["log", "check", str(tmp_path)]) == 0
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        content = path.read_bytes()
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(content[:-17] if how == "cut" else b"")
        capsys.readouterr()
        assert main(["log", "check", str(tmp_path)]) == 1
        output = capsys.readouterr().out
        assert "the last stop was clean" in output if how == "cut" else "3 records are gone" in output
        assert f"muster log repair {tmp_path} --partition orders-0" in output
        assert main(["log", "repair", str(tmp_path), "--partition", "orders-0"]) == 0
        assert ("offsets 2 to 2" if how == "cut" else "offsets 0 to 2") in capsys.readouterr().out
        if how != "gone":
            assert main(["log", "check", str(tmp_path / "orders-0")]) == 0
        assert main(["log", "check", str(tmp_path)]) == 0
        capsys.readouterr()
        assert main(["log", "repair", str(tmp_path), "--partition", "orders-0"]) == 0
        assert "nothing to repair" in capsys.readouterr().out
