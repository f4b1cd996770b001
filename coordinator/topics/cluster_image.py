"""The image of the cluster: its brokers, and who leads which partition.

Everything that tells a client of brokers and leaders answers from it: Metadata, DescribeCluster,
DescribeTopicPartitions, FindCoordinator, and the checks whether this node leads the partition that is asked for.
An image never changes: another one takes its place, in all nodes of the process at once. (New topics come into the
mapping of leaders that there is; when leaders change it is another one.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

NO_BROKER: Final = -1
"""Stands in an answer for a leader that there is not."""


class Endpoint(NamedTuple):
    """A host and a port that clients can be told. Host "": that by which the client has reached the node it asks."""

    host: str
    port: int


class Broker(NamedTuple):
    """One broker of the cluster.

    `endpoints`: where clients of each listener reach it, by the listener's name; empty for this node itself, which the
    connection knows (see `ClusterImage.endpoint`). `epoch`: another one with each start of the broker. A broker that is
    `fenced` leads nothing, and clients are not told of it.
    """

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]
    epoch: int
    fenced: bool = False


class Leader(NamedTuple):
    """Who leads a partition, and since which leader epoch."""

    broker_id: int
    epoch: int


class Requester(Protocol):
    """Whose question is answered (`api.context.RequestContext` is one)."""

    @property
    def listener(self) -> str:
        """The listener that the request came in on: brokers are told as clients of this listener reach them."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the connection reaches this node: what is advertised, else the address that the client has called."""


class ClusterImage(NamedTuple):
    """`node_id`: the broker that this node is. `leaders`: of the partitions of each topic, by its name. `is_whole`: all
    brokers live.
    """

    cluster_id: str
    controller_id: int
    node_id: int
    brokers: Mapping[int, Broker]
    leaders: Mapping[str, Sequence[Leader]]
    is_whole: bool = True

    def away(self, replicas: Sequence[int]) -> Sequence[int]:
        """Those of the replicas whose broker does not live."""
        if self.is_whole:
            return ()
        brokers = self.brokers
        return [one for one in replicas if one not in brokers or brokers[one].fenced]

    def lives(self, broker_id: int) -> bool:
        """Whether there is such a broker, and clients are told of it."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def endpoint(self, broker_id: int, requester: Requester) -> Endpoint | None:
        """Where clients of the requester's listener reach a broker; None: they do not."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced else self._registered_endpoint(broker, requester)

    def _registered_endpoint(self, broker: Broker, requester: Requester) -> Endpoint | None:
        """Where it is, or was, reached by clients of the requester's listener; None: it has no such listener."""
        if broker.broker_id == self.node_id:
            return requester.endpoint
        found = broker.endpoints.get(requester.listener)
        return found if found is None or found.host else Endpoint(requester.endpoint.host, found.port)

    def reachable(self, requester: Requester, *, also_fenced: bool = False) -> list[tuple[Broker, Endpoint]]:
        """The brokers that clients of the requester's listener reach, and where: at least this node. It may be fenced,
        or unregistered, and about to begin anew, and the last one; but a client that hears of no broker at all may
        forget all that it knows, and ask nobody ever again (librdkafka 2.x does).

        `also_fenced`: those too that are registered and do not live, where they were.
        """
        found = []
        for broker in self.brokers.values():
            if broker.fenced and not also_fenced:
                continue
            endpoint = self._registered_endpoint(broker, requester)
            if endpoint is not None:
                found.append((broker, endpoint))
        if not found:
            myself = self.brokers.get(self.node_id, Broker(self.node_id, None, {}, NO_BROKER))
            found.append((myself, requester.endpoint))
        return found

    def is_led_elsewhere(self, topic: str, index: int) -> bool:
        """Does another broker lead the partition? Nobody leads one that is not there."""
        leaders = self.leaders.get(topic, ())
        return 0 <= index < len(leaders) and leaders[index].broker_id != self.node_id
