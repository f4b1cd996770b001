"""Share groups and Streams groups, which only an Apache Kafka has: they are described, and other commands refuse
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from muster.cli.groups import show_groups
from muster.cli.groups.delete_groups import check_inactive, consumer_groups, find_consumer_group
from muster.cli.groups.offsets import offsets
from muster.cli.groups.read_groups import find_group
from muster.cli.groups.streams_topology import topology_lines
from muster.client.connection import RequestFailed
from muster.coordinator.http.described_groups import Description, Subtopology
from muster.coordinator.http.described_tasks import task_lines
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import (
    consumer_group_describe,
    describe_groups,
    describe_share_group_offsets,
    list_groups,
    metadata,
    offset_fetch,
    share_group_describe,
    streams_group_describe,
)

MISSING = ErrorCode.GROUP_ID_NOT_FOUND
OLD = frozenset({ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS})
"""The APIs that an older Kafka does not have, which knows nothing of such groups."""


class Kafka:
    """A cluster of one node that has a share group `shared`, a Streams group `app` and a group of Connect `workers`."""

    address = "127.0.0.1:9092"

    def __init__(self, *, without: frozenset[int] = frozenset(), starts: bool = True) -> None:
        self._without = without
        self._starts = starts
        self.bootstrap = self

    def coordinator(self, name: str) -> Kafka:
        del name
        return self

    def ask_coordinator(self, name: str, key: int, request: Any, errors: Any) -> tuple[Kafka, Any]:
        del name, errors
        return self, self.ask(key, request)

    def every_node(self) -> list[Kafka]:
        return [self]

    def topics(self, names: list[str]) -> dict[str, Any]:
        rows = [metadata.MetadataResponsePartition(partition_index=one, leader_id=-1) for one in range(2)]
        return {name: metadata.MetadataResponseTopic(name=name, partitions=rows) for name in names if name == "t"}

    def supports(self, key: int) -> bool:
        return key not in self._without

    def ask(self, key: int, request: Any) -> Any:
        if key == ApiKey.DESCRIBE_GROUPS:
            return describe_groups.DescribeGroupsResponse(groups=[self._classic(request.groups[0])])
        if key == ApiKey.CONSUMER_GROUP_DESCRIBE:
            row = consumer_group_describe.DescribedGroup(MISSING, "not a consumer group", request.group_ids[0])
            return consumer_group_describe.ConsumerGroupDescribeResponse(groups=[row])
        if key == ApiKey.SHARE_GROUP_DESCRIBE:
            return share_group_describe.ShareGroupDescribeResponse(groups=[self._share(request.group_ids[0])])
        if key == ApiKey.STREAMS_GROUP_DESCRIBE:
            return streams_group_describe.StreamsGroupDescribeResponse(groups=[self._streams(request.group_ids[0])])
        if key == ApiKey.OFFSET_FETCH:
            return offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup("shared")])
        if key == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
            return describe_share_group_offsets.DescribeShareGroupOffsetsResponse(groups=[self._offsets()])
        assert key == ApiKey.LIST_GROUPS
        kinds = {"shared": ("share", "share"), "app": ("streams", "streams"), "workers": ("connect", "classic")}
        kinds |= {"old": ("", "classic"), "new": ("consumer", "consumer"), "plain": ("consumer", "classic")}
        rows = [list_groups.ListedGroup(name, protocol, "Stable", kind) for name, (protocol, kind) in kinds.items()]
        return list_groups.ListGroupsResponse(groups=rows)

    def _classic(self, name: str) -> Any:
        if name == "workers":
            return describe_groups.DescribedGroup(group_id=name, group_state="Stable", protocol_type="connect")
        return describe_groups.DescribedGroup(MISSING, f"Group {name} is not a classic group.", name)

    def _share(self, name: str) -> Any:
        if name != "shared":
            return share_group_describe.DescribedGroup(MISSING, "no share group", name)
        has = share_group_describe.Assignment([share_group_describe.TopicPartitions(topic_name="t", partitions=[1, 0])])
        members = [
            share_group_describe.Member(f"m{at}", None, 4, f"client-{at}", "/10.0.0.1", ["t"], has) for at in range(2)
        ]
        return share_group_describe.DescribedGroup(0, None, name, "Stable", 4, 4, "simple", members)

    def _streams(self, name: str) -> Any:
        if name != "app":
            return streams_group_describe.DescribedGroup(MISSING, "no streams group", name)
        has = streams_group_describe.Assignment([streams_group_describe.TaskIds("0", [1, 0])])
        shall = streams_group_describe.Assignment([streams_group_describe.TaskIds("0", [0])])
        has.standby_tasks = [streams_group_describe.TaskIds("0", [2, 3])]
        offset = streams_group_describe.TaskOffset
        sums, ends = [offset("0", 0, 10), offset("0", 1, -2)], [offset("0", 0, 12), offset("0", 1, 50)]
        sums += [offset("0", 2, 40), offset("0", 3, 1)]
        member = streams_group_describe.Member(
            "m", 3, None, None, "c", "/10.0.0.1", assignment=has, target_assignment=shall,
            task_offsets=sums, task_end_offsets=[*ends, offset("0", 2, 41)],
        )  # fmt: skip
        part = streams_group_describe.Subtopology("0", ["t"], [], [streams_group_describe.TopicInfo("app-s")])
        topology = streams_group_describe.Topology(1, [part])
        return streams_group_describe.DescribedGroup(0, None, name, "Reconciling", 4, 4, topology, [member])

    def _offsets(self) -> Any:
        part = describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition
        rows = [part(1, -1), part(0, 25, lag=20)] if self._starts else [part(0, -1), part(1, -1)]
        topic = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic("t", partitions=rows)
        return describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup("shared", [topic])


ACTIVE, COPY = "the active task 0_0 (2 records behind)", "the standby task 0_2 (1 record behind)"


def described(name: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    found = find_group(Kafka(), name)
    assert found is not None
    show_groups.print_group(found, None)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_members_of_a_share_group_share_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    first, head, *rows = described("shared", capsys)
    assert " ".join(first) == "group shared: Stable, 2 members (type share, protocol type share, simple, epoch 4)"
    assert head == ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PROTOCOL", "EPOCH", "PARTITIONS", "TARGET"]
    assert rows == [[f"m{at}", "-", f"client-{at}", "10.0.0.1", "share", "4", "t:0-1", "-"] for at in range(2)]


def test_members_of_a_streams_group_have_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    first, head, row, *lines = described("app", capsys)
    assert " ".join(first) == "group app: Reconciling, 1 member (type streams, protocol type streams, epoch 4)"
    assert head[-2:] == ["TASKS", "TARGET"]
    assert row == ["m", "-", "c", "10.0.0.1", "streams", "3", "0:0-1", "0:0"]
    found = find_group(Kafka(), "app")
    assert found is not None
    assert found.subtopologies == [Subtopology("0", ["t"], ["app-s"])]
    assert [" ".join(one) for one in lines] == [
        "m keeps standby copies of tasks 0:2-3",
        f"m restores {ACTIVE}, {COPY}, as it last reported",
    ]
    (one,) = found.members
    assert one.partitions == {"t": [0, 1]}
    assert one.lacks is not None
    assert [*task_lines([one._replace(standby={}, lacks=one.lacks * 4)])] == [
        f"m restores {', '.join([ACTIVE, COPY] * 2)}, {ACTIVE} and 3 more, as it last reported"
    ]


def _application(state: str, *parts: Subtopology) -> Description:
    return Description("app", "streams", state, "streams", "", 4, 4, [], list(parts))


def test_describe_names_the_topics_of_each_subtopology() -> None:
    found = _application("Stable", Subtopology("0", ["t"], []), Subtopology("1", ["app-counts-repartition"], ["app-s"]))
    assert topology_lines(Kafka(), found) == [
        "subtopology 0 reads t",
        "subtopology 1 reads app-counts-repartition; changelogs: app-s",
    ]


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        (["t"], "the group is not ready, and all its topics exist: their numbers of partitions do not fit together"),
        (["orders", "t"], "the group is not ready: orders is missing, and subtopology 0 cannot run without it"),
        (["a", "b"], "the group is not ready: a, b are missing, and subtopology 0 cannot run without them"),
    ],
)
def test_describe_says_why_an_application_is_not_ready(reads: list[str], why: str) -> None:
    found = _application("NotReady", Subtopology("0", reads, []), Subtopology("1", ["t"], []))
    assert topology_lines(Kafka(), found)[-1] == why


def test_a_group_without_a_topology_has_no_lines() -> None:
    assert topology_lines(Kafka(), _application("NotReady")._replace(subtopologies=None)) == []


def test_a_group_type_unknown_to_the_server_is_reported() -> None:
    with pytest.raises(RequestFailed, match="Group shared is not a classic group: muster groups list shows its type"):
        find_group(Kafka(without=OLD), "shared")


def test_start_offsets_of_a_share_group_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert offsets(Kafka(), ["shared"], form="json") == 0
    assert capsys.readouterr().out == (
        '{"group": "shared", "topic": "t", "partition": 0, "offset": 25, "end": null, "lag": 20, "metadata": "", '
        '"member": null}\n'
    )
    assert offsets(Kafka(starts=False), ["shared"], form="text") == 1
    assert capsys.readouterr().err == (
        "muster groups offsets: share group shared has no start offsets yet: its members have acknowledged nothing\n"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "shared",
            "shared is a share group: only groups of consumers can be reset; kafka-share-groups.sh of Apache Ka",
        ),
        (
            "app",
            "app is a streams group: only groups of consumers can be reset; kafka-streams-groups.sh of Apache Kafka",
        ),
        ("workers", "workers is a group of the protocol type connect: only groups of consumers can be reset"),
    ],
)
def test_offsets_of_other_group_types_are_not_reset(name: str, sentence: str) -> None:
    with pytest.raises(RequestFailed) as said:
        check_inactive(Kafka(), name)
    assert str(said.value).startswith(sentence)
    with pytest.raises(RequestFailed, match="only groups of consumers can be changed"):
        find_consumer_group(Kafka(), name, "changed")


def test_all_groups_covers_both_consumer_protocols_and_memberless_groups() -> None:
    """The command takes them as Kafka's tool does: groups of both protocols, and those that only commit."""
    assert consumer_groups(Kafka()) == ["new", "old", "plain"]
