"""A Kafka Connect worker of a sample: a member of a group of protocol type "connect", which commits nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.assignors.connect.leader import Rebalance, Snapshot, perform
from muster.assignors.connect.work import State
from muster.protocol.connect import ConnectWorkerState, encode_worker_state
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.simulation.sample.consumer import SampleConsumer
from muster.simulation.sample.work import Owned

EAGER: Final = "default"
_CONFIGURED: Final = Snapshot(7, {"orders-sink": 4, "users-source": 1})


class ConnectWorker(SampleConsumer):
    """One worker, of the eager protocol."""

    protocol_type = "connect"

    def offers(self) -> list[JoinGroupRequestProtocol]:
        """Its address, and how far it has read the topic of configurations."""
        url = f"http://{self.client.host.lstrip('/')}:8083/"
        return [JoinGroupRequestProtocol(EAGER, encode_worker_state(ConnectWorkerState(url, _CONFIGURED.offset), 0))]

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """Who runs which connectors and tasks."""
        members = [(one.member_id, one.metadata) for one in joined.members]
        rebalance = Rebalance(joined.leader, EAGER, members, joined.generation_id, -1)
        return perform(rebalance, State(), 0, _CONFIGURED).assignments

    def read_share(self, share: bytes) -> Owned:  # noqa: ARG002  # what it runs is of no interest here
        """No partitions."""
        return {}
