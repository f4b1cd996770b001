"""One member of a classic group, with the fields that Kafka keeps of it. Decides nothing."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common.shared_values import Protocols
from muster.coordinator.state_machine.deadlines import NEVER, Due
from muster.coordinator.state_machine.interface import Respond

SESSION: Final = "session"
"""Kind of the deadline at which a silent member is removed."""
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""Kafka's classicGroupNewMemberJoinTimeoutMs: a new member cannot heartbeat while its first JoinGroup is parked."""


class Member(Due):
    """One member of a classic group. It is the deadline of its own session.

    While it `is_new`, its first JoinGroup has not been answered, and it is the deadline of that JoinGroup.
    `parked_join` and `parked_sync` answer its parked requests; None when no request is parked. `put_off`: the last
    extension of `due_ms` because of late answers, and `due_ms` before that.

    For the history only: `joined_ms` and `synced_ms` (wall), the times of its last JoinGroup and its SyncGroup of this
    generation. They are 0 when unknown or not yet sent. `restarted_ms`: the `due_ms` after that request. While both are
    equal, the member has sent neither a heartbeat nor a commit since.
    """

    __slots__ = (
        "assignment", "client_host", "client_id", "instance_id", "is_new", "joined_ms", "member_id", "parked_join",
        "parked_sync", "protocols", "put_off", "rebalance_timeout_ms", "restarted_ms", "session_timeout_ms",
        "synced_ms",
    )  # fmt: skip

    kind = SESSION

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.parked_join: Respond | None = None
        self.parked_sync: Respond | None = None
        self.joined_ms = self.synced_ms = 0
        self.restarted_ms = NEVER
        self.put_off: tuple[int, int] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the member counts as alive because of a parked request (Kafka's hasSatisfiedHeartbeat).

        The first request of a new member does not count.
        """
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def asked_ms(self, due_ms: int) -> int:
        """`due_ms` of its session before it was put off."""
        return self.put_off[1] if self.put_off is not None and self.put_off[0] == due_ms else due_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for that protocol. Zero bytes when the member does not offer the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""
