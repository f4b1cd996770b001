"""`muster log check` names each damaged file, and each file in the place of another, in a sentence without a traceback.

A server starts all the same, and serves the other files.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from muster.cli.log.check import check
from muster.protocol.hashing import group_partition
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.topics.support import batch
from tests.support.muster import connected, running

SEGMENT = "00000000000000000000"
CAPS = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a clean stop: five records in a-0, seven in a-1 and in b-0, one in two partitions of
    groups.
    """
    directory = tmp_path_factory.mktemp("whole")
    asyncio.run(write(directory))
    return directory


async def write(directory: Path) -> None:
    async with running(topics=["a:2", "b:1"], data_dir=directory) as server, connected(server) as client:
        for name, index, count in (("a", 0, 5), ("a", 1, 7), ("b", 0, 7)):
            rows = [PartitionProduceData(index, batch())]
            topics = [TopicProduceData("", server.topics.by_name[name].topic_id, rows)]
            for _ in range(count):
                answer = await client.ask(ProduceRequest(None, -1, 1_000, topics), 13)
                assert answer.responses[0].partition_responses[0].error_code == 0
        count = len(server.topics.by_name["__consumer_offsets"].partitions)
        for index in range(2):
            group = next(name for name in map(str, range(1_000)) if group_partition(name, count) == index)
            row = OffsetCommitRequestTopic("a", partitions=[OffsetCommitRequestPartition(0, 1)])
            committed = await client.ask(OffsetCommitRequest(group, topics=[row]), 9)
            assert committed.topics[0].partitions[0].error_code == 0


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy of `whole`."""
    return Path(shutil.copytree(whole, tmp_path / "data", symlinks=True))


def checked(data: Path, capsys: CAPS) -> tuple[int, str]:
    """The exit status and what was printed."""
    status = check(data, as_json=False)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    assert "[Errno" not in printed.out + printed.err
    assert printed.err == ""
    return status, printed.out


def exchange(data: Path, one: str, other: str) -> None:
    """Exchange the names of two files."""
    (data / one).rename(data / "between")
    (data / other).rename(data / one)
    (data / "between").rename(data / other)


def in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Put something else under this name."""

    def act(data: Path) -> None:
        path = data / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return act


def folder(name: str) -> Callable[[Path], None]:
    return in_place_of(name, Path.mkdir)


def text(name: str, content: str) -> Callable[[Path], None]:
    return in_place_of(name, lambda path: path.write_text(content))


def link(name: str, target: str) -> Callable[[Path], None]:
    return in_place_of(name, lambda path: path.symlink_to(target))


A_FOLDER = "a folder is in the place of the file"
DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "meta.properties is no text": (
        lambda data: (data / "meta.properties").write_bytes(bytes(range(128, 256))), "meta.properties",
        "expected: name=value",
    ),
    "meta.properties names no node": (text("meta.properties", "cluster.id=x\n"), "meta.properties", "names no node.id"),
    "meta.properties has no such node": (text("meta.properties", "node.id=-5\n"), "meta.properties", "node.id='-5'"),
    "meta.properties of a later version": (
        text("meta.properties", "version=7\nnode.id=1\n"), "meta.properties", "version='7', expected: 0 or 1: a newer "
        "Kafka or Muster wrote it; start that"
    ),
    "meta.properties is a folder": (folder("meta.properties"), "meta.properties", A_FOLDER),
    "exchanged topics": (lambda data: exchange(data, "a-0", "b-0"), "a-0", "the folders were exchanged"),
    "exchanged partitions": (lambda data: exchange(data, "a-0", "a-1"), "a-1", "as a-0 did at the last stop"),
    "exchanged partitions of groups": (
        lambda data: exchange(data, "__consumer_offsets-0", "__consumer_offsets-1"), "__consumer_offsets-0",
        "its records belong to __consumer_offsets-1, and those of __consumer_offsets-1 belong here",
    ),
    "exchanged with a coordinator's": (
        lambda data: exchange(data, "a-0", "__consumer_offsets-0"), "__consumer_offsets-0", "the folders were exchanged"
    ),
    "a file for a folder": (text("a-0", "x"), "a-0", "a file is in the place of its folder"),
    "a folder for a segment": (folder(f"a-0/{SEGMENT}.log"), f"a-0/{SEGMENT}.log", A_FOLDER),
    "a folder for an index": (folder(f"a-0/{SEGMENT}.index"), f"a-0/{SEGMENT}.index", A_FOLDER),
    "a folder for a time index": (folder(f"a-0/{SEGMENT}.timeindex"), f"a-0/{SEGMENT}.timeindex", A_FOLDER),
    "a folder for the topic's id": (folder("a-0/partition.metadata"), "a-0/partition.metadata", A_FOLDER),
    "a folder for the epochs": (folder("a-0/leader-epoch-checkpoint"), "a-0/leader-epoch-checkpoint", A_FOLDER),
    "a folder for a checkpoint": (
        folder("recovery-point-offset-checkpoint"), "recovery-point-offset-checkpoint", A_FOLDER
    ),
    "a folder for the mark of a clean stop": (folder(".kafka_cleanshutdown"), ".kafka_cleanshutdown", A_FOLDER),
    "no checkpoint of recovery points": (
        text("recovery-point-offset-checkpoint", "x"), "recovery-point-offset-checkpoint",
        "the next start checks whole logs"
    ),
    "no checkpoint of starts": (
        text("log-start-offset-checkpoint", "0\n1\nx"), "log-start-offset-checkpoint", "the row 'x'",
    ),
    "no checkpoint of the cleaner": (
        text("cleaner-offset-checkpoint", "x"), "cleaner-offset-checkpoint", "is no checkpoint",
    ),
    "a link that leads nowhere": (
        link(f"a-0/{SEGMENT}.log", "nowhere"), f"a-0/{SEGMENT}.log", "a symbolic link to nowhere",
    ),
    "an index that leads nowhere": (link(f"a-0/{SEGMENT}.index", "nowhere"), f"a-0/{SEGMENT}.index", "a symbolic link"),
    "a folder that leads nowhere": (link("a-0", "nowhere"), "a-0", "a symbolic link to nowhere, and no folder"),
    "a link to itself": (link("a-0", "a-0"), "a-0", "a symbolic link to a-0"),
    "no ordinary file": (in_place_of(f"a-0/{SEGMENT}.log", os.mkfifo), f"a-0/{SEGMENT}.log", "no ordinary file"),
}  # fmt: skip
"""The damage that is done, the name that the report must contain, and words of its sentence."""


@pytest.mark.parametrize("kind", DAMAGES)
def test_log_check_names_each_damaged_file(kind: str, data: Path, capsys: CAPS) -> None:
    act, name, words = DAMAGES[kind]
    assert checked(data, capsys)[0] == 0
    act(data)
    status, printed = checked(data, capsys)
    assert status == 1, printed
    (first, *_) = [line for line in printed.splitlines() if name in line and words in line]
    assert ": damage: " in first
    assert [line for line in printed.splitlines() if line.startswith("  ")], "nobody says what to do"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda data: (data / "meta.properties").unlink(), "the file is missing, although logs exist"),
        (text("meta.properties", "version=1\nnode.id=1\n"), "it has no cluster.id"),
        (text("a-0/leader-epoch-checkpoint", "x"), "the next start makes it anew"),
    ],
)
def test_damage_that_the_next_start_repairs_is_only_a_note(
    act: Callable[[Path], object], words: str, data: Path, capsys: CAPS
) -> None:
    act(data)
    status, printed = checked(data, capsys)
    assert status == 0
    assert [": note: " in line for line in printed.splitlines() if words in line] == [True]


OFFLINE = (
    "exchanged topics", "a file for a folder", "a folder for a segment", "a folder for the topic's id",
    "a folder that leads nowhere", "a link to itself",
)  # fmt: skip


@pytest.mark.parametrize("kind", OFFLINE)
async def test_an_offline_partition_at_the_start_is_logged_and_others_are_served(kind: str, data: Path) -> None:
    DAMAGES[kind][0](data)
    with structlog.testing.capture_logs() as logged:
        async with running(data_dir=data) as server:
            async with connected(server) as client:
                answer = await client.ask(MetadataRequest(None), 13)
            found = {topic.name: [row.error_code for row in topic.partitions] for topic in answer.topics}
            ends = [one.log.end_offset for one in server.topics.by_name["a"].partitions if one is not None]
    assert found["a"] == [5, 0]
    assert ends == [7]
    lines = [one for one in logged if one["event"] in ("a log is offline", "a log is damaged")]
    about = [one for one in lines if (one["topic"], one["partition"]) == ("a", 0)]
    assert about
    assert all(one["reason"] for one in about)
