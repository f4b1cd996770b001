"""A group as a server describes it, of any type."""

from __future__ import annotations

from typing import NamedTuple

from muster.client.connection import AskingFailed


class NoGroup(AskingFailed):
    """No group has that name."""

    def __init__(self, group_id: str) -> None:
        super().__init__(f"there is no group {group_id}: muster groups list shows the groups of the cluster")


class Member(NamedTuple):
    """One member: a row of the description."""

    member: str
    instance: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]] | None
    """Its partitions, also those that it is giving up. None: its assignment has no partitions."""
    protocol: str | None = None
    """The protocol of a member of a consumer group: "consumer", or "classic" if it uses JoinGroup. None: an old server
    does not report it.
    """
    epoch: int | None = None
    """The epoch that a member of a consumer group has reached. -2: a static member that will return."""
    target: dict[str, list[int]] | None = None
    """The target assignment of a member of a consumer group."""
    subscribed: list[str] | None = None
    pattern: str | None = None


class Description(NamedTuple):
    """One group. Groups of the types consumer, share and streams have epochs. No answer has the generation of a classic
    group.
    """

    group: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    epoch: int | None
    assignment_epoch: int | None
    """The epoch of the target assignments."""
    members: list[Member]
