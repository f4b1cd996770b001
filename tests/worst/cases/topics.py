"""The largest requests about topics and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.protocol.message import Message
from muster.protocol.messages import add_raft_voter as arv
from muster.protocol.messages import alter_partition_reassignments as apr
from muster.protocol.messages import alter_replica_log_dirs as ard
from muster.protocol.messages import create_partitions as cp
from muster.protocol.messages import create_topics as ct
from muster.protocol.messages import delete_topics as dt
from muster.protocol.messages import describe_log_dirs as dld
from muster.protocol.messages import describe_topic_partitions as dtp
from muster.protocol.messages import elect_leaders as el
from muster.protocol.messages import list_partition_reassignments as lpr
from muster.protocol.messages import metadata as md
from muster.protocol.messages import update_features as uf
from tests.worst.cases.case import ELEMENTS, LONG_GROUPS, LONG_TOPICS, MANY, Case, fresh, wide
from tests.worst.state import (
    WIDE,
    State,
    group_name,
    topic_name,
)


def all_metadata(s: State, n: int) -> Iterator[Message]:
    yield md.MetadataRequest(None, False)


def named_metadata(s: State, n: int) -> Iterator[Message]:
    yield md.MetadataRequest([md.MetadataRequestTopic(name=topic_name(i)) for i in range(n)], False)


def made_by_metadata(s: State, n: int) -> Iterator[Message]:
    yield md.MetadataRequest([md.MetadataRequestTopic(name=topic_name(i)) for i in fresh(n)])


def created(s: State, n: int) -> Iterator[Message]:
    yield ct.CreateTopicsRequest([ct.CreatableTopic(topic_name(i), 1, 1) for i in fresh(n)], 60_000)
    yield ct.CreateTopicsRequest([ct.CreatableTopic(topic_name(fresh(1)[0]), n, 1)], 60_000)


def created_with_places(s: State, n: int) -> Iterator[Message]:
    places = [ct.CreatableReplicaAssignment(i, [1]) for i in range(n)]
    yield ct.CreateTopicsRequest([ct.CreatableTopic(topic_name(fresh(1)[0]), -1, -1, places)], 60_000)


def deleted(s: State, n: int) -> Iterator[Message]:
    names = [topic_name(i) for i in fresh(n)]
    yield ct.CreateTopicsRequest([ct.CreatableTopic(name, 1, 1) for name in names], 60_000)
    yield dt.DeleteTopicsRequest([dt.DeleteTopicState(name) for name in names], names, 60_000)


def grown(s: State, n: int) -> Iterator[Message]:
    name = topic_name(fresh(1)[0])
    yield ct.CreateTopicsRequest([ct.CreatableTopic(name, 1, 1)], 60_000)
    yield cp.CreatePartitionsRequest([cp.CreatePartitionsTopic(name, n, None)], 60_000)
    yield cp.CreatePartitionsRequest([cp.CreatePartitionsTopic(topic_name(i % s.size), 1, None) for i in range(n)], 1)


def described_topics(s: State, n: int) -> Iterator[Message]:
    yield dtp.DescribeTopicPartitionsRequest([dtp.TopicRequest(topic_name(i)) for i in range(n)])


def described_partitions(s: State, n: int) -> Iterator[Message]:
    yield dtp.DescribeTopicPartitionsRequest([dtp.TopicRequest(WIDE)])
    yield dtp.DescribeTopicPartitionsRequest([])


def reassigned(s: State, n: int) -> Iterator[Message]:
    rows = [apr.ReassignablePartition(i % s.size, [1]) for i in wide(n)]
    yield apr.AlterPartitionReassignmentsRequest(60_000, True, [apr.ReassignableTopic(WIDE, rows)])


def listed_reassignments(s: State, n: int) -> Iterator[Message]:
    yield lpr.ListPartitionReassignmentsRequest(60_000, [lpr.ListPartitionReassignmentsTopics(WIDE, [*wide(n)])])
    yield lpr.ListPartitionReassignmentsRequest(60_000, None)


def elected(s: State, n: int) -> Iterator[Message]:
    yield el.ElectLeadersRequest(0, [el.TopicPartitions(WIDE, [*wide(n)])])
    yield el.ElectLeadersRequest(0, None)


def moved_replicas(s: State, n: int) -> Iterator[Message]:
    for path in ("memory", "/nowhere"):
        yield ard.AlterReplicaLogDirsRequest(
            [ard.AlterReplicaLogDir(path, [ard.AlterReplicaLogDirTopic(WIDE, [*wide(n)])])]
        )


def updated_features(s: State, n: int) -> Iterator[Message]:
    yield uf.UpdateFeaturesRequest(60_000, [uf.FeatureUpdateKey(group_name(i), 0, upgrade_type=2) for i in range(n)])
    yield uf.UpdateFeaturesRequest(60_000, [uf.FeatureUpdateKey("group.version", 1) for _ in range(n)], True)


def added_voter(s: State, n: int) -> Iterator[Message]:
    listeners = [arv.Listener(group_name(i), "h", 9) for i in range(n)]
    yield arv.AddRaftVoterRequest(None, 60_000, 9, b"d" * 16, listeners)


def log_dirs(s: State, n: int) -> Iterator[Message]:
    yield dld.DescribeLogDirsRequest([dld.DescribableLogDirTopic(WIDE, [*wide(n)])])
    yield dld.DescribeLogDirsRequest(None)


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "Metadata": (
        Case("topics of the cluster", MANY, all_metadata, 1), Case("topics", LONG_TOPICS, named_metadata, 4),
        Case("new topics", 10_000, made_by_metadata, 4),
    ),
    "CreateTopics": (Case("topics", 10_000, created), Case("assignments", 10_000, created_with_places),),
    "DeleteTopics": (Case("topics", MANY, deleted),),
    "DescribeLogDirs": (Case("partitions", ELEMENTS, log_dirs),),
    "CreatePartitions": (Case("partitions", 10_000, grown),),
    "ElectLeaders": (Case("partitions", ELEMENTS, elected),),
    "AlterReplicaLogDirs": (Case("partitions", ELEMENTS, moved_replicas),),
    "AlterPartitionReassignments": (Case("partitions", ELEMENTS, reassigned),),
    "ListPartitionReassignments": (Case("partitions", ELEMENTS, listed_reassignments),),
    "UpdateFeatures": (Case("features", LONG_GROUPS, updated_features, 1),),
    "AddRaftVoter": (Case("listeners", LONG_GROUPS, added_voter),),
    "DescribeTopicPartitions": (
        Case("topics", LONG_TOPICS, described_topics), Case("partitions", 2_000, described_partitions),
    ),
}  # fmt: skip
"""The cases by the API's name."""
