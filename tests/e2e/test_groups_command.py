"""`muster groups`, as an operator runs it against a server with real members.

`list`, `describe` and `offsets` are tried on Apache Kafka too (MUSTER_TEST_SERVER=kafka).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from muster.cli import main
from tests.e2e.aio import Member, members, send_numbered, shared_out
from tests.e2e.ledger import Ledger, eventually
from tests.support.servers import ServerProcess

NewName = Callable[[str], str]
NewTopic = Callable[[int], str]
SEE = "muster groups list shows the groups of the cluster"
Capture = pytest.CaptureFixture[str]

with_events = pytest.mark.skipif(
    os.environ.get("MUSTER_TEST_SERVER") == "kafka", reason="Apache Kafka has no __group_events"
)


class Command:
    """`muster groups` and what it prints."""

    def __init__(self, bootstrap: str, capsys: Capture) -> None:
        self._bootstrap, self._capsys = bootstrap, capsys

    def __call__(self, *arguments: str, status: int = 0) -> str:
        self._capsys.readouterr()
        got = main(["groups", *arguments, "--bootstrap-server", self._bootstrap])
        output = self._capsys.readouterr()
        assert (got, output.err if status == 0 else "") == (status, "")
        return output.out if status == 0 else output.err

    async def later(self, *arguments: str, status: int = 0) -> str:
        """Run the command while the members of the test continue."""
        return await asyncio.to_thread(self, *arguments, status=status)


@pytest.fixture
def command(server: ServerProcess, capsys: Capture) -> Command:
    return Command(server.bootstrap, capsys)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


async def test_the_groups_commands_list_describe_and_show_offsets(
    server: ServerProcess, command: Command, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(4), Ledger()
    await send_numbered(server.bootstrap, topic, 4, 40)
    pair = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b")]
    async with members(*pair):
        await shared_out(pair, 4)
        await eventually(lambda: len(ledger) == 40, "all records")
        for member in pair:
            await member.commit()
        listed = [line.split() for line in (await command.later("list")).splitlines()]
        assert listed[0] == ["GROUP", "TYPE", "STATE", "PROTOCOL", "TYPE"]
        assert [group, "classic", "Stable", "consumer"] in listed
        as_json = lines(await command.later("list", "--json", "--state", "Stable", "--type", "classic"))
        assert {"group": group, "type": "classic", "state": "Stable", "protocol_type": "consumer"} in as_json
        assert group not in await command.later("list", "--state", "Empty")

        described = (await command.later("describe", group)).splitlines()
        assert described[0] == f"group {group}: Stable, 2 members (type classic, protocol type consumer, roundrobin)"
        assert [row.split()[2:] for row in described[-2:]] == [
            ["a", "127.0.0.1", f"{topic}:0,2"],
            ["b", "127.0.0.1", f"{topic}:1,3"],
        ]
        (whole,) = lines(await command.later("describe", group, "--json"))
        if os.environ.get("MUSTER_TEST_SERVER") == "kafka":  # an Apache Kafka keeps no events
            assert (len(described), whole["verdict"]) == (4, None)
        else:
            # if metadata came late, a client has joined again: the output says so, which is right
            assert whole["verdict"]["level"] == "fine"
            assert whole["verdict"]["text"].startswith("fine")
            assert described[1:2] == [f"verdict: {whole['verdict']['text']}"]
        owners = {member["client_id"]: member["assignment"] for member in whole["members"]}
        assert (whole["state"], owners) == ("Stable", {"a": {topic: [0, 2]}, "b": {topic: [1, 3]}})

        rows = lines(await command.later("offsets", group, "--json"))
        assert [(row["partition"], row["offset"], row["end"], row["lag"]) for row in rows] == [
            (partition, 10, 10, 0) for partition in range(4)
        ]
        assert {row["member"][:1] for row in rows} == {"a", "b"}
    table = [line.split() for line in (await command.later("offsets", group)).splitlines()]
    assert table[0] == ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "MEMBER"]
    assert table[1] == [topic, "0", "10", "10", "0", "-", "-"]


@with_events
async def test_the_history_command_says_the_cause_and_the_member(
    server: ServerProcess, command: Command, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(4), Ledger()
    first, second = (Member(name, ledger, server.bootstrap, [topic], group) for name in ("first", "second"))
    async with members(first):
        await shared_out([first], 4)
        await second.start()
        await shared_out([first, second], 4)
        await second.stop()
        await shared_out([first], 4)
    reported = (await command.later("history", group)).splitlines()
    assert reported[0].startswith("--- 20")
    texts = [line.partition(" ")[2] for line in reported[1:]]
    assert texts[0] == "the group was created"
    assert texts[1].startswith("rebalance 0 → 1, ")
    assert ": member first-" in texts[1]
    assert texts[1].endswith("(client first, 127.0.0.1) joined; 4 newly owned; 1 member, roundrobin")
    assert texts[2].endswith("(client second, 127.0.0.1) joined; 2 partitions moved, 2 kept; 2 members, roundrobin")
    assert "(client second, 127.0.0.1) left; 2 partitions moved, 2 kept; 1 member, roundrobin" in texts[3]
    assert texts[-1].startswith("the group is empty")
    values = lines(await command.later("history", group, "--json"))
    assert {value["group"] for value in values} == {group}
    assert [value["kind"] for value in values].count("rebalance_completed") == 3
    assert lines(await command.later("history", group, "--json", "--last", "2")) == values[-2:]
    assert len((await command.later("history", group, "--all")).splitlines()) > len(reported)
    *found, verdict = (await command.later("history", group, "--episodes")).splitlines()
    assert [one.partition(":")[0] for one in found] == [
        "first formation", "both members stopped and nobody came back"
    ]  # fmt: skip
    assert verdict.startswith("verdict: stopped at ")
    values = lines(await command.later("history", group, "--episodes", "--json"))
    assert [value.get("kind") for value in values] == ["first_formation", "whole_stop", None]


@with_events
async def test_the_watch_command_shows_events_as_they_happen(
    server: ServerProcess, new_topic: NewTopic, group: str, new_name: NewName
) -> None:
    """A group of another name appears and goes meanwhile: one watch shows it, the other does not."""
    topic, ledger, other = new_topic(1), Ledger(), new_name("other")
    start = [sys.executable, "-m", "muster.cli", "groups", "watch", "--bootstrap-server", server.bootstrap]
    watchers = [
        await asyncio.create_subprocess_exec(*start, *more, stdout=subprocess.PIPE)
        for more in (["--json"], [group, "--json"], [])
    ]
    seen: list[list[str]] = [[], [], []]

    async def follow(number: int) -> None:
        stream = watchers[number].stdout
        assert stream is not None
        async for line in stream:
            seen[number].append(line.decode())

    followers = [asyncio.create_task(follow(number)) for number in range(3)]
    try:
        while not all(seen):  # both watches are ready when they show a new group
            async with members(Member("probe", ledger, server.bootstrap, [topic], group)):
                pass
        for name in (other, group):  # from here on no event may be missed
            async with members(Member("m", ledger, server.bootstrap, [topic], name)):
                pass
        await eventually(lambda: any(f'"{other}"' in line for line in seen[0]), "the other group")
        await eventually(lambda: any("group_emptied" in line for line in seen[1]), "the end of the group")
        await eventually(lambda: any(f"{group}: the group is empty" in line for line in seen[2]), "the same in words")
    finally:
        for watcher in watchers:
            watcher.terminate()
        for watcher in watchers:
            await watcher.wait()
        await asyncio.gather(*followers)
    assert {json.loads(line)["group"] for line in seen[1]} == {group}
    assert {json.loads(line)["group"] for line in seen[0]} >= {group, other}


def test_the_groups_commands_name_unknown_groups_in_one_sentence(command: Command, new_name: NewName) -> None:
    nobody = new_name("nobody")
    assert command("describe", nobody, status=1) == f"muster groups describe: there is no group {nobody}: {SEE}\n"
    assert command("offsets", nobody, status=1) == f"muster groups offsets: there is no group {nobody}: {SEE}\n"
    assert command("list", "--state", "Dead") == "there are no groups of that kind\n"


@with_events
def test_the_history_command_says_that_a_group_has_no_history(command: Command, new_name: NewName) -> None:
    nobody = new_name("nobody")
    assert command("history", nobody, status=1) == (
        f"muster groups history: there is no history of a group {nobody}: no member has joined it since its events "
        "are kept; muster groups list shows the existing groups\n"
    )
    assert command("history", nobody, "--last", "0", status=2) == (
        "muster groups history: --last 0: a number of events, 1 or more, was expected\n"
    )


@with_events
async def test_the_watch_command_continues_when_the_server_returns(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server()
    ledger, seen, said = Ledger(), list[str](), list[str]()
    start = [sys.executable, "-m", "muster.cli", "groups", "watch", "--bootstrap-server", server.bootstrap]
    watcher = await asyncio.create_subprocess_exec(*start, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    async def follow(stream: asyncio.StreamReader | None, lines: list[str]) -> None:
        assert stream is not None
        while line := await stream.readline():
            lines.append(line.decode())

    followers = [asyncio.create_task(follow(watcher.stdout, seen)), asyncio.create_task(follow(watcher.stderr, said))]
    try:
        while not seen:
            async with members(Member("probe", ledger, server.bootstrap, ["t"], "before")):
                pass
        server.kill()
        await eventually(lambda: bool(said), "word that the server has gone")
        await asyncio.to_thread(server.start)
        async with members(Member("m", ledger, server.bootstrap, ["t"], "after")):
            pass
        await eventually(lambda: any("after: the group is empty" in line for line in seen), "what happened since")
        assert watcher.returncode is None
    finally:
        watcher.terminate()
        await watcher.wait()
        await asyncio.gather(*followers)
    assert said == [
        f"muster groups watch: the connection to {server.bootstrap} was lost; waiting until it is back\n",
        f"muster groups watch: {server.bootstrap} is back\n",
    ]


@pytest.mark.parametrize("verb", ["history", "watch"])
def test_the_history_command_says_that_group_events_are_switched_off(
    start_server: Callable[..., ServerProcess], capsys: Capture, verb: str
) -> None:
    server = start_server({"muster.group.events.enable": "false"}, in_memory=True)
    reported = Command(server.bootstrap, capsys)(verb, "g", status=1)
    assert reported == (
        f"muster groups {verb}: {server.bootstrap} has no topic __group_events: history and watch need Muster with "
        "muster.group.events.enable=true\n"
    )
