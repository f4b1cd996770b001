"""A group as a server describes it, of whatever type."""

from __future__ import annotations

from typing import NamedTuple

from muster.client.connection import AskingFailed


class NoGroup(AskingFailed):
    """There is no group of that name."""

    def __init__(self, group_id: str) -> None:
        super().__init__(f"there is no group {group_id}: muster groups list shows the groups of the cluster")


class Member(NamedTuple):
    """One row."""

    member: str
    instance: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]] | None
    """What it has, also what it is giving up. None: it is not an assignment of partitions."""
    protocol: str | None = None
    """Of a consumer group: "consumer", or "classic" for a member that uses JoinGroup; None: an old server is silent."""
    epoch: int | None = None
    """Of a consumer group: the epoch that this member has reached. -2: a static member that will be back."""
    target: dict[str, list[int]] | None = None
    """Of a consumer group: what it shall have."""
    subscribed: list[str] | None = None
    pattern: str | None = None


class Description(NamedTuple):
    """One group. Groups of the types consumer, share and streams have epochs. The generation of a classic group is in
    no answer.
    """

    group: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    epoch: int | None
    assignment_epoch: int | None
    """The targets are those of this epoch."""
    members: list[Member]
