"""`group.consumer.assignors`: valid names, the sentences that refuse a start, and a user's class at work."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.config import ConfigError, load
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.support.muster import Client, connected, running

NAME = "group.consumer.assignors"
CLASSES = "org.apache.kafka.coordinator.group.assignor."
EXAMPLES = Path(__file__).parents[3] / "examples"


class Moody:
    """Gives everything to one member, and fails for more than one."""

    name = "moody"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        if len(members) > 1:
            raise ArithmeticError("too many")
        return {members[0].member_id: {name: list(range(topic.partitions)) for name, topic in topics.items()}}


class Greedy:
    """A strategy with the name of one of Muster's."""

    name = "range"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        raise NotImplementedError


class Nothing:
    """A class that is no strategy."""


def assignors(words: str) -> list[str] | None:
    found = load(overrides=[f"{NAME}={words}"], in_memory=True).assignors
    return None if found is None else [*found]


def test_assignors_are_given_by_name_or_by_class() -> None:
    assert load(in_memory=True).assignors is None
    assert assignors("range,uniform") == ["range", "uniform"]
    assert assignors(f"{CLASSES}UniformAssignor, {CLASSES}RangeAssignor") == ["uniform", "range"]
    assert assignors(f"range,{CLASSES}RangeAssignor") == ["range"]
    assert assignors(f"{__name__}:Moody,uniform") == ["moody", "uniform"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nope", "there is no assignor nope; expected uniform, range, or a class of yours as module:Class"),
        ("uniform,com.shop.Mine", "there is no assignor com.shop.Mine; expected uniform, range, or"),
        ("shop:Mine", "shop:Mine: importing shop failed: ModuleNotFoundError: No module named 'shop'"),
        (f"{__name__}:None", f"{__name__} has nothing of that name; a class was expected"),
        (f"{__name__}:Nothing", "its name is None; a text was expected"),
        (f"uniform,{__name__}:Greedy", f"{__name__}:Greedy is named range, as another assignor is"),
        (f"{__name__}:Moody,{__name__}:Moody,{__name__}:Moody ", f"{__name__}:Moody"),
    ],
)
def test_a_wrong_assignor_refuses_the_start_with_one_sentence(words: str, sentence: str) -> None:
    if words.count("Moody") > 1:
        assert assignors(words) == ["moody"]  # a repeated name counts once
        return
    with pytest.raises(ConfigError) as refused:
        assignors(words)
    assert str(refused.value).startswith(f"{NAME}: ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


async def beat(client: Client, member: str, epoch: int = 0, owned: Any = None, assignor: str | None = None) -> Any:
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, server_assignor=assignor)
    if not epoch:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 5_000, ["t"], []
    elif owned is not None:
        request.topic_partitions = [ConsumerGroupHeartbeatRequestTopicPartitions(*row) for row in owned]
    return await client.ask(request)


def partitions(answer: Any) -> list[int]:
    return [one for row in answer.assignment.topic_partitions for one in row.partitions]


async def test_a_custom_assignor_assigns_and_its_errors_are_kafkas(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    properties = {NAME: f"uniform,{__name__}:Moody", "group.consumer.assignment.interval.ms": "0"}
    async with running(properties, topics=["t:3"]) as server, connected(server) as client:
        first = await beat(client, "a", assignor="moody")
        assert (first.member_epoch, partitions(first)) == (2, [0, 1, 2])
        assert (await beat(client, "b")).member_epoch == 2  # with nothing assigned yet
        for member in ("a", "b"):
            while not (failed := await beat(client, member, 2)).error_code:
                pass  # the strategy is being called
            assert (failed.error_code, failed.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
        assert not (await beat(client, "b", -1)).error_code
        while (again := await beat(client, "a", 2)).member_epoch < 4:
            pass
        assert not again.error_code
        group = (await client.ask(ConsumerGroupDescribeRequest(["g"]))).groups[0]
        assert (group.assignor_name, group.group_state, len(group.members)) == ("moody", "Stable", 1)
        unknown = await beat(client, "a", 4, assignor="range")
        assert unknown.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert unknown.error_message == "ServerAssignor range is not supported. Supported assignors: uniform, moody."


async def test_the_documented_server_assignor_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "rendezvous", raising=False)
    properties = {NAME: "rendezvous:Rendezvous", "group.consumer.assignment.interval.ms": "0"}
    async with running(properties, topics=["t:20"]) as server, connected(server) as client:
        first = await beat(client, "a")
        assert partitions(first) == list(range(20))
        assert not partitions(await beat(client, "b"))
        while (reported := await beat(client, "a", 2)).assignment is None:
            pass  # the strategy works
        kept = partitions(reported)
        assert 0 < len(kept) < 20
        topic = first.assignment.topic_partitions[0].topic_id
        await beat(client, "a", 2, [(topic, kept)])
        assert sorted([*kept, *partitions(await beat(client, "b", 2))]) == list(range(20))
