"""`kafka-consumer-groups.sh` and `kafka-groups.sh` on groups of both protocols: Muster beside Kafka, word by word.

The same groups are made on both; then Kafka's own tools run each command on both. Names replace what always differs
(ids of members, ports, times).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from muster.cli import main
from tests.conformance.java_tools import NOISE, Tools, tools
from tests.e2e.conftest import create_topic
from tests.e2e.ledger import Ledger, eventually_sync
from tests.e2e.sync_clients import (
    confluent_admin,
    confluent_consumer,
    confluent_member,
    confluent_produce,
    thread_members,
)
from tests.e2e.test_consumer_protocol import NEXT, PROMPT
from tests.support.servers import QUICK, KafkaServer, MusterServer, ServerProcess

__all__ = ["tools"]
PLANNED = re.compile(r"([^, ]+,)?[^, ]+,[0-9]+,[0-9]+")
"""A line of a plan: group, topic, partition and offset."""
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
RANGE: dict[str, Any] = {"partition_assignment_strategy": "range"}


LIVING = ("natives", "mixed", "pattern", "classic")
EMPTY = ("gone", "gone-classic", "simple")


class Stage:
    """The groups on one server, and the output of the tools there."""

    def __init__(self, server: ServerProcess, tools: Tools) -> None:
        self.server, self._tools = server, tools
        self._admin = confluent_admin(server.bootstrap)
        self._names: dict[str, str] = {}

    def fill(self, until: ExitStack) -> None:
        """Make groups of each kind: with members until the end of the block, and without."""
        for topic, partitions in {"orders": 4, "payments": 2, "payments-old": 1}.items():
            create_topic(self.server, topic, partitions)
            for partition in range(partitions):
                confluent_produce(self.server.bootstrap, topic, [(None, b"v")] * 10, partition=partition)
        ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)

        def member(name: str, group: str, topic: str, **settings: Any) -> Any:
            return confluent_member(name, ledgers[group], self.server.bootstrap, topic, group, **settings)

        kinds: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
            "gone": [("g", "orders", NEXT)],
            "gone-classic": [("g", "orders", RANGE)],
            "natives": [("a", "orders", NEXT), ("b", "orders", {**NEXT, "group_instance_id": "i-b"})],
            "mixed": [("new", "orders", NEXT), ("old", "orders", RANGE)],
            "pattern": [("p", "^pay.*", NEXT)],
            "classic": [("c", "orders", RANGE), ("d", "orders", {**RANGE, "group_instance_id": "i-d"})],
        }
        for group, rows in kinds.items():
            there: list[Any] = []
            with ExitStack() as block:
                for name, topic, settings in rows:
                    there.append(member(name, group, topic, **settings))
                    (until if group in LIVING else block).enter_context(thread_members(there[-1]))
                    count = 3 if topic == "^pay.*" else 4
                    eventually_sync(
                        lambda: sorted(len(one.assignment) for one in there) == [count // len(there)] * len(there),  # noqa: B023  # at once
                        f"{group} to share",
                    )
                    # members commit what they have read when they leave or give a partition up
                    eventually_sync(lambda: len(ledgers[group]) == 10 * count, "all records")  # noqa: B023  # at once
        with confluent_consumer(self.server.bootstrap, group_id="simple") as consumer:
            consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 1, 7)], asynchronous=False)
        for group in LIVING:
            for one in self._admin.describe_consumer_groups([group])[group].result(10).members:
                self._names[one.member_id] = f"id-of-{one.client_id}".ljust(len(one.member_id), "-")

    def __call__(self, *words: str) -> str:
        text = self._tools(words[0], "--bootstrap-server", self.server.bootstrap, *words[1:])
        for member_id, name in self._names.items():
            text = text.replace(member_id, name)
        text = text.replace(self.server.bootstrap, "HOST:PORT")
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", text)
        text = text.partition("\nOption  ")[0]  # a wrong command, and then the correct one
        # the tool prints tables in the order of a hash of the ids
        head, *lines = text.splitlines()
        return "\n".join(
            [head, *sorted(line.rstrip() for line in lines if line.strip() and not line.startswith(NOISE))]
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[tuple[Stage, Stage]]:
    """Muster and Kafka with the same groups."""
    settings = {**QUICK, **PROMPT}
    servers = (
        MusterServer(tmp_path_factory.mktemp("muster"), settings, in_memory=True),
        KafkaServer(tmp_path_factory.mktemp("kafka"), settings),
    )
    with ExitStack() as until:
        stages = []
        for server in servers:
            server.start()
            until.callback(server.stop)
        for server in servers:
            stages.append(Stage(server, tools))
            stages[-1].fill(until)
        yield stages[0], stages[1]


def commands(csv: Path) -> Iterator[tuple[str, ...]]:
    """Commands, those first that change nothing."""
    for more in (
        (), ("--state",), ("--type",), ("--state", "--type"), ("--type", "consumer"), ("--type", "Classic"),
        ("--state", "stable"), ("--state", "empty,stable", "--type", "consumer"), ("--type", "consumer,classic"),
        ("--state", "Assigning,Reconciling"), ("--state", "PreparingRebalance", "--type", "classic"),
        ("--type", "wrong"), ("--state", "wrong"),
    ):  # fmt: skip
        yield GROUPS, "--list", *more
    for more in (
        (), ("--group-type", "consumer"), ("--group-type", "classic"), ("--protocol", "consumer"),
        ("--group-type", "consumer", "--protocol", "consumer"), ("--consumer",), ("--share",), ("--streams",),
    ):  # fmt: skip
        yield ALL_GROUPS, "--list", *more
    for group in (*LIVING, *EMPTY, "nobody"):
        for more in (
            (), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",),
            ("--state", "--verbose"),
        ):  # fmt: skip
            yield GROUPS, "--describe", "--group", group, *more
    for more in (("--members", "--verbose"), ("--state",)):
        yield GROUPS, "--describe", "--all-groups", *more
    for pattern in ("pay.*", "^(?:a|b)$", "(?=a)", "["):
        yield GROUPS, "--validate-regex", pattern
    for group in ("natives", "mixed", "classic", "nobody"):
        yield GROUPS, "--delete", "--group", group
        yield GROUPS, "--delete-offsets", "--group", group, "--topic", "orders"
        yield GROUPS, "--delete-offsets", "--group", group, "--topic", "payments"
        yield GROUPS, "--reset-offsets", "--group", group, "--topic", "orders", "--to-earliest", "--execute"
    for group in ("gone", "gone-classic", "simple"):
        for how in (
            ("--to-earliest",), ("--to-latest",), ("--to-current",), ("--to-offset", "3"), ("--shift-by", "-2"),
            ("--to-datetime", "2020-01-01T00:00:00.000"), ("--by-duration", "P1D"), ("--to-offset", "99"),
        ):  # fmt: skip
            yield GROUPS, "--reset-offsets", "--group", group, "--all-topics", *how, "--dry-run"
        yield GROUPS, "--reset-offsets", "--group", group, "--topic", "orders:0,2", "--to-offset", "4", "--export"
        yield GROUPS, "--reset-offsets", "--group", group, "--topic", "orders:1,3", "--to-offset", "5", "--execute"
        yield GROUPS, "--describe", "--group", group
        yield GROUPS, "--delete-offsets", "--group", group, "--topic", "orders:0"
        yield GROUPS, "--delete-offsets", "--group", group, "--topic", "payments"
        yield GROUPS, "--describe", "--group", group, "--offsets"
        yield GROUPS, "--reset-offsets", "--group", group, "--topic", "payments", "--to-latest", "--execute"
        yield GROUPS, "--describe", "--group", group, "--offsets"
        yield GROUPS, "--delete", "--group", group
        yield GROUPS, "--reset-offsets", "--group", group, "--from-file", str(csv), "--execute"
        yield GROUPS, "--describe", "--group", group, "--offsets"
    yield GROUPS, "--delete", "--group", "gone"
    yield GROUPS, "--reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "--dry-run"
    yield GROUPS, "--reset-offsets", "--group", "gone", "--topic", "orders", "--to-latest", "--execute"
    yield GROUPS, "--describe", "--group", "gone", "--state"
    yield GROUPS, "--list", "--state", "--type"


RESETS = (
    (("gone",), ("--all-topics", "--to-earliest")),
    (("gone",), ("--topic", "orders", "--to-latest")),
    (("simple",), ("--topic", "orders:0,1", "--topic", "payments", "--to-current")),
    (("simple",), ("--all-topics", "--shift-by", "-3")),
    (("simple",), ("--all-topics", "--shift-by", "30")),
    (("simple",), ("--topic", "orders", "--shift-by", "1")),
    (("gone-classic",), ("--all-topics", "--to-offset", "99")),
    (("gone-classic",), ("--topic", "orders", "--to-datetime", "2020-01-01T00:00:00.000")),
    (("gone-classic",), ("--topic", "orders", "--to-datetime", "2100-01-01T00:00:00.000+02:00")),
    (("gone-classic",), ("--topic", "orders", "--by-duration", "P1DT1H")),
    (("simple",), ("--from-file", "CSV")),
    (("nobody-yet",), ("--topic", "payments-old", "--to-latest")),
    (("classic",), ("--topic", "orders", "--to-latest")),
    (("natives",), ("--topic", "orders", "--to-latest")),
    (("simple",), ("--topic", "nowhere", "--to-latest")),
    (("gone", "simple"), ("--all-topics", "--to-earliest")),
    ((), ("--all-topics", "--to-earliest")),
)
"""Groups (none: all), and the targets of their offsets."""


@pytest.mark.timeout(300)
def test_muster_groups_offsets_reset_prints_the_plan_of_kafkas_tool(
    pair: tuple[Stage, Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv = tmp_path / "offsets.csv"
    csv.write_text("orders,0,2\norders,3,9\n", encoding="utf-8")
    differ = []
    for stage in pair:
        for groups, given in RESETS:
            how = [str(csv) if one == "CSV" else one for one in given]
            named = [word for one in groups for word in ("--group", one)] or ["--all-groups"]
            theirs = stage(GROUPS, "--reset-offsets", *named, *how, "--export", "--dry-run").replace('"', "")
            capsys.readouterr()
            status = main(["groups", "offsets", "reset", *(groups or ["--all-groups"]), *how, "--export",
                           "--bootstrap-server", stage.server.bootstrap])  # fmt: skip
            said = capsys.readouterr()
            plan = sorted(line for line in theirs.splitlines() if PLANNED.fullmatch(line))
            refused = "Error" in theirs or theirs.startswith("status 1")
            if sorted(said.out.splitlines()) != plan or (status != 0) != refused:
                differ.append(f"{groups} {how}\nours: {status} {said}\ntheirs:\n{theirs}")
    assert not differ, "\n".join(differ)


@pytest.mark.timeout(600)
def test_each_group_command_prints_the_same_for_muster_and_kafka(pair: tuple[Stage, Stage], tmp_path: Path) -> None:
    muster, kafka = pair
    csv = tmp_path / "offsets.csv"
    csv.write_text("orders,0,2\norders,3,9\n", encoding="utf-8")
    differ = {}
    for words in commands(csv):
        ours, theirs = muster(*words), kafka(*words)
        if ours != theirs:
            differ[" ".join(words)] = f"ours:\n{ours}\ntheirs:\n{theirs}\n"
    assert not differ, "\n".join(f"=== {words}\n{texts}" for words, texts in differ.items())
