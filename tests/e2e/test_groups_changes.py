"""`muster groups` that changes groups: offsets reset and deleted, members removed, groups deleted.

All of it is tried on Apache Kafka too (MUSTER_TEST_SERVER=kafka).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from muster.cli import main
from tests.e2e.aio import Member, members, shared_out
from tests.e2e.ledger import Ledger, eventually
from tests.support.servers import ServerProcess

NewName = Callable[[str], str]
NewTopic = Callable[[int], str]
FIRST_MS = 1_700_000_000_000


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """`muster groups` and what it prints."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._bootstrap, self._capsys = bootstrap, capsys

    def __call__(self, *arguments: str) -> Said:
        self._capsys.readouterr()
        # the first server is not running
        status = main(["groups", *arguments, "--bootstrap-server", f"127.0.0.1:1,{self._bootstrap}"])
        return Said(status, *self._capsys.readouterr())

    async def later(self, *arguments: str) -> Said:
        """Run the command while the members of the test continue."""
        return await asyncio.to_thread(self, *arguments)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        rows = self("offsets", group, "--json").rows
        return {(row["topic"], row["partition"]): row["offset"] for row in rows}


@pytest.fixture
def command(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(server.bootstrap, capsys)


@pytest.fixture
def topic(server: ServerProcess, new_topic: NewTopic) -> str:
    """A topic of two partitions with ten records each, a second between them."""
    name = new_topic(2)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for at in range(20):
        producer.produce(name, b"x", partition=at % 2, timestamp=FIRST_MS + at // 2 * 1_000)
    assert producer.flush(30) == 0
    return name


def commit(server: ServerProcess, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit as a consumer without members does."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in offsets.items()], asynchronous=False)
    consumer.close()


SEE = "muster groups list shows the groups of the cluster"
DRY = "nothing was changed; give --execute to do it\n"


def test_each_target_of_an_offset_reset_is_computed(
    server: ServerProcess, command: Command, topic: str, group: str
) -> None:
    """Each scenario of kafka-consumer-groups is shown, and not carried out."""
    before = {(topic, 0): 4}
    commit(server, group, before)
    both = ["--topic", topic]

    def planned(*arguments: str, notes: int = 0) -> list[int]:
        said = command("offsets", "reset", group, "--json", *arguments)
        assert (said.status, said.err.count("\n")) == (0, notes + 1), said.err
        assert said.err.endswith(DRY)
        assert not any(row["executed"] for row in said.rows)
        return [row["new_offset"] for row in said.rows]

    assert planned(*both, "--to-earliest") == [0, 0]
    assert planned(*both, "--to-latest", "--dry-run") == [10, 10]
    assert planned("--all-topics", "--to-latest") == [10]
    assert planned(*both, "--to-current") == [4, 10]
    assert planned(*both, "--to-offset", "7") == [7, 7]
    assert planned(*both, "--to-offset", "70", notes=2) == [10, 10]
    assert planned("--topic", f"{topic}:0", "--shift-by", "3") == [7]
    assert planned("--topic", f"{topic}:0", "--shift-by", "-30", notes=1) == [0]
    assert planned(*both, "--to-datetime", "2023-11-14T22:13:22.500") == [3, 3]
    assert planned(*both, "--to-datetime", "2023-11-14T23:13:22+01:00") == [2, 2]
    assert planned(*both, "--to-datetime", "2100-01-01T00:00:00", notes=2) == [10, 10]
    assert planned(*both, "--by-duration", "P100000D") == [0, 0]
    assert planned(*both, "--by-duration", "1s", notes=2) == [10, 10]
    said = command("offsets", "reset", group, *both, "--shift-by", "3")
    assert (said.status, said.out) == (1, "")
    assert f"group {group} has no committed offset in {topic}-1 that could be shifted" in said.err
    assert command.committed(group) == before


def test_offsets_are_reset_exported_to_a_file_and_restored(
    server: ServerProcess, command: Command, topic: str, new_name: NewName, tmp_path: Path
) -> None:
    first, second = new_name("group"), new_name("group")
    commit(server, first, {(topic, 0): 4, (topic, 1): 5})
    commit(server, second, {(topic, 1): 6})
    kept = command("offsets", first, second, "--export")
    assert kept.out.splitlines() == [f"{first},{topic},0,4", f"{first},{topic},1,5", f"{second},{topic},1,6"]
    (tmp_path / "kept.csv").write_text(kept.out)
    done = command("offsets", "reset", first, second, "--topic", topic, "--to-latest", "--execute", "--json")
    assert [(row["group"], row["partition"], row["offset"], row["new_offset"]) for row in done.rows] == [
        (first, 0, 4, 10), (first, 1, 5, 10), (second, 0, None, 10), (second, 1, 6, 10)
    ]  # fmt: skip
    assert all(row["executed"] for row in done.rows)
    assert (done.status, done.err) == (0, "")
    assert command.committed(first) == command.committed(second) == {(topic, 0): 10, (topic, 1): 10}
    again = command("offsets", "reset", first, second, "--from-file", str(tmp_path / "kept.csv"), "--execute")
    assert (again.status, again.err) == (0, "")
    assert again.out.splitlines()[0].split() == ["GROUP", "TOPIC", "PARTITION", "OFFSET", "NEW", "OFFSET"]
    assert command.committed(first) == {(topic, 0): 4, (topic, 1): 5}
    assert command.committed(second) == {(topic, 0): 10, (topic, 1): 6}
    # one group: its lines need not name it
    plan = command("offsets", "reset", first, "--all-topics", "--to-earliest", "--export")
    assert plan.out == f"{topic},0,0\n{topic},1,0\n"


def test_offsets_can_be_set_before_the_group_exists(
    server: ServerProcess, command: Command, topic: str, group: str
) -> None:
    done = command("offsets", "reset", group, "--topic", f"{topic}:1", "--to-offset", "3", "--execute")
    assert done.status == 0
    assert done.err.endswith(f"there is no group {group} yet: its first members will find these offsets\n")
    assert command.committed(group) == {(topic, 1): 3}


def test_an_offset_reset_of_unknown_topics_or_partitions_is_refused(command: Command, topic: str, group: str) -> None:
    said = command("offsets", "reset", group, "--topic", "nosuch", "--to-latest", "--execute")
    assert (said.status, said.err) == (1, "muster groups offsets reset: --topic nosuch: there is no such topic\n")
    said = command("offsets", "reset", group, "--topic", f"{topic}:0,2", "--to-latest", "--execute")
    assert said.err == f"muster groups offsets reset: --topic {topic}:2: the partitions of {topic} are 0 to 1\n"
    said = command("offsets", "reset", group, "--all-topics", "--to-latest", "--execute")
    assert (said.status, said.out) == (1, "")
    assert said.err.endswith(f"group {group} has no committed offsets: name topics with --topic\n")


async def test_a_group_with_members_is_refused_as_by_kafka(
    server: ServerProcess, command: Command, topic: str, new_topic: NewTopic, group: str
) -> None:
    ledger, other = Ledger(), new_topic(1)
    pair = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b")]
    async with members(*pair):
        await shared_out(pair, 2)
        await eventually(lambda: len(ledger) == 20, "all records")
        for member in pair:
            await member.commit()
        said = await command.later("offsets", "reset", group, "--topic", topic, "--to-earliest", "--execute")
        assert (said.status, said.out) == (1, "")
        assert said.err == (
            f"muster groups offsets reset: the offsets of group {group} can be reset only while it is inactive, and "
            "its state is Stable: stop its 2 members first\n"
        )
        said = await command.later("offsets", "delete", group, "--topic", topic, "--execute")
        assert (said.status, said.out) == (1, "")
        assert f"offsets of {group} in {topic}:0-1 were not deleted: GROUP_SUBSCRIBED_TO_TOPIC (" in said.err
        said = await command.later("delete", group, "--execute")
        assert (said.status, said.out) == (1, "")
        assert (
            said.err == f"muster groups delete: group {group} is not empty: its state is Stable; stop its 2 members\n"
        )
    # offsets of a topic without subscribers
    commit(server, group, {(other, 0): 1})
    said = command("offsets", "delete", group, "--topic", topic, "--topic", other)
    assert (said.status, said.err.endswith(DRY)) == (0, True)
    assert set(command.committed(group)) == {(topic, 0), (topic, 1), (other, 0)}
    said = command("offsets", "delete", group, "--topic", f"{topic}:1", "--topic", other, "--execute", "--json")
    assert [(row["topic"], row["partition"], row["deleted"]) for row in said.rows] == sorted(
        [(topic, 1, True), (other, 0, True)]
    )
    assert set(command.committed(group)) == {(topic, 0)}
    assert command("delete", group).err.endswith(DRY)
    assert f'"group": "{group}"' in command("list", "--json").out
    assert command("delete", group, "--execute").out.splitlines()[1].split() == [group, "classic", "Empty", "yes"]
    assert f'"group": "{group}"' not in command("list", "--json").out
    said = command("delete", group, "--execute")
    assert (said.status, said.err) == (1, f"muster groups delete: there is no group {group}: {SEE}\n")
    said = command("offsets", "delete", group, "--all-topics")
    assert (said.status, said.err) == (1, f"muster groups offsets delete: there is no group {group}: {SEE}\n")


async def test_the_remove_member_command_removes_members(
    server: ServerProcess, command: Command, topic: str, group: str
) -> None:
    ledger = Ledger()
    gone = Member("gone", ledger, server.bootstrap, [topic], group)
    static = Member("static", ledger, server.bootstrap, [topic], group, group_instance_id=f"{group}-1")
    async with members(gone, static):
        await shared_out([gone, static], 2)
        described = (await command.later("describe", group, "--json")).rows[0]["members"]
        ids = {row["client_id"]: row["member"] for row in described}
        said = await command.later("remove-member", group, "--instance-id", f"{group}-1", "--json")
        assert [(row["member"], row["instance"], row["removed"]) for row in said.rows] == [
            (ids["static"], f"{group}-1", False)
        ]
        assert said.err.endswith(DRY)
        said = await command.later("remove-member", group, "--member-id", "nobody", "--execute")
        assert (said.status, said.out) == (1, "")
        assert f"group {group} has no member nobody" in said.err
        said = await command.later("remove-member", group, "--member-id", ids["gone"], "--execute", "--json")
        assert [(row["member"], row["removed"]) for row in said.rows] == [(ids["gone"], True)]

        async def is_back() -> bool:
            """Whether the client has joined again, with another id, and both have partitions."""
            (row,) = (await command.later("describe", group, "--json")).rows
            found = {one["member"] for one in row["members"]}
            return row["state"] == "Stable" and len(found) == 2 and ids["gone"] not in found

        while not await is_back():
            pass
        await shared_out([gone, static], 2)
        said = await command.later("remove-member", group, "--all-members", "--json")
        assert {row["client"] for row in said.rows} == {"gone", "static"}
        assert not any(row["removed"] for row in said.rows)


def test_an_offset_reset_of_all_groups_skips_groups_with_members(
    server: ServerProcess, command: Command, topic: str, new_name: NewName
) -> None:
    """Other tests have groups here too, some of them with members."""
    first, second = new_name("group"), new_name("group")
    commit(server, first, {(topic, 0): 4})
    commit(server, second, {(topic, 1): 6})
    text = command("offsets", "--all-groups").out.splitlines()
    assert text[0].split() == ["GROUP", "TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "MEMBER"]
    assert {tuple(line.split()[:6]) for line in text} > {
        (first, topic, "0", "4", "10", "6"), (second, topic, "1", "6", "10", "4")
    }  # fmt: skip
    described = command("describe", "--all-groups")
    assert described.status == 0
    for group in (first, second):
        assert f"group {group}: Empty, 0 members (type classic)" in described.out.splitlines()
    said = command("offsets", "reset", "--all-groups", "--topic", f"{topic}:0", "--to-latest", "--json")
    planned = {row["group"]: (row["offset"], row["new_offset"]) for row in said.rows}
    assert (planned[first], planned[second]) == ((4, 10), (None, 10))
