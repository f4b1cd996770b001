"""A JoinGroup as the core gets it."""

from __future__ import annotations

from muster.coordinator.state_machine.interface import Client, Command, Respond
from muster.protocol.message import Message


class JoinCommand(Command):
    """A JoinGroup request, with the abilities of its version, and the random part of an id that may be needed."""

    __slots__ = ("drawn_id", "requires_known_member_id", "supports_skip_assignment")

    def __init__(
        self,
        request: Message,
        respond: Respond,
        client: Client,
        drawn_id: str,
        requires_known_member_id: bool,
        supports_skip_assignment: bool,
    ) -> None:
        """`drawn_id`: a fresh UUID in text; the flags: JoinGroup v4+ (KIP-394) and v9+ (KIP-814)."""
        super().__init__(request, respond, client)
        self.drawn_id = drawn_id
        self.requires_known_member_id = requires_known_member_id
        self.supports_skip_assignment = supports_skip_assignment
