"""`muster transactions`, as an operator runs it against a server with real producers.

`list`, `describe` and `hanging` are tried on Apache Kafka too (MUSTER_TEST_SERVER=kafka).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from muster.cli import main
from muster.cli.transactions.hanging import UNKNOWN, Open, find
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from tests.e2e.aio import producing
from tests.e2e.group_events import with_events
from tests.e2e.ledger import eventually
from tests.support.servers import ServerProcess

NewName = Callable[[str], str]
NewTopic = Callable[[int], str]
Capture = pytest.CaptureFixture[str]


class Command:
    """`muster transactions` and what it prints."""

    def __init__(self, bootstrap: str, capsys: Capture) -> None:
        self._bootstrap, self._capsys = bootstrap, capsys

    def __call__(self, *arguments: str, status: int = 0) -> str:
        self._capsys.readouterr()
        got = main(["transactions", *arguments, "--bootstrap-server", self._bootstrap])
        output = self._capsys.readouterr()
        assert (got, output.err if status == 0 else "") == (status, "")
        return output.out if status == 0 else output.err

    def soon(self, *arguments: str) -> str:
        """The output, empty as long as there are no events: events are written after a moment."""
        self._capsys.readouterr()
        got = main(["transactions", *arguments, "--bootstrap-server", self._bootstrap])
        return self._capsys.readouterr().out if got == 0 else ""

    async def later(self, *arguments: str, status: int = 0) -> str:
        """Run the command while the producers of the test continue."""
        return await asyncio.to_thread(self, *arguments, status=status)

    async def rows(self, *arguments: str) -> list[Any]:
        """The rows, read from JSON."""
        return [json.loads(line) for line in (await self.later(*arguments, "--json")).splitlines()]


def _state(command: Command, name: str) -> object:
    return json.loads(command("describe", name, "--json"))["state"]


@pytest.fixture
def command(server: ServerProcess, capsys: Capture) -> Command:
    return Command(server.bootstrap, capsys)


async def test_the_transactions_commands_list_and_describe_ids(
    server: ServerProcess, command: Command, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, name = new_topic(3), new_name("pay")
    async with producing(server.bootstrap, transactional_id=name, transaction_timeout_ms=30_000) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"x", partition=0)
        await producer.begin_transaction()
        for partition in (0, 2):
            await producer.send_and_wait(topic, b"x", partition=partition)
        (listed,) = [row for row in await command.rows("list") if row["transactional_id"] == name]
        assert listed["state"] == "Ongoing"
        (one,) = await command.rows("describe", name)
        assert (one["state"], one["timeout_ms"], one["topics"]) == ("Ongoing", 30_000, {topic: [0, 2]})
        assert one["producer_id"] == listed["producer_id"]
        words = (await command.later("describe", name)).splitlines()
        assert words[0].startswith(f"transactional id {name}: Ongoing, producer {one['producer_id']} epoch ")
        assert words[1].startswith("open since 20")
        assert words[-1].split() == [topic, "0,2"]
        by_pattern = await command.rows("list", "--pattern", f"{name[:-1]}.", "--open-longer-than", "1ms")
        assert [row["transactional_id"] for row in by_pattern] == [name]
        assert await command.later("hanging", "--topic", topic) == "no transaction hangs\n"
        await producer.abort_transaction()
        await eventually(lambda: _state(command, name) == "CompleteAbort", "the end of it")
    missing = await command.later("describe", name + "x", status=1)
    assert missing.startswith(f"muster transactions describe: there is no transactional id {name}x: ")
    states = await command.later("list", "--state", "Moon", status=2)
    assert "--state 'Moon': one of Empty, Ongoing, PrepareCommit" in states


async def test_the_hanging_command_finds_a_transaction_unknown_to_its_coordinator(
    server: ServerProcess, new_topic: NewTopic, new_name: NewName
) -> None:
    """One transaction is open. Its coordinator seems to have forgotten it: the command reads only the partition."""
    topic, name = new_topic(1), new_name("pay")
    with KafkaClient(Address(*server.address)) as cluster:
        async with producing(server.bootstrap, transactional_id=name) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"x", partition=0)
            places = {1: [(topic, 0)]}
            assert await asyncio.to_thread(find, cluster, places, 900_000, {}) == []
            (late,) = await asyncio.to_thread(find, cluster, places, -1, {})
            assert (late.open[:2], late.transactional_id, late.why != UNKNOWN) == ((topic, 0), name, True)
            assert isinstance(late.open, Open)
            assert late.open.start_offset == 0
            await producer.abort_transaction()


@with_events
async def test_the_history_command_says_who_ended_a_transaction_and_why(
    server: ServerProcess, command: Command, new_topic: NewTopic, new_name: NewName, group: str
) -> None:
    topic, name = new_topic(1), new_name("pay")
    async with producing(server.bootstrap, transactional_id=name, client_id="first") as zombie:
        async with zombie.transaction():
            await zombie.send_and_wait(topic, b"x", partition=0)
            await zombie.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, group)
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"x", partition=0)
        async with producing(server.bootstrap, transactional_id=name, client_id="second") as heir:
            async with heir.transaction():
                await heir.send_and_wait(topic, b"x", partition=0)
            # an end is answered before its markers are written: later events could come in either order
            await eventually(lambda: _state(command, name) == "CompleteCommit", "the end of the heir's transaction")
            with pytest.raises(KafkaError):
                await zombie.commit_transaction()
    kinds: list[str] = []

    def is_complete() -> bool:
        kinds[:] = [json.loads(line)["kind"] for line in command.soon("history", name, "--json").splitlines()]
        return kinds.count("transaction_committed") == 2 and "producer_fenced" in kinds

    await eventually(is_complete, "the whole history")
    assert [kind for kind in kinds if kind != "partitions_added"] == [
        "producer_initialized", "transaction_begun", "transaction_ending", "transaction_committed",
        "transaction_begun", "transaction_ending", "transaction_aborted", "producer_initialized",
        "transaction_begun", "transaction_ending", "transaction_committed", "producer_fenced",
    ]  # fmt: skip
    head, *lines = (await command.later("history", name)).splitlines()
    assert head.startswith("--- 20")
    texts = [line.partition(" ")[2] for line in lines]
    assert texts[0].endswith("(client first, 127.0.0.1) began: the id is new")
    assert texts[1].startswith("transaction committed after ")
    assert f"; {topic}:0, offsets" in texts[1]
    # the group's event comes within a second

    def known() -> bool:
        return f"; {topic}:0, offsets of {group}; producer " in command("history", name)

    await eventually(known, "the group of the offsets")
    assert ": another producer took the id over; " in texts[2]
    assert "(client second, 127.0.0.1) took the id over; producer " in texts[3]
    assert texts[4].startswith("transaction committed after ")
    assert "(client first, 127.0.0.1) refused: " in texts[5]
    assert len((await command.later("history", name, "--all")).splitlines()) > len(lines) + 1
    assert len((await command.later("history", name, "--json", "--last", "2")).splitlines()) == 2
    assert main(["groups", "history", group, "--all", "--bootstrap-server", server.bootstrap]) == 0


@with_events
async def test_the_history_command_says_that_an_id_has_no_history(
    server: ServerProcess, command: Command, new_topic: NewTopic, new_name: NewName
) -> None:
    async with producing(server.bootstrap, transactional_id=new_name("some")):
        pass
    nobody = new_name("nobody")
    assert await command.later("history", nobody, status=1) == (
        f"muster transactions history: there is no history of a transactional id {nobody}: no producer has used it "
        "since its events are kept; muster transactions list shows the existing ids\n"
    )


async def test_the_history_command_says_that_transaction_events_are_switched_off(
    start_server: Callable[..., ServerProcess], capsys: Capture
) -> None:
    server = start_server({"muster.transaction.events.enable": "false"}, in_memory=True)
    async with producing(server.bootstrap, transactional_id="t"):
        pass
    output = await Command(server.bootstrap, capsys).later("history", "t", status=1)
    assert output.startswith(
        f"muster transactions history: {server.bootstrap} has no topic __transaction_events: history needs Muster with "
        "muster.transaction.events.enable=true"
    )
