"""The interface of groups of every type: a name, a state, and checks for offsets, retention and deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.message import Message

SINCE_COMMIT: Final = -1
"""Result of `Group.unused_since_ms`: since each offset was committed."""
NOT_NOW: Final = 2**63 - 1
"""Result of `Group.unused_since_ms`: nothing expires (Kafka's offsetExpirationCondition)."""

MEMBER_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit and OffsetFetch with member epochs (KIP-848)."""
NEWEST_COMMIT: Final = 10
"""The newest version of OffsetCommit."""
Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member offers, most wanted first: (name, metadata)."""
Partitions = Callable[[], Iterable[tuple[bytes, int]]]
"""Looks up the partitions of a request: topic id, partition."""


class Group(Protocol):
    """One group. Each type of group is a class: `core` has the functions for each class."""

    group_id: str

    @property
    def protocol_type(self) -> str | None:
        """The protocol type, as in ListGroups."""

    @property
    def state(self) -> str:
        """The state, as in ListGroups."""

    @property
    def kind(self) -> str:
        """The type, as in ListGroups."""

    def record_keys(self) -> list[Message]:
        """The keys of all the group's records that are in force, without the keys of its offsets."""

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """May this member commit offsets in this epoch (a classic group's generation)? Returns 0, or Kafka's error
        code.

        `version`: of the request. `partitions`: of the commit; None: they are unknown, so a past epoch is refused.
        """

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, partitions: Partitions
    ) -> int:
        """May offsets be committed in a transaction for this member and epoch (KIP-447)? Returns 0, or Kafka's error
        code.

        A commit for no particular member has epoch -1, no member id and no instance id.
        """

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:
        """May this member read offsets in this epoch? Returns 0, or Kafka's error code."""

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Note a commit that was allowed. Where a commit counts as a heartbeat, the member's session begins anew."""

    def validate_offset_delete(self) -> int:
        """May offsets of this group be deleted at all? Returns 0, or Kafka's error code."""

    def deletion_error(self) -> int:
        """Why the group may not be deleted: Kafka's error code, or 0 when it may be deleted."""

    def is_unused(self) -> bool:
        """Does the group have neither members nor member ids that were handed out and not used?"""

    def unused_since_ms(self) -> int:
        """Since when (wall ms) retention counts for offsets of unsubscribed topics; or SINCE_COMMIT, or NOT_NOW."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, or may subscribe to it."""
