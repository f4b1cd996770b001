"""The largest requests of each API over the state of `state`, in the newest shape.

A case is named by its API. It gives requests for a number of rows; `most` is how many rows the limits admit
(docs/limits.md). A new API needs its cases here: a test fails until then. Besides, each array of each request is filled
by itself (`arrays`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from bench.largest_requests import arrays_of, request_for
from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api
from muster.protocol.message import Message
from muster.protocol.messages import (
    add_offsets_to_txn as aott,
)
from muster.protocol.messages import (
    add_partitions_to_txn as apt,
)
from muster.protocol.messages import (
    add_raft_voter as arv,
)
from muster.protocol.messages import (
    alter_client_quotas as acq,
)
from muster.protocol.messages import (
    alter_configs as ac,
)
from muster.protocol.messages import (
    alter_partition_reassignments as apr,
)
from muster.protocol.messages import (
    alter_replica_log_dirs as ard,
)
from muster.protocol.messages import (
    alter_share_group_offsets as aso,
)
from muster.protocol.messages import (
    alter_user_scram_credentials as ausc,
)
from muster.protocol.messages import (
    api_versions as av,
)
from muster.protocol.messages import (
    consumer_group_describe as cgd,
)
from muster.protocol.messages import (
    consumer_group_heartbeat as cgh,
)
from muster.protocol.messages import (
    create_acls as ca,
)
from muster.protocol.messages import (
    create_delegation_token as cdt,
)
from muster.protocol.messages import (
    create_partitions as cp,
)
from muster.protocol.messages import (
    create_topics as ct,
)
from muster.protocol.messages import (
    delete_acls as da,
)
from muster.protocol.messages import (
    delete_groups as dg,
)
from muster.protocol.messages import (
    delete_records as dr,
)
from muster.protocol.messages import (
    delete_share_group_offsets as dsd,
)
from muster.protocol.messages import (
    delete_share_group_state as dss,
)
from muster.protocol.messages import (
    delete_topics as dt,
)
from muster.protocol.messages import (
    describe_acls as dea,
)
from muster.protocol.messages import (
    describe_client_quotas as dcq,
)
from muster.protocol.messages import (
    describe_cluster as dc,
)
from muster.protocol.messages import (
    describe_configs as dco,
)
from muster.protocol.messages import (
    describe_delegation_token as ddt,
)
from muster.protocol.messages import (
    describe_groups as deg,
)
from muster.protocol.messages import (
    describe_log_dirs as dld,
)
from muster.protocol.messages import (
    describe_producers as dp,
)
from muster.protocol.messages import (
    describe_quorum as dq,
)
from muster.protocol.messages import (
    describe_share_group_offsets as dso,
)
from muster.protocol.messages import (
    describe_topic_partitions as dtp,
)
from muster.protocol.messages import (
    describe_transactions as det,
)
from muster.protocol.messages import (
    describe_user_scram_credentials as dusc,
)
from muster.protocol.messages import (
    elect_leaders as el,
)
from muster.protocol.messages import (
    end_txn as et,
)
from muster.protocol.messages import (
    expire_delegation_token as edt,
)
from muster.protocol.messages import (
    fetch as fe,
)
from muster.protocol.messages import (
    find_coordinator as fc,
)
from muster.protocol.messages import (
    get_telemetry_subscriptions as gts,
)
from muster.protocol.messages import (
    heartbeat as hb,
)
from muster.protocol.messages import (
    incremental_alter_configs as iac,
)
from muster.protocol.messages import (
    init_producer_id as ipi,
)
from muster.protocol.messages import (
    initialize_share_group_state as iss,
)
from muster.protocol.messages import (
    join_group as jg,
)
from muster.protocol.messages import (
    leave_group as lg,
)
from muster.protocol.messages import (
    list_config_resources as lcr,
)
from muster.protocol.messages import (
    list_groups as lsg,
)
from muster.protocol.messages import (
    list_offsets as lo,
)
from muster.protocol.messages import (
    list_partition_reassignments as lpr,
)
from muster.protocol.messages import (
    list_transactions as lt,
)
from muster.protocol.messages import (
    metadata as md,
)
from muster.protocol.messages import (
    offset_commit as oc,
)
from muster.protocol.messages import (
    offset_delete as od,
)
from muster.protocol.messages import (
    offset_fetch as of,
)
from muster.protocol.messages import (
    offset_for_leader_epoch as ofle,
)
from muster.protocol.messages import (
    produce as pr,
)
from muster.protocol.messages import (
    push_telemetry as pt,
)
from muster.protocol.messages import (
    read_share_group_state as rss,
)
from muster.protocol.messages import (
    read_share_group_state_summary as rsss,
)
from muster.protocol.messages import (
    remove_raft_voter as rrv,
)
from muster.protocol.messages import (
    renew_delegation_token as rdt,
)
from muster.protocol.messages import (
    sasl_authenticate as sa,
)
from muster.protocol.messages import (
    sasl_handshake as sh,
)
from muster.protocol.messages import (
    share_acknowledge as shack,
)
from muster.protocol.messages import (
    share_fetch as shf,
)
from muster.protocol.messages import (
    share_group_describe as sgd,
)
from muster.protocol.messages import (
    share_group_heartbeat as sgh,
)
from muster.protocol.messages import (
    streams_group_describe as stgd,
)
from muster.protocol.messages import (
    streams_group_heartbeat as stgh,
)
from muster.protocol.messages import (
    streams_group_topology_description_update as sttu,
)
from muster.protocol.messages import (
    sync_group as sg,
)
from muster.protocol.messages import (
    txn_offset_commit as toc,
)
from muster.protocol.messages import (
    unregister_broker as ub,
)
from muster.protocol.messages import (
    unregister_controller as uc,
)
from muster.protocol.messages import (
    update_features as uf,
)
from muster.protocol.messages import (
    write_share_group_state as wss,
)
from muster.protocol.messages import (
    write_txn_markers as wtm,
)
from tests.coordinator.telemetry.support import metrics_data
from tests.coordinator.topics.support import batch
from tests.worst.state import (
    CLASSIC,
    COMMITTED,
    CONSUMER,
    PATTERNS,
    WIDE,
    State,
    beating,
    client_name,
    config,
    credential,
    group_name,
    joining,
    leader_instance,
    long,
    quota,
    topic_name,
)

ELEMENTS: Final = 250_000
"""Elements of a request (`protocol/wire.py` MAX_ELEMENTS)."""
BYTES: Final = 32 * 1024 * 1024
"""Bytes of a request without records (`api/registry.py` MAX_BYTES)."""
CAPTURES: Final = "(.*)" * 100 + "b"
"""A pattern with many groups, which would be slow if they captured; a pattern may be ten times as long."""
LONG_TOPICS: Final = BYTES // 260
LONG_GROUPS: Final = BYTES // 510
MANY: Final = 20_000
"""No limit exists for the number of topics and groups: this is more than clusters have."""


class Case(NamedTuple):
    """One case of this module. `rows`: the things that the request or the state has many of."""

    rows: str
    most: int
    make: Callable[[State, int], Iterator[Message]]
    oldest: int | None = None
    """The first version that has all these fields; None: the oldest version that is served."""
    known: int = 0
    """The instructions that the case is known to need, if they are more than `judging.LIMIT`."""


_NEW = iter(range(1_000_000, 9_000_000))
"""Numbers of names that are new."""


def fresh(count: int) -> list[int]:
    """Return `count` new numbers."""
    return [next(_NEW) for _ in range(count)]


def wide(count: int) -> range:
    """Partitions of the topic with many partitions. Partitions above its size do not exist."""
    return range(count)


# ---- records


def produced(s: State, n: int) -> Iterator[Message]:
    data = batch()
    rows = [pr.PartitionProduceData(i % s.size, data) for i in wide(n)]
    yield pr.ProduceRequest(None, -1, 1_000, [pr.TopicProduceData(WIDE, s.wide_id, rows)])


def produced_to_topics(s: State, n: int) -> Iterator[Message]:
    rows = [pr.PartitionProduceData(0, batch())]
    topics = [pr.TopicProduceData(topic_name(i % s.size), s.topic_ids[i % s.size], rows) for i in range(n)]
    yield pr.ProduceRequest(None, -1, 1_000, topics)


def large_batch(s: State, n: int) -> Iterator[Message]:
    data = batch(*[b"v%d" % i for i in range(n)])
    yield pr.ProduceRequest(None, -1, 1_000, [pr.TopicProduceData(WIDE, s.wide_id, [pr.PartitionProduceData(0, data)])])


def fetched(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(i % s.size, partition_max_bytes=1_000) for i in wide(n)]
    topics = [fe.FetchTopic(WIDE, s.wide_id, rows)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, session_epoch=0)


def fetched_topics(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(0, partition_max_bytes=1_000)]
    topics = [fe.FetchTopic(topic_name(i % s.size), s.topic_ids[i % s.size], rows) for i in range(n)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, isolation_level=1)


def waited(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(i % s.size, fetch_offset=0, partition_max_bytes=1_000) for i in wide(n)]
    topics = [fe.FetchTopic(WIDE, s.wide_id, rows)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, max_wait_ms=10, min_bytes=1_000_000_000)


def shared(s: State, n: int) -> Iterator[Message]:
    rows = [shf.FetchPartition(i % s.size) for i in wide(n)]
    yield shf.ShareFetchRequest(
        "g", "m", max_bytes=1_000_000, max_records=500, topics=[shf.FetchTopic(s.wide_id, rows)]
    )
    some = [shf.AcknowledgementBatch(i, i, [1]) for i in range(n)]
    topics = [shf.FetchTopic(s.wide_id, [shf.FetchPartition(0, 0, some)])]
    yield shf.ShareFetchRequest("g", "m", 1, max_bytes=1_000_000, max_records=500, topics=topics)


def acknowledged(s: State, n: int) -> Iterator[Message]:
    yield shf.ShareFetchRequest("g", "m", max_records=500, topics=[shf.FetchTopic(s.wide_id, [shf.FetchPartition(0)])])
    some = [shack.AcknowledgementBatch(i, i, [1]) for i in range(n)]
    rows = [
        shack.AcknowledgePartition(0, some),
        shack.AcknowledgePartition(1, [shack.AcknowledgementBatch(0, n - 1, [1] * n)]),
    ]
    yield shack.ShareAcknowledgeRequest("g", "m", 1, topics=[shack.AcknowledgeTopic(s.wide_id, rows)])
    rows = [shack.AcknowledgePartition(i % s.size, [shack.AcknowledgementBatch(0, 0, [1])]) for i in wide(n)]
    yield shack.ShareAcknowledgeRequest("g", "m", 2, topics=[shack.AcknowledgeTopic(s.wide_id, rows)])


def listed_offsets(s: State, n: int) -> Iterator[Message]:
    for timestamp in (-1, 1_700_000_000_000):
        rows = [lo.ListOffsetsPartition(i % s.size, -1, timestamp) for i in wide(n)]
        yield lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic(WIDE, rows)])


def ended_epochs(s: State, n: int) -> Iterator[Message]:
    rows = [ofle.OffsetForLeaderPartition(i % s.size, -1, 0) for i in wide(n)]
    yield ofle.OffsetForLeaderEpochRequest(-1, [ofle.OffsetForLeaderTopic(WIDE, rows)])


def deleted_records(s: State, n: int) -> Iterator[Message]:
    rows = [dr.DeleteRecordsPartition(i % s.size, 0) for i in wide(n)]
    yield dr.DeleteRecordsRequest([dr.DeleteRecordsTopic(WIDE, rows)], 1_000)


def described_producers(s: State, n: int) -> Iterator[Message]:
    yield dp.DescribeProducersRequest([dp.TopicRequest(WIDE, [0])] * min(n, 20))
    yield dp.DescribeProducersRequest([dp.TopicRequest(WIDE, [i % s.size for i in range(1, n)])])


# ---- topics


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


# ---- configs


def described_configs(s: State, n: int) -> Iterator[Message]:
    for kind, name in ((2, topic_name), (32, group_name), (16, lambda i: long("m", i, 200))):
        yield dco.DescribeConfigsRequest([dco.DescribeConfigsResource(kind, name(i), None) for i in range(n // 4)])


def altered_configs(s: State, n: int) -> Iterator[Message]:
    for kind, name, key, value in (
        (2, topic_name, "retention.ms", "2000"),
        (32, group_name, "consumer.session.timeout.ms", "51000"),
    ):
        yield iac.IncrementalAlterConfigsRequest([config(kind, name(i % s.size), key, value) for i in range(n)])


def metrics_patterns(s: State, n: int) -> Iterator[Message]:
    matches = ",".join(f"client_id={'(.*)' * 40}{i}" for i in range(min(n, 70)))
    yield iac.IncrementalAlterConfigsRequest([config(16, "subscription", "match", matches)])


def replaced_configs(s: State, n: int) -> Iterator[Message]:
    rows = [
        ac.AlterConfigsResource(2, topic_name(i % s.size), [ac.AlterableConfig("retention.ms", "3000")])
        for i in range(n)
    ]
    yield ac.AlterConfigsRequest(rows)


def listed_resources(s: State, n: int) -> Iterator[Message]:
    yield lcr.ListConfigResourcesRequest([])


def asked_subscriptions(s: State, n: int) -> Iterator[Message]:
    for number in fresh(2):
        yield gts.GetTelemetrySubscriptionsRequest(number.to_bytes(16, "big"))


def pushed_metrics(s: State, n: int) -> Iterator[Message]:
    (number,) = fresh(1)
    instance_id = number.to_bytes(16, "big")
    wanted = s.node.ask(gts.GetTelemetrySubscriptionsRequest(instance_id))
    data = metrics_data({f"metric.{i:07}": float(i) for i in range(n)}, {"group_id": "g"}).SerializeToString()
    yield pt.PushTelemetryRequest(instance_id, wanted.subscription_id, False, 0, data)


# ---- security


def described_acls(s: State, n: int) -> Iterator[Message]:
    yield dea.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield dea.DescribeAclsRequest(2, topic_name(0), 2, None, None, 1, 1)


def created_acls(s: State, n: int) -> Iterator[Message]:
    rows = [ca.AclCreation(2, topic_name(i), 3 + i % 2, f"User:{client_name(i)}", "*", 3, 3) for i in fresh(n)]
    yield ca.CreateAclsRequest(rows)
    yield da.DeleteAclsRequest([da.DeleteAclsFilter(2, None, 1, rows[0].principal, None, 1, 1)])


def deleted_acls(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    rows = [ca.AclCreation(2, "gone", 3, f"User:{client_name(i)}", "*", 3, 3) for i in numbers]
    yield ca.CreateAclsRequest(rows)
    filters = [da.DeleteAclsFilter(2, None, 1, f"User:{client_name(i)}", None, 1, 1) for i in numbers[:100]]
    yield da.DeleteAclsRequest(filters)
    yield da.DeleteAclsRequest([da.DeleteAclsFilter(2, "gone", 3, None, None, 1, 1)])


def described_quotas(s: State, n: int) -> Iterator[Message]:
    yield dcq.DescribeClientQuotasRequest([])
    yield dcq.DescribeClientQuotasRequest([dcq.ComponentData("user", 0, client_name(1))])


def altered_quotas(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    yield acq.AlterClientQuotasRequest([quota(i, "client-id") for i in numbers])
    yield acq.AlterClientQuotasRequest([quota(i, "client-id", remove=True) for i in numbers])


def described_users(s: State, n: int) -> Iterator[Message]:
    yield dusc.DescribeUserScramCredentialsRequest(None)
    yield dusc.DescribeUserScramCredentialsRequest([dusc.UserName(client_name(i)) for i in range(n)])


def altered_users(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    yield ausc.AlterUserScramCredentialsRequest([], [credential(i) for i in numbers])
    yield ausc.AlterUserScramCredentialsRequest([ausc.ScramCredentialDeletion(client_name(i), 1) for i in numbers], [])


def created_token(s: State, n: int) -> Iterator[Message]:
    rows = [cdt.CreatableRenewers("User", client_name(i)) for i in range(n)]
    yield cdt.CreateDelegationTokenRequest(None, None, rows, -1)


def of_token(make: Callable[..., Message]) -> Callable[[State, int], Iterator[Message]]:
    def asked(s: State, n: int) -> Iterator[Message]:
        yield make(s.tokens[0], 1_000)
        yield make(b"x" * n * 100, 1_000)

    return asked


def described_tokens(s: State, n: int) -> Iterator[Message]:
    yield ddt.DescribeDelegationTokenRequest(None)
    yield ddt.DescribeDelegationTokenRequest(
        [ddt.DescribeDelegationTokenOwner("User", client_name(i)) for i in range(n)]
    )


# ---- groups


def joined(s: State, n: int) -> Iterator[Message]:
    yield joining(0)


def joined_with_protocols(s: State, n: int) -> Iterator[Message]:
    rows = [jg.JoinGroupRequestProtocol(f"p{i}", b"m" * 1_000) for i in range(n)]
    yield jg.JoinGroupRequest(f"new-{fresh(1)[0]}", 10_000, 10_000, "", None, "consumer", rows, None)


def synced(s: State, n: int) -> Iterator[Message]:
    leader = s.classic
    rows = [sg.SyncGroupRequestAssignment(row.member_id, b"a" * 200) for row in leader.members]
    instance = leader_instance(leader)
    yield sg.SyncGroupRequest(CLASSIC, leader.generation_id, leader.member_id, instance, "consumer", "range", rows)


def beaten(s: State, n: int) -> Iterator[Message]:
    leader = s.classic
    yield hb.HeartbeatRequest(CLASSIC, leader.generation_id, leader.member_id, leader_instance(leader))


def left(s: State, n: int) -> Iterator[Message]:
    yield lg.LeaveGroupRequest(CLASSIC, "m", [lg.MemberIdentity("", f"nobody-{i}") for i in range(n)])
    yield lg.LeaveGroupRequest("gone", "m", [lg.MemberIdentity(f"{i}") for i in range(n)])


def left_with_metadata(s: State, n: int) -> Iterator[Message]:
    """A member with much metadata leaves: its event contains the metadata."""
    group = f"fat-{fresh(1)[0]}"
    rows = [jg.JoinGroupRequestProtocol("range", b"m" * 1_024 * n)]
    yield jg.JoinGroupRequest(group, 10_000, 10_000, "", "one", "consumer", rows, None)
    yield lg.LeaveGroupRequest(group, "", [lg.MemberIdentity("", "one")])


def described_members(s: State, n: int) -> Iterator[Message]:
    yield deg.DescribeGroupsRequest([CLASSIC])


def described_groups(s: State, n: int) -> Iterator[Message]:
    yield deg.DescribeGroupsRequest([group_name(i) for i in range(n)])


def listed_groups(s: State, n: int) -> Iterator[Message]:
    yield lsg.ListGroupsRequest()


def deleted_groups(s: State, n: int) -> Iterator[Message]:
    names = [group_name(i) for i in fresh(min(n, 100))]
    rows = [oc.OffsetCommitRequestPartition(0, 1)]
    for name in names:
        yield oc.OffsetCommitRequest(name, topics=[oc.OffsetCommitRequestTopic(WIDE, s.wide_id, rows)])
    yield dg.DeleteGroupsRequest(names)
    yield dg.DeleteGroupsRequest([group_name(i) for i in fresh(n)])


def committed(s: State, n: int) -> Iterator[Message]:
    rows = [oc.OffsetCommitRequestPartition(i % s.size, 1, -1, "m" * 100) for i in wide(n)]
    yield oc.OffsetCommitRequest("committing", topics=[oc.OffsetCommitRequestTopic(WIDE, s.wide_id, rows)])


def fetched_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [of.OffsetFetchRequestTopics(WIDE, s.wide_id, [*wide(n)])]
    old = [of.OffsetFetchRequestTopic(WIDE, [*wide(n)])]
    yield of.OffsetFetchRequest(COMMITTED, old, [of.OffsetFetchRequestGroup(COMMITTED, topics=rows)])
    groups = [of.OffsetFetchRequestGroup(COMMITTED, topics=None)]
    yield of.OffsetFetchRequest(COMMITTED, old, groups)


def fetched_offsets_of_groups(s: State, n: int) -> Iterator[Message]:
    groups = [of.OffsetFetchRequestGroup(group_name(i), topics=None) for i in range(n)]
    yield of.OffsetFetchRequest(groups=groups)


def deleted_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [od.OffsetDeleteRequestPartition(i) for i in range(n, 2 * n)]
    yield od.OffsetDeleteRequest(COMMITTED, [od.OffsetDeleteRequestTopic(WIDE, rows)])
    yield od.OffsetDeleteRequest(CLASSIC, [od.OffsetDeleteRequestTopic(WIDE, rows)])


def subscribed(s: State, n: int) -> Iterator[Message]:
    """A member of a large group subscribes to many names, of existing topics and of others."""
    yield beating(CONSUMER, "many", [topic_name(i) for i in range(n)])
    yield beating(f"alone-{fresh(1)[0]}", "many", [f"T{i:015}" for i in range(n)])


def subscribed_together(s: State, n: int) -> Iterator[Message]:
    """Few members, each with many names of topics that do not exist."""
    group = f"few-{fresh(1)[0]}"
    for member in range(3):
        yield beating(group, f"m{member}", [f"T{i:015}" for i in range(n)])


def followed(s: State, n: int) -> Iterator[Message]:
    """Two members share all existing topics: each of their steps handles all topics, or half of them."""
    group, names = f"topics-{fresh(1)[0]}", [topic_name(i) for i in range(min(n, s.size))]
    epochs, owned = {"a": 0, "b": 0}, dict[str, list[Any]]()
    rows = [config(32, group, "consumer.assignment.interval.ms", "0")]
    yield iac.IncrementalAlterConfigsRequest(rows)
    for member in ("a", "a", "b", "a", "a", "b", "b"):
        joins = member not in owned
        request = beating(group, member, names if joins else None)
        if not joins:
            request.member_epoch, request.rebalance_timeout_ms = epochs[member], -1
            request.topic_partitions = owned[member]
        yield request
        answer = s.node.link.answers[-1]
        epochs[member] = answer.member_epoch
        owned.setdefault(member, [])
        if answer.assignment is not None:
            owned[member] = [
                cgh.ConsumerGroupHeartbeatRequestTopicPartitions(row.topic_id, row.partitions)
                for row in answer.assignment.topic_partitions
            ]


def subscribed_by_pattern(s: State, n: int) -> Iterator[Message]:
    group = f"pattern-{fresh(1)[0]}"
    yield cgh.ConsumerGroupHeartbeatRequest(group, "m", 0, None, None, 60_000, None, CAPTURES, None, [])


def beaten_by_consumer(s: State, n: int) -> Iterator[Message]:
    owned = [cgh.ConsumerGroupHeartbeatRequestTopicPartitions(s.wide_id, [*wide(n)])]
    yield cgh.ConsumerGroupHeartbeatRequest(CONSUMER, "m0", s.size // 4, None, None, -1, None, None, None, owned)


def described_consumer_members(s: State, n: int) -> Iterator[Message]:
    yield cgd.ConsumerGroupDescribeRequest([CONSUMER, PATTERNS])


def described_consumers(s: State, n: int) -> Iterator[Message]:
    yield cgd.ConsumerGroupDescribeRequest([group_name(i) for i in range(n)])


def share_beating(group: str, member: str, names: list[str] | None, epoch: int = 0) -> Message:
    return sgh.ShareGroupHeartbeatRequest(group, member, epoch, None, names)


def share_names(s: State, n: int) -> Iterator[Message]:
    """Members subscribe to many names, of topics that do not exist."""
    group = f"share-{fresh(1)[0]}"
    for member in range(3):
        yield share_beating(group, f"m{member}", [f"T{i:015}" for i in range(n)])


def shared_partitions(s: State, n: int) -> Iterator[Message]:
    """Members share existing topics, and the partitions of one large topic."""
    group, names = f"share-{fresh(1)[0]}", [WIDE, *[topic_name(i) for i in range(min(n, s.size))]]
    for member in ("a", "a", "b", "a", "b"):
        yield share_beating(group, member, names)


def _streams_heartbeat(topology: Any, member: str = "m") -> Message:
    return stgh.StreamsGroupHeartbeatRequest(
        f"streams-{fresh(1)[0]}", member, 0, rebalance_timeout_ms=60_000, topology=topology, active_tasks=[],
        standby_tasks=[], warmup_tasks=[], process_id=member,
    )  # fmt: skip


def large_topology(s: State, n: int) -> Iterator[Message]:
    """An application of many subtopologies with existing topics, stores and copartition groups."""
    rows = [
        stgh.Subtopology(f"{i:015}", [topic_name(i % s.size)], [], [stgh.TopicInfo(f"store-{i:015}")], [], [],
                         [stgh.CopartitionGroup([0], [], [])])
        for i in range(n // 3)
    ]  # fmt: skip
    yield _streams_heartbeat(stgh.Topology(0, rows))


def reported_tasks(s: State, n: int) -> Iterator[Message]:
    """Members of an application with a store report offsets of all of its tasks, and of more."""
    topology = stgh.Topology(0, [stgh.Subtopology("0", [WIDE], [], [stgh.TopicInfo(f"store-{fresh(1)[0]}")])])
    group = ""
    for member in ("a", "a", "b", "a", "b", "a"):
        beat: Any = _streams_heartbeat(topology, member)
        beat.group_id = group = group or beat.group_id
        beat.task_offsets = [stgh.TaskOffset("0", i, i) for i in range(n)]
        beat.task_end_offsets = [stgh.TaskOffset("0", i, 1 << 62) for i in range(n)]
        yield beat


def described_topology(s: State, n: int) -> Iterator[Message]:
    nodes = [sttu.TopologyDescriptionNode(f"{i:015}") for i in range(n)]
    description = sttu.TopologyDescription([sttu.TopologyDescriptionSubtopology("0", nodes)])
    yield sttu.StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 0, description)


def described_streams_groups(s: State, n: int) -> Iterator[Message]:
    yield stgd.StreamsGroupDescribeRequest([group_name(i) for i in range(n)])


def described_share_groups(s: State, n: int) -> Iterator[Message]:
    yield sgd.ShareGroupDescribeRequest([group_name(i) for i in range(n)])


def described_share_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [dso.DescribeShareGroupOffsetsRequestTopic(WIDE, [*range(n)])]
    yield dso.DescribeShareGroupOffsetsRequest([dso.DescribeShareGroupOffsetsRequestGroup("share", rows)])


def altered_share_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [aso.AlterShareGroupOffsetsRequestPartition(i, 1) for i in range(n - 1)]
    group = f"share-{fresh(1)[0]}"
    yield aso.AlterShareGroupOffsetsRequest(group, [aso.AlterShareGroupOffsetsRequestTopic(WIDE, rows)])
    yield dso.DescribeShareGroupOffsetsRequest([dso.DescribeShareGroupOffsetsRequestGroup(group, None)])
    yield dg.DeleteGroupsRequest([group])


def deleted_share_offsets(s: State, n: int) -> Iterator[Message]:
    group, count = f"share-{fresh(1)[0]}", min(n // 2, s.size)
    rows = [aso.AlterShareGroupOffsetsRequestPartition(0, 1)]
    topics = [aso.AlterShareGroupOffsetsRequestTopic(topic_name(i), rows) for i in range(count)]
    yield aso.AlterShareGroupOffsetsRequest(group, topics)
    names = [dsd.DeleteShareGroupOffsetsRequestTopic(topic_name(i)) for i in range(n)]
    yield dsd.DeleteShareGroupOffsetsRequest(group, names)


def described_share_members(s: State, n: int) -> Iterator[Message]:
    group = f"share-{fresh(1)[0]}"
    for member in range(4):
        yield share_beating(group, f"m{member}", [topic_name(i) for i in range(min(n, s.size))])
    yield sgd.ShareGroupDescribeRequest([group])


# ---- transactions


def found(s: State, n: int) -> Iterator[Message]:
    for kind in (0, 1):
        yield fc.FindCoordinatorRequest("g", kind, [group_name(i) for i in range(n)])


def begun(s: State, n: int) -> Iterator[Message]:
    yield ipi.InitProducerIdRequest(long("x", fresh(1)[0], 30_000), 1_000)


def added(s: State, n: int) -> Iterator[Message]:
    producer_id, epoch = s.producers[0]
    topics = [apt.AddPartitionsToTxnTopic(WIDE, [*wide(n)])]
    name = long("x", 0, 200)
    rows = [apt.AddPartitionsToTxnTransaction(name, producer_id, epoch, False, topics)]
    yield apt.AddPartitionsToTxnRequest(rows, name, producer_id, epoch, topics)


def verified(s: State, n: int) -> Iterator[Message]:
    rows = [
        apt.AddPartitionsToTxnTransaction(
            long("x", i % s.size, 200), *s.producers[i % s.size], True, [apt.AddPartitionsToTxnTopic(WIDE, [0, 1])]
        )
        for i in range(n)
    ]
    yield apt.AddPartitionsToTxnRequest(rows)


def added_offsets(s: State, n: int) -> Iterator[Message]:
    yield aott.AddOffsetsToTxnRequest(long("x", 1, 200), *s.producers[1], long("g", 1, 30_000))


def committed_in_transaction(s: State, n: int) -> Iterator[Message]:
    name, (producer_id, epoch) = long("x", 2, 200), s.producers[2]
    yield aott.AddOffsetsToTxnRequest(name, producer_id, epoch, "in-transaction")
    rows = [toc.TxnOffsetCommitRequestPartition(i % s.size, 1, -1, "m" * 100) for i in wide(n)]
    topics = [toc.TxnOffsetCommitRequestTopic(WIDE, partitions=rows)]
    yield toc.TxnOffsetCommitRequest(name, "in-transaction", producer_id, epoch, topics=topics)


def ended(s: State, n: int) -> Iterator[Message]:
    name = f"ended-{fresh(1)[0]}"
    yield ipi.InitProducerIdRequest(name, 60_000)
    got = s.node.link.answers[-1]
    if hasattr(got, "producer_epoch"):
        topics = [apt.AddPartitionsToTxnTopic(WIDE, [*wide(min(n, s.size))])]
        yield apt.AddPartitionsToTxnRequest(
            [apt.AddPartitionsToTxnTransaction(name, got.producer_id, got.producer_epoch, False, topics)],
            name, got.producer_id, got.producer_epoch, topics,
        )  # fmt: skip
        yield et.EndTxnRequest(name, got.producer_id, got.producer_epoch, True)


def marked(s: State, n: int) -> Iterator[Message]:
    topics = [wtm.WritableTxnMarkerTopic(WIDE, [i % s.size for i in wide(n)])]
    yield wtm.WriteTxnMarkersRequest([wtm.WritableTxnMarker(1, 0, False, topics)])


def states(module: Any, request: str, topic: str, **row: Any) -> Callable[[State, int], Iterator[Message]]:
    """A request about the states of many share partitions, which exist."""

    def asked(s: State, n: int) -> Iterator[Message]:
        if module is not iss:
            yield from states(iss, "InitializeShareGroupStateRequest", "InitializeStateData")(s, min(n, s.size))
        rows = [module.PartitionData(i % s.size, **row) for i in wide(n)]
        yield getattr(module, request)("share", [getattr(module, topic)(s.wide_id, rows)])

    return asked


def written_batches(s: State, n: int) -> Iterator[Message]:
    yield iss.InitializeShareGroupStateRequest("rows", [iss.InitializeStateData(s.wide_id, [iss.PartitionData()])])
    batches = [wss.StateBatch(2 * i, 2 * i, 2, 1) for i in range(n)]
    topics = [wss.WriteStateData(s.wide_id, [wss.PartitionData(state_batches=batches)])]
    yield wss.WriteShareGroupStateRequest("rows", topics)
    yield rss.ReadShareGroupStateRequest("rows", [rss.ReadStateData(s.wide_id, [rss.PartitionData()])])


def described_transactions(s: State, n: int) -> Iterator[Message]:
    yield det.DescribeTransactionsRequest([long("x", i, 200) for i in range(n)])


def listed_transactions(s: State, n: int) -> Iterator[Message]:
    yield lt.ListTransactionsRequest()
    yield lt.ListTransactionsRequest([f"state-{i}" for i in range(n)], [*range(n)])


def listed_transactions_by_pattern(s: State, n: int) -> Iterator[Message]:
    yield lt.ListTransactionsRequest(transactional_id_pattern=CAPTURES)


# ---- the rest


def one(make: Callable[[], Message]) -> Callable[[State, int], Iterator[Message]]:
    """A request without rows."""

    def asked(s: State, n: int) -> Iterator[Message]:
        yield make()

    return asked


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "Produce": (
        Case("partitions", ELEMENTS, produced), Case("topics", ELEMENTS // 2, produced_to_topics),
        Case("records", 16_000, large_batch),
    ),
    "Fetch": (
        Case("partitions of a session", 20_000, fetched), Case("topics", ELEMENTS // 2, fetched_topics),
        Case("waiting partitions", ELEMENTS, waited),
    ),
    "ShareFetch": (Case("partitions", 20_000, shared),),
    "ShareAcknowledge": (Case("acknowledgements", ELEMENTS // 2, acknowledged),),
    "ListOffsets": (Case("partitions", ELEMENTS, listed_offsets),),
    "Metadata": (
        Case("topics of the cluster", MANY, all_metadata, 1), Case("topics", LONG_TOPICS, named_metadata, 4),
        Case("new topics", 10_000, made_by_metadata, 4),
    ),
    "OffsetCommit": (Case("partitions", ELEMENTS, committed),),
    "OffsetFetch": (
        Case("partitions", ELEMENTS, fetched_offsets), Case("groups", LONG_GROUPS, fetched_offsets_of_groups, 8),
    ),
    "FindCoordinator": (Case("keys", LONG_GROUPS, found),),
    "JoinGroup": (Case("members", 1_000, joined, 5), Case("protocols", 100, joined_with_protocols),),
    "Heartbeat": (Case("members", 1_000, beaten, 3),),
    "LeaveGroup": (
        Case("members", ELEMENTS, left, 3), Case("kilobytes of metadata", 32_000, left_with_metadata, 3),
    ),
    "SyncGroup": (Case("assignments", 1_000, synced, 5),),
    "DescribeGroups": (Case("groups", LONG_GROUPS, described_groups), Case("members", 1_000, described_members)),
    "ListGroups": (Case("groups", MANY, listed_groups),),
    "SaslHandshake": (Case("nothing", 1, one(lambda: sh.SaslHandshakeRequest("m" * 30_000))),),
    "ApiVersions": (Case("nothing", 1, one(lambda: av.ApiVersionsRequest("a" * 30_000, "1" * 30_000))),),
    "CreateTopics": (Case("topics", 10_000, created), Case("assignments", 10_000, created_with_places),),
    "DeleteTopics": (Case("topics", MANY, deleted),),
    "DeleteRecords": (Case("partitions", ELEMENTS, deleted_records),),
    "InitProducerId": (Case("nothing", 1, begun),),
    "OffsetForLeaderEpoch": (Case("partitions", ELEMENTS, ended_epochs),),
    "AddPartitionsToTxn": (Case("partitions", ELEMENTS, added), Case("transactions", 80_000, verified, 4)),
    "AddOffsetsToTxn": (Case("nothing", 1, added_offsets),),
    "EndTxn": (Case("partitions", 20_000, ended),),
    "WriteTxnMarkers": (Case("partitions", ELEMENTS, marked),),
    "TxnOffsetCommit": (Case("partitions", ELEMENTS, committed_in_transaction),),
    "DescribeAcls": (Case("entries", 20_000, described_acls),),
    "CreateAcls": (Case("entries", 10_000, created_acls),),
    "DeleteAcls": (Case("entries", 10_000, deleted_acls),),
    "DescribeConfigs": (Case("resources", LONG_TOPICS, described_configs),),
    "AlterConfigs": (Case("resources", 10_000, replaced_configs),),
    "DescribeLogDirs": (Case("partitions", ELEMENTS, log_dirs),),
    "SaslAuthenticate": (Case("nothing", 1, one(lambda: sa.SaslAuthenticateRequest(b"x" * 100_000))),),
    "CreatePartitions": (Case("partitions", 10_000, grown),),
    "CreateDelegationToken": (Case("renewers", LONG_GROUPS, created_token),),
    "RenewDelegationToken": (Case("bytes", BYTES // 100, of_token(rdt.RenewDelegationTokenRequest)),),
    "ExpireDelegationToken": (Case("bytes", BYTES // 100, of_token(edt.ExpireDelegationTokenRequest)),),
    "DescribeDelegationToken": (Case("tokens", LONG_GROUPS, described_tokens),),
    "DeleteGroups": (Case("groups", LONG_GROUPS, deleted_groups),),
    "ElectLeaders": (Case("partitions", ELEMENTS, elected),),
    "AlterReplicaLogDirs": (Case("partitions", ELEMENTS, moved_replicas),),
    "IncrementalAlterConfigs": (
        Case("resources", 10_000, altered_configs, 1), Case("patterns", 300, metrics_patterns, 1),
    ),
    "AlterPartitionReassignments": (Case("partitions", ELEMENTS, reassigned),),
    "ListPartitionReassignments": (Case("partitions", ELEMENTS, listed_reassignments),),
    "OffsetDelete": (Case("partitions", ELEMENTS, deleted_offsets),),
    "DescribeClientQuotas": (Case("entities", 20_000, described_quotas),),
    "AlterClientQuotas": (Case("entities", 10_000, altered_quotas),),
    "DescribeUserScramCredentials": (Case("users", LONG_GROUPS, described_users),),
    "AlterUserScramCredentials": (Case("users", LONG_GROUPS, altered_users),),
    "DescribeQuorum": (
        Case("nothing", 1, one(lambda: dq.DescribeQuorumRequest([dq.DescribeQuorumRequestTopicData(
            "__cluster_metadata", [dq.DescribeQuorumRequestPartitionData(0)])]))),
    ),
    "DescribeCluster": (Case("nothing", 1, one(lambda: dc.DescribeClusterRequest(True))),),
    "DescribeProducers": (Case("producers", ELEMENTS, described_producers),),
    "UpdateFeatures": (Case("features", LONG_GROUPS, updated_features, 1),),
    "AddRaftVoter": (Case("listeners", LONG_GROUPS, added_voter),),
    "RemoveRaftVoter": (Case("nothing", 1, one(lambda: rrv.RemoveRaftVoterRequest(None, 9, b"d" * 16))),),
    "UnregisterController": (Case("nothing", 1, one(lambda: uc.UnregisterControllerRequest(77))),),
    "UnregisterBroker": (Case("nothing", 1, one(lambda: ub.UnregisterBrokerRequest(77))),),
    "DescribeTransactions": (Case("ids", BYTES // 210, described_transactions),),
    "ListTransactions": (
        Case("transactions", MANY, listed_transactions),
        Case("transactions by a pattern", MANY, listed_transactions_by_pattern, 2),
    ),
    "ConsumerGroupHeartbeat": (
        Case("names", 20_000, subscribed), Case("names of each member", 20_000, subscribed_together),
        Case("topics of each member", 20_000, followed), Case("topics by a pattern", MANY, subscribed_by_pattern, 1),
        Case("partitions", ELEMENTS, beaten_by_consumer),
    ),
    "ConsumerGroupDescribe": (
        Case("groups", LONG_GROUPS, described_consumers), Case("members", 4_000, described_consumer_members),
    ),
    "InitializeShareGroupState": (
        Case("partitions", ELEMENTS, states(iss, "InitializeShareGroupStateRequest", "InitializeStateData")),
    ),
    "ReadShareGroupState": (Case("partitions", ELEMENTS, states(rss, "ReadShareGroupStateRequest", "ReadStateData")),),
    "WriteShareGroupState": (
        Case("partitions", ELEMENTS, states(wss, "WriteShareGroupStateRequest", "WriteStateData")),
        Case("batches", 10_000, written_batches),
    ),
    "DeleteShareGroupState": (
        Case("partitions", ELEMENTS, states(dss, "DeleteShareGroupStateRequest", "DeleteStateData")),
    ),
    "ReadShareGroupStateSummary": (
        Case("partitions", ELEMENTS, states(rsss, "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData")),
    ),
    "ShareGroupHeartbeat": (
        Case("names", 20_000, share_names), Case("topics", 1_200, shared_partitions, known=5_300_000),
    ),
    "ShareGroupDescribe": (
        Case("groups", LONG_GROUPS, described_share_groups), Case("members", 2_000, described_share_members),
    ),
    "DescribeShareGroupOffsets": (Case("partitions", 20_000, described_share_offsets),),
    "AlterShareGroupOffsets": (Case("partitions", 5_000, altered_share_offsets),),
    "DeleteShareGroupOffsets": (Case("topics", 5_000, deleted_share_offsets),),
    "StreamsGroupHeartbeat": (
        Case("subtopologies", 2_000, large_topology),
        Case("offsets of tasks", 20_000, reported_tasks),
    ),
    "StreamsGroupDescribe": (Case("groups", LONG_GROUPS, described_streams_groups),),
    "StreamsGroupTopologyDescriptionUpdate": (Case("nodes", 50_000, described_topology),),
    "GetTelemetrySubscriptions": (Case("subscriptions", MANY, asked_subscriptions),),
    "PushTelemetry": (Case("series", 20_000, pushed_metrics),),
    "ListConfigResources": (Case("resources", MANY, listed_resources),),
    "DescribeTopicPartitions": (
        Case("topics", LONG_TOPICS, described_topics), Case("partitions", 2_000, described_partitions),
    ),
}  # fmt: skip
"""The cases by the API's name. `arrays` makes the cases that need no state."""


NEW: Final = {
    "Metadata": 10_000, "CreateTopics": 10_000, "CreatePartitions": 10_000, "ShareGroupHeartbeat": 20_000,
    "AlterShareGroupOffsets": 5_000, "DeleteShareGroupOffsets": 5_000,
}  # fmt: skip
"""The most topics or partitions that one request creates or names; a larger request is refused as a whole."""


def most_rows(key: int) -> int:
    """How many rows with long names a request may have."""
    return NEW.get(api(key).name, BYTES // 220)


def arrays(key: int) -> Iterator[tuple[str, Callable[[int], Message]]]:
    """Each array that a request of this API has. Its function fills the array with different rows with long names."""
    name = api(key).name
    module = import_module("muster.protocol.messages." + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    root: Any = getattr(module, f"{name}Request")
    for path, _ in arrays_of(module, root):

        def filled(count: int, path: tuple[str, ...] = path) -> Message:
            made: Message = request_for(module, root, path, lambda i: f"{i:07}".rjust(200, "x"), count)
            return made

        yield ".".join(path), filled


def versions(key: int, case: Case | None = None) -> set[int]:
    """The newest version that is served and the oldest one."""
    served = SERVED[key]
    oldest = served.served_from if case is None or case.oldest is None else case.oldest
    return {oldest, served.max_version}
