"""Members that join a large group, and leave again: run as `python -m bench.load.joining_members`.

The arguments are PORT GROUP EPOCH TIMES TOPIC... This is a process of its own, so that the client's work for the other
members does not count. For each round it prints two times in ms, as JSON. The first is how long a new member takes to
have the new epoch. Then the new member leaves, and the second is how long the remaining member takes to have the next
epoch. Meanwhile each member sends one heartbeat after the other.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from bench import measure
from bench.load.consumer_members import LEAVING, REBALANCE_MS, RETRIABLE, VERSION
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.support import wire

PAUSE_S: Final = 1.1
"""A pause longer than group.consumer.assignment.interval.ms."""
BETWEEN_S: Final = 0.002
_API: Final = api(ApiKey.CONSUMER_GROUP_HEARTBEAT)


class NewMember:
    """A member on a blocking connection."""

    def __init__(self, port: int, group: str, member_id: str, topics: list[str]) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.group, self.member_id, self.topics = group, member_id, topics
        self.epoch = 0
        self.owned: Any = []

    def beat(self) -> int:
        """Send one heartbeat, do what the answer says, and return the epoch."""
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch)
        if self.epoch == 0:
            request.subscribed_topic_names, request.rebalance_timeout_ms = self.topics, REBALANCE_MS
        if self.epoch >= 0:
            request.topic_partitions = self.owned
        answer = self._ask(request)
        if answer.error_code and answer.error_code not in RETRIABLE:
            raise RuntimeError(f"a heartbeat was answered with {answer.error_code}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.owned = [ConsumerGroupHeartbeatRequestTopicPartitions(row.topic_id, row.partitions) for row in rows]
        return self.epoch

    def until_above(self, epoch: int) -> None:
        """Send heartbeats until the member has a later epoch."""
        while self.beat() <= epoch:
            time.sleep(BETWEEN_S)

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = LEAVING
        self.beat()

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self.connection.sendall(frames.request_frame(_API, VERSION, 1, request, wire.CLIENT_ID.decode()))
        size = int.from_bytes(wire.receive_exactly(self.connection, 4), "big")
        data = wire.receive_exactly(self.connection, size)
        _, body = frames.decode_response_header(_API, VERSION, data, 0, size)
        return _API.decode_response(VERSION, data, body)


def settle(new_member: NewMember) -> None:
    """Keep the member alive until the server may compute the next target assignment."""
    end_s = time.perf_counter() + PAUSE_S
    while time.perf_counter() < end_s:
        new_member.beat()
        time.sleep(0.1)


def one_leaves(leaver: NewMember, stays: NewMember, epoch: int) -> None:
    """Let a member leave, and wait until the other one has an epoch above `epoch`."""
    leaver.leave()
    stays.until_above(epoch)


def main() -> None:
    port, pid, group, epoch, times, *topics = sys.argv[1:]
    stays = NewMember(int(port), group, f"{group}-stays", topics)
    stays.until_above(int(epoch))
    more, less = [], []

    def measured(work: Callable[..., object], *arguments: Any) -> tuple[float, float]:
        cpu_ms, start_s = measure.cpu_ms(int(pid)), time.perf_counter()
        work(*arguments)
        return (time.perf_counter() - start_s) * 1000, measure.cpu_ms(int(pid)) - cpu_ms

    for number in range(int(times)):
        settle(stays)
        before = stays.epoch
        comes = NewMember(int(port), group, f"{group}-comes-{number}", topics)
        more.append(measured(comes.until_above, before))
        settle(stays)
        less.append(measured(one_leaves, comes, stays, stays.epoch))
    stays.leave()
    print(json.dumps({"more": more, "less": less}))


if __name__ == "__main__":
    main()
