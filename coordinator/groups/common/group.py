"""What every type of group is to the rest of the core: a name in one map, a state to show, and checks to ask."""

from __future__ import annotations

from typing import Final

from muster.protocol.message import Message

SINCE_COMMIT: Final = -1
NOT_NOW: Final = 2**63 - 1
"""What `Group.unused_since_ms` says besides a time."""


class Group:
    """One group of whatever type. `kind` is the type as ListGroups says it."""

    __slots__ = ("group_id", "protocol_type", "state")

    kind: str

    def __init__(self, group_id: str, state: str) -> None:
        self.group_id = group_id
        self.state = state
        self.protocol_type: str | None = None

    def record_keys(self) -> list[Message]:
        """The keys of all its records that are in force, its offsets' not among them."""
        raise NotImplementedError

    def validate_commit(self, member_id: str, instance_id: str | None, epoch: int) -> int:
        """May this member commit offsets in this epoch (a classic group's generation)? 0, or Kafka's error code."""
        raise NotImplementedError

    def validate_offset_delete(self) -> int:
        """May offsets of this group be deleted at all? 0, or Kafka's error code."""
        raise NotImplementedError

    def validate_delete(self) -> int:
        """May this group be deleted? 0, or Kafka's error code."""
        raise NotImplementedError

    def is_of_no_use(self) -> bool:
        """Has it neither members nor anybody who is about to become one?"""
        raise NotImplementedError

    def unused_since_ms(self) -> int:
        """Wall ms since when retention counts for all offsets of topics that nobody subscribes to; SINCE_COMMIT: for
        each since it was committed; NOT_NOW: nothing expires (Kafka's offsetExpirationCondition).
        """
        raise NotImplementedError

    def reload(self) -> None:
        """All its records are replayed: tell its state from them."""
        raise NotImplementedError

    def subscribes_to(self, topic: str) -> bool:
        """True when a member subscribes to the topic, or might."""
        raise NotImplementedError
