"""A server that was stopped for longer than a session: members that sent heartbeats meanwhile stay in their groups."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.e2e.conftest import SERVER
from tests.support import wire
from tests.support.servers import ServerProcess

SESSION_MS = 1_500
PAUSE_S = 2.0
UNKNOWN_MEMBER_ID = 25


class Member(NamedTuple):
    """A member that has joined a group of its own."""

    connection: socket.socket
    group: str
    member: str
    generation: int

    def heartbeat(self) -> bytes:
        return wire.frame(wire.heartbeat(self.group, self.generation, self.member))

    def commit(self) -> bytes:
        return wire.frame(wire.offset_commit(self.group, self.generation, self.member, "t", 0, 1))


def joined(server: ServerProcess, group: str) -> Member:
    connection = socket.create_connection(server.address, timeout=60)
    member = ""
    for _ in range(2):
        answer = wire.read_join_group(
            wire.call(connection, wire.join_group(group, member, session_timeout_ms=SESSION_MS))
        )
        member = answer.member
    assert wire.read_error(wire.call(connection, wire.sync_group(group, answer.generation, member))) == 0
    return Member(connection, group, member, answer.generation)


def heartbeat_when_empty(member: Member) -> int:
    """The answer to a heartbeat after the group is empty."""
    state = ""
    while state != "Empty":
        time.sleep(0.05)  # between two checks
        answer = wire.call(member.connection, wire.Request(15, 0, wire.array([wire.string(member.group)])))
        assert answer.number("i") == 1
        assert answer.number("h") == 0
        answer.string()
        state = answer.string()
    member.connection.sendall(member.heartbeat())
    return wire.read_error(wire.receive(member.connection))


@pytest.mark.skipif(SERVER == "kafka", reason="Kafka puts out whom its timer reaches first")
def test_a_server_that_was_paused_removes_no_member_that_sent_heartbeats(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server()
    names = ("beats", "half", "behind a commit", "over a new connection", "late", "silent")
    with ExitStack() as stack:
        members = {name: joined(server, name) for name in names}
        for member in members.values():
            stack.enter_context(member.connection)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            members["beats"].connection.sendall(members["beats"].heartbeat())
            members["half"].connection.sendall(members["half"].heartbeat()[:10])
            behind = members["behind a commit"]
            behind.connection.sendall(behind.commit() + behind.heartbeat())
            again = socket.create_connection(server.address, timeout=60)
            again.sendall(members["over a new connection"].heartbeat())
            members["over a new connection"] = members["over a new connection"]._replace(
                connection=stack.enter_context(again)
            )
            time.sleep(PAUSE_S)  # the pause itself
        finally:
            os.kill(server.pid, signal.SIGCONT)
        members["half"].connection.sendall(members["half"].heartbeat()[10:])
        members["late"].connection.sendall(members["late"].heartbeat())
        assert wire.read_topic_errors(wire.receive(behind.connection)) == [3]
        heard = {name: wire.read_error(wire.receive(members[name].connection)) for name in names if name != "silent"}
        assert set(heard.values()) == {0}, heard
        assert heartbeat_when_empty(members["silent"]) == UNKNOWN_MEMBER_ID
