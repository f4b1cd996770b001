"""The image of the cluster: its brokers, and the leader of each partition.

An image never changes; a new image replaces it in all nodes of the process at once. Only new topics are added to the
mapping of leaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

NO_BROKER: Final = -1


DOOR: Final = "door."
"""The endpoint of a broker's HTTP door is named so, and the scheme follows. No client asks for this listener."""


class Endpoint(NamedTuple):
    """A host and a port for clients. An empty host stands for the host by which the client has reached this node."""

    host: str
    port: int


class Broker(NamedTuple):
    """One broker of the cluster. A `fenced` broker leads nothing, and answers to clients do not name the broker.

    `endpoints`: addresses by listener; empty for this node, whose connections know its address. `epoch`: the broker
    epoch of its present start.
    """

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]
    epoch: int
    fenced: bool = False

    @property
    def addresses(self) -> list[Endpoint]:
        """Where clients reach the broker."""
        return [one for name, one in self.endpoints.items() if not name.startswith(DOOR)]

    @property
    def door(self) -> str | None:
        """The URL of the broker's HTTP door. None: it is not known."""
        for name, (host, port) in self.endpoints.items():
            if name.startswith(DOOR):
                return f"{name.removeprefix(DOOR)}://{f'[{host}]' if ':' in host else host}:{port}"
        return None


class Leader(NamedTuple):
    """The leader of a partition, and its leader epoch."""

    broker_id: int
    epoch: int


class Requester(Protocol):
    """The client whose request is answered (for instance `api.context.RequestContext`)."""

    @property
    def listener(self) -> str:
        """The listener of the request. Answers give the addresses of brokers for this listener."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the connection reaches this node: the advertised address, or else the address that the client used."""


class ClusterImage(NamedTuple):
    """The brokers and leaders, as the node `node_id` sees them. `is_whole`: all brokers are alive."""

    cluster_id: str
    controller_id: int
    node_id: int
    brokers: Mapping[int, Broker]
    leaders: Mapping[str, Sequence[Leader]]
    is_whole: bool = True

    def unavailable(self, replicas: Sequence[int]) -> Sequence[int]:
        """Return the replicas whose broker is not alive."""
        if self.is_whole:
            return ()
        brokers = self.brokers
        return [one for one in replicas if one not in brokers or brokers[one].fenced]

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced, so that answers to clients name it."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def endpoint(self, broker_id: int, requester: Requester) -> Endpoint | None:
        """Where clients of the requester's listener reach a broker; None when they cannot reach it."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced else self._registered_endpoint(broker, requester)

    def _registered_endpoint(self, broker: Broker, requester: Requester) -> Endpoint | None:
        """Where clients of the requester's listener reach a broker, fenced or not; None without such a listener."""
        if broker.broker_id == self.node_id:
            return requester.endpoint
        found = broker.endpoints.get(requester.listener)
        return found if found is None or found.host else Endpoint(requester.endpoint.host, found.port)

    def reachable(self, requester: Requester, *, also_fenced: bool = False) -> list[tuple[Broker, Endpoint]]:
        """Return the brokers that clients of the requester's listener reach, and their addresses.

        This node is listed: after an empty answer librdkafka 2.x never asks again. `also_fenced`: fenced brokers too.
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
        """Whether another broker leads the partition; False for a partition that does not exist."""
        leaders = self.leaders.get(topic, ())
        return 0 <= index < len(leaders) and leaders[index].broker_id != self.node_id
