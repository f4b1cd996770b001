"""A cooperative member that lets a group wait: a rebalance lasts while this member does not join again."""

from __future__ import annotations

import socket

from muster.protocol import consumer
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.e2e.sync_clients import COOPERATIVE
from tests.support import wire
from tests.support.servers import ServerProcess

REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79


class Laggard:
    """Joins a group that others lead, with frames written by hand. It consumes nothing, and gives up what it must."""

    def __init__(self, server: ServerProcess, group: str, topic: str, version: int) -> None:
        """`version` is that of its subscription, as the others have it; from 2 on a subscription has a generation."""
        self.group, self.topic, self.version = group, topic, version
        self.partitions: set[int] = set()
        self._member, self._generation = "", -1
        self._socket = socket.create_connection(server.address, timeout=30)

    @property
    def has(self) -> set[tuple[str, int]]:
        """The partitions of the laggard, with their topic."""
        return {(self.topic, number) for number in self.partitions}

    def take_part(self) -> None:
        """Join, and ask once for the assignment. If the next round has begun, `is_called` handles it."""
        answer = wire.read_join_group(wire.call(self._socket, self._join()))
        if answer.error_code == MEMBER_ID_REQUIRED:
            self._member = answer.member
            answer = wire.read_join_group(wire.call(self._socket, self._join()))
        assert answer.error_code == 0, answer
        assert answer.leader != answer.member, "it leads, and was not meant to"
        self._generation = answer.generation
        self._sync()

    def rebalanced(self) -> bool:
        """Take part in the current rebalance, if there is one."""
        called = self.is_called()
        if called:
            self.take_part()
        return called

    def is_called(self) -> bool:
        """Whether its heartbeat is answered REBALANCE_IN_PROGRESS."""
        error = wire.read_error(wire.call(self._socket, wire.heartbeat(self.group, self._generation, self._member)))
        assert error in (0, REBALANCE_IN_PROGRESS), error
        return error == REBALANCE_IN_PROGRESS

    def leave(self) -> None:
        """Leave the group."""
        assert wire.read_error(wire.call(self._socket, wire.leave_group(self.group, self._member))) == 0

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _join(self) -> wire.Request:
        owned = [ConsumerProtocolSubscriptionTopicPartition(self.topic, sorted(self.partitions))]
        subscription = ConsumerProtocolSubscription(
            [self.topic], None, owned if self.partitions else [], self._generation
        )
        metadata = consumer.encode_subscription(subscription, self.version)
        return wire.join_group(self.group, self._member, protocol=COOPERATIVE, metadata=metadata)

    def _sync(self) -> None:
        answer = wire.call(self._socket, wire.sync_group(self.group, self._generation, self._member))
        error = wire.read_error(answer)
        assert error in (0, REBALANCE_IN_PROGRESS), error
        if error == 0:
            _, assignment = consumer.decode_assignment(answer.data())
            self.partitions = {number for row in assignment.assigned_partitions for number in row.partitions}
