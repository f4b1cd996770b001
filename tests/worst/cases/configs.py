"""The largest requests about configs and telemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.protocol.message import Message
from muster.protocol.messages import alter_configs as ac
from muster.protocol.messages import api_versions as av
from muster.protocol.messages import describe_cluster as dc
from muster.protocol.messages import describe_configs as dco
from muster.protocol.messages import describe_quorum as dq
from muster.protocol.messages import get_telemetry_subscriptions as gts
from muster.protocol.messages import incremental_alter_configs as iac
from muster.protocol.messages import list_config_resources as lcr
from muster.protocol.messages import push_telemetry as pt
from muster.protocol.messages import remove_raft_voter as rrv
from muster.protocol.messages import sasl_authenticate as sa
from muster.protocol.messages import sasl_handshake as sh
from muster.protocol.messages import unregister_broker as ub
from muster.protocol.messages import unregister_controller as uc
from tests.coordinator.telemetry.support import metrics_data
from tests.worst.cases.case import LONG_TOPICS, MANY, Case, fresh, one
from tests.worst.state import (
    State,
    config,
    group_name,
    long,
    topic_name,
)


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


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "SaslHandshake": (Case("nothing", 1, one(lambda: sh.SaslHandshakeRequest("m" * 30_000))),),
    "ApiVersions": (Case("nothing", 1, one(lambda: av.ApiVersionsRequest("a" * 30_000, "1" * 30_000))),),
    "DescribeConfigs": (Case("resources", LONG_TOPICS, described_configs),),
    "AlterConfigs": (Case("resources", 10_000, replaced_configs),),
    "SaslAuthenticate": (Case("nothing", 1, one(lambda: sa.SaslAuthenticateRequest(b"x" * 100_000))),),
    "IncrementalAlterConfigs": (
        Case("resources", 10_000, altered_configs, 1), Case("patterns", 300, metrics_patterns, 1),
    ),
    "DescribeQuorum": (
        Case("nothing", 1, one(lambda: dq.DescribeQuorumRequest([dq.DescribeQuorumRequestTopicData(
            "__cluster_metadata", [dq.DescribeQuorumRequestPartitionData(0)])]))),
    ),
    "DescribeCluster": (Case("nothing", 1, one(lambda: dc.DescribeClusterRequest(True))),),
    "RemoveRaftVoter": (Case("nothing", 1, one(lambda: rrv.RemoveRaftVoterRequest(None, 9, b"d" * 16))),),
    "UnregisterController": (Case("nothing", 1, one(lambda: uc.UnregisterControllerRequest(77))),),
    "UnregisterBroker": (Case("nothing", 1, one(lambda: ub.UnregisterBrokerRequest(77))),),
    "GetTelemetrySubscriptions": (Case("subscriptions", MANY, asked_subscriptions),),
    "PushTelemetry": (Case("series", 20_000, pushed_metrics),),
    "ListConfigResources": (Case("resources", MANY, listed_resources),),
}  # fmt: skip
"""The cases by the API's name."""
