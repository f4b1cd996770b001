"""What a group of every type has: a name, a state to show, and answers to what offsets, retention and deletion ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.message import Message

SINCE_COMMIT: Final = -1
NOT_NOW: Final = 2**63 - 1
"""What `Group.unused_since_ms` says besides a time."""


MEMBER_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit and OffsetFetch that knows of member epochs (KIP-848)."""
NEWEST_COMMIT: Final = 10
"""The newest version of OffsetCommit."""
Partitions = Callable[[], Iterable[tuple[bytes, int]]]
"""Looks up the partitions of a request: topic id, partition."""


class Group(Protocol):
    """One group. Its class is its type: `dispatch` has what is done with groups of each class."""

    group_id: str

    @property
    def protocol_type(self) -> str | None:
        """As ListGroups says it."""

    @property
    def state(self) -> str:
        """As ListGroups says it."""

    @property
    def kind(self) -> str:
        """The type as ListGroups says it."""

    def record_keys(self) -> list[Message]:
        """The keys of all its records that are in force, but for its offsets'."""

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """May this member commit offsets in this epoch (a classic group's generation), by a request of that version?
        `partitions`: what for; None: that cannot be asked now, so a past epoch is refused. 0, or Kafka's error code.
        """

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, partitions: Partitions
    ) -> int:
        """May offsets be committed in a transaction for this member and epoch (KIP-447), or for nobody in particular
        (-1, no member, no instance)? 0, or Kafka's error code.
        """

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:
        """May this member read offsets in this epoch? 0, or Kafka's error code."""

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """A commit that passed `validate_commit` has come: where it counts as a heartbeat, the session begins anew."""

    def validate_offset_delete(self) -> int:
        """May offsets of this group be deleted at all? 0, or Kafka's error code."""

    def validate_delete(self) -> int:
        """May this group be deleted? 0, or Kafka's error code."""

    def is_unused(self) -> bool:
        """Has it neither members nor ids that were handed out to future ones?"""

    def unused_since_ms(self) -> int:
        """Wall ms since when retention counts for all offsets of topics that no member subscribes to; SINCE_COMMIT: for
        each since it was committed; NOT_NOW: nothing expires (Kafka's offsetExpirationCondition).
        """

    def subscribes_to(self, topic: str) -> bool:
        """True when a member subscribes to the topic, or might."""
