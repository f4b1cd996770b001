"""`muster transactions`: what it prints of a cluster's answers. tests/e2e asks a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.cli import main
from muster.cli.transactions.hanging import MAX_TIMEOUT, TOO_LONG, UNKNOWN, hanging
from muster.cli.transactions.show import describe, list_transactions
from muster.client.connection import RequestFailed
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.api import ApiKey
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages import describe_transactions as described
from muster.protocol.messages import list_transactions as listed
from muster.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from muster.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from muster.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

Capture = pytest.CaptureFixture[str]


class FakeCluster:
    """One node, whose answers are set."""

    def __init__(self) -> None:
        self.address = "broker:9092"
        self.bootstrap = self
        self.nodes = {1: ("broker", 9092)}
        self.ids: dict[str, described.TransactionState] = {}
        self.open: list[tuple[str, int, ProducerState]] = []
        self.list_error = 0
        self.unknown_states: list[str] = []
        self.partition_error = 0
        self.before_each: Callable[[int], object] = lambda _: None

    def node(self, node_id: int) -> FakeCluster:
        return self

    def every_node(self) -> list[FakeCluster]:
        return [self]

    def coordinator(self, name: str, kind: int) -> FakeCluster:
        assert kind == 1
        return self

    def ask_coordinator(self, name: str, key: int, request: Any, errors: Any, kind: int) -> tuple[FakeCluster, Any]:
        del errors
        return self, self.coordinator(name, kind).ask(key, request)

    def topics(self, names: list[str] | None) -> dict[str, MetadataResponseTopic]:
        rows = [
            MetadataResponsePartition(partition_index=index, leader_id=1 if index < 2 else -1) for index in range(2)
        ]
        found = {"orders": MetadataResponseTopic(name="orders", partitions=rows)}
        return {name: one for name, one in found.items() if names is None or name in names}

    def topic_error(self, name: str) -> str:
        assert name not in self.topics(None)
        return "there is no such topic"

    def ask(self, key: int, request: Any) -> Any:
        self.before_each(key)
        if key == ApiKey.LIST_TRANSACTIONS:
            rows = [
                listed.TransactionState(name, one.producer_id, one.transaction_state)
                for name, one in sorted(self.ids.items(), reverse=True)
                if not request.producer_id_filters or one.producer_id in request.producer_id_filters
            ]
            return listed.ListTransactionsResponse(0, self.list_error, self.unknown_states, rows)
        if key == ApiKey.DESCRIBE_TRANSACTIONS:
            (name,) = request.transactional_ids
            one = self.ids.get(name, described.TransactionState(105, name))
            return described.DescribeTransactionsResponse(0, [one])
        if key == ApiKey.DESCRIBE_CONFIGS:
            result = DescribeConfigsResult(configs=[DescribeConfigsResourceResult(MAX_TIMEOUT, "900000")])
            return DescribeConfigsResponse(results=[result])
        assert key == ApiKey.DESCRIBE_PRODUCERS
        topics = [
            TopicResponse(
                topic.name,
                [
                    PartitionResponse(
                        index,
                        self.partition_error,
                        None,
                        [state for name, partition, state in self.open if (name, partition) == (topic.name, index)],
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(0, topics)


@pytest.fixture
def cluster() -> Any:
    return FakeCluster()


def state(
    name: str, producer_id: int = 7, topics: dict[str, list[int]] | None = None, began: int = -1, at: str = "Ongoing"
) -> described.TransactionState:
    rows = [described.TopicData(topic, partitions) for topic, partitions in (topics or {}).items()]
    return described.TransactionState(0, name, at, 60_000, began, producer_id, 3, rows)


def test_transactional_ids_are_listed_by_name(cluster: Any, capsys: Capture) -> None:
    cluster.ids = {"pay-1": state("pay-1"), "pay-2": state("pay-2", 8, at="CompleteCommit")}
    assert list_transactions(cluster, [], [], None, None, as_json=False) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["TRANSACTIONAL", "ID", "PRODUCER", "ID", "STATE"],
        ["pay-1", "7", "Ongoing"],
        ["pay-2", "8", "CompleteCommit"],
    ]
    list_transactions(cluster, [], [8], None, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "transactional_id": "pay-2", "producer_id": 8, "state": "CompleteCommit",
    }  # fmt: skip


def test_an_empty_list_of_transactions_names_the_reason(cluster: Any, capsys: Capture) -> None:
    assert list_transactions(cluster, [], [], None, None, as_json=False) == 0
    assert capsys.readouterr().out == "there are no transactional ids\n"
    assert list_transactions(cluster, ["Ongoing"], [], None, None, as_json=False) == 0
    assert capsys.readouterr().out == "there are no transactional ids of that kind\n"
    cluster.list_error = 14
    assert list_transactions(cluster, [], [], None, None, as_json=False) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == (
        "",
        "muster transactions list: broker:9092 does not list its transactions: COORDINATOR_LOAD_IN_PROGRESS (The "
        "coordinator is loading and hence can't process requests.)\n",
    )
    cluster.unknown_states = ["Moon"]
    with pytest.raises(RequestFailed, match="--state Moon: broker:9092 does not know that state; Empty, Ongoing, Prep"):
        list_transactions(cluster, ["Moon"], [], None, None, as_json=False)


def test_transaction_filters_are_refused_for_an_old_server(cluster: Any) -> None:
    def refuses(_: int) -> None:
        raise UnrepresentableField("ListTransactionsRequest")

    cluster.before_each = refuses
    with pytest.raises(RequestFailed, match="it is too old; leave --open-longer-than and --pattern out"):
        list_transactions(cluster, [], [], None, 5, as_json=False)


def test_describe_prints_the_state_of_a_transaction(cluster: Any, capsys: Capture) -> None:
    began = wall_now_ms() - 5_000
    cluster.ids = {
        "pay-1": state("pay-1", topics={"orders": [2, 0, 1], "a": [5]}, began=began),
        "pay-2": state("pay-2", at="CompleteAbort"),
    }
    assert describe(cluster, ["pay-1", "nobody", "pay-2", "pay-1"], as_json=False) == 1
    output = capsys.readouterr()
    head, since, *table = output.out.splitlines()
    assert head == "transactional id pay-1: Ongoing, producer 7 epoch 3 (timeout 1 min 0 s, coordinator broker:9092)"
    assert since.startswith("open since 2")
    assert ", for 5" in since
    assert [line.split() for line in table[:3]] == [["TOPIC", "PARTITIONS"], ["a", "5"], ["orders", "0-2"]]
    assert table[3:] == [
        "",
        "transactional id pay-2: CompleteAbort, producer 7 epoch 3 (timeout 1 min 0 s, coordinator broker:9092)",
    ]
    assert output.err == (
        "muster transactions describe: there is no transactional id nobody: muster transactions list shows the "
        "existing ones\n"
    )
    assert describe(cluster, ["pay-1"], as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {
        "transactional_id": "pay-1", "state": "Ongoing", "producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000,
        "began": began, "coordinator": "broker:9092", "topics": {"a": [5], "orders": [0, 1, 2]},
    }  # fmt: skip
    cluster.ids["pay-1"].error_code = 53
    assert describe(cluster, ["pay-1"], as_json=True) == 1
    assert "pay-1 cannot be described: TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in capsys.readouterr().err


def producing(producer_id: int, start: int, last: int) -> ProducerState:
    return ProducerState(producer_id, 3, 5, last, 0, start)


def test_hanging_transactions_are_listed_with_the_command_that_ends_them(cluster: Any, capsys: Capture) -> None:
    now = wall_now_ms()
    cluster.ids = {
        "known": state("known", 7, {"orders": [0]}, now - 1_000),
        "long": state("long", 8, {"orders": [0, 1]}, now - 901_000),
        "elsewhere": state("elsewhere", 9, {"orders": [0]}, now - 1_000),
    }
    cluster.open = [
        ("orders", 0, producing(7, 3, now)),
        ("orders", 1, producing(8, 5, now)),
        ("orders", 1, producing(9, 6, now - 2_000)),
        ("orders", 1, producing(10, 7, -1)),
        ("orders", 1, producing(11, -1, now)),
    ]
    assert hanging(cluster, None, as_json=True) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["producer_id"], row["transactional_id"], row["why"]) for row in rows] == [
        (8, "long", TOO_LONG),
        (9, "elsewhere", UNKNOWN),
        (10, None, UNKNOWN),
    ]
    assert [row["open_ms"] // 1_000 for row in rows] == [901, 2, 0]
    command = "kafka-transactions.sh --bootstrap-server broker:9092 abort --topic orders --partition 1 --start-offset 5"
    assert rows[0]["command"] == command
    assert hanging(cluster, ["orders"], as_json=False) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].split() == [
        *("TOPIC", "PARTITION", "PRODUCER", "ID", "EPOCH", "TRANSACTIONAL", "ID", "START", "OFFSET", "OPEN", "FOR"),
        "WHY",
    ]
    assert output[1].endswith("  15 min 1 s  open for longer than transaction.max.timeout.ms")
    assert output[5:7] == ["these commands end them; their records count as aborted then:", f"  {command}"]


def test_a_transaction_that_ended_meanwhile_does_not_hang(cluster: Any, capsys: Capture) -> None:
    cluster.open = [("orders", 0, producing(7, 3, 5))]

    def ends(key: int) -> None:
        if key == ApiKey.LIST_TRANSACTIONS:
            cluster.open.clear()

    cluster.before_each = ends
    assert hanging(cluster, None, as_json=False) == 0
    assert capsys.readouterr().out == "no transaction hangs\n"


def test_partitions_that_cannot_be_checked_for_hanging_are_named(cluster: Any, capsys: Capture) -> None:
    cluster.partition_error = 29
    assert hanging(cluster, None, as_json=False) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("muster transactions hanging: orders-0 cannot be checked: TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(RequestFailed, match="--topic moon: there is no such topic"):
        hanging(cluster, ["moon"], as_json=False)
    cluster.partition_error, cluster.list_error = 0, 14
    cluster.open = [("orders", 0, producing(7, 3, 5))]
    with pytest.raises(
        RequestFailed, match=r"does not list its transactions: .*; without it, nobody knows which transactions hang"
    ):
        hanging(cluster, None, as_json=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("history", "x", "--last", "0"), "--last 0: a number of events, 1 or more, was expected"),
        (("list", "--open-longer-than", "5"), "--open-longer-than 5: a time such as 500ms, 10s, 5m or 2h was expected"),
        (("list", "--bootstrap-server", "x:y"), "--bootstrap-server"),
    ],
)
def test_wrong_options_of_transactions_are_refused(arguments: tuple[str, ...], sentence: str, capsys: Capture) -> None:
    assert main(["transactions", *arguments]) == 2
    assert f"muster transactions {arguments[0]}: {sentence}" in capsys.readouterr().err


def test_each_transactions_command_has_its_own_help(capsys: Capture) -> None:
    expected = {"list": "--pattern REGEX", "describe": "ID", "history": "--last N", "hanging": "Apache Kafka"}
    for verb, words in expected.items():
        with pytest.raises(SystemExit):
            main(["transactions", verb, "--help"])
        assert words in " ".join(capsys.readouterr().out.split())
