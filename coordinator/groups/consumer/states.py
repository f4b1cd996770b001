"""The states of a member on the way to its target, as data. The next state follows from the work that is left.

The docs are drawn from these tables. Kafka: MemberState, CurrentAssignmentBuilder, ConsumerGroupState.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STABLE: Final = 0
"""The member owns all of its target of its epoch."""
UNREVOKED_PARTITIONS: Final = 1
"""The member was asked to give partitions up, and has not confirmed that yet."""
UNRELEASED_PARTITIONS: Final = 2
"""Other members still have partitions of its target."""
UNKNOWN: Final = 127
"""A state that only a later Kafka knows: the member has to rejoin without partitions."""
NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        STABLE: "STABLE",
        UNREVOKED_PARTITIONS: "UNREVOKED_PARTITIONS",
        UNRELEASED_PARTITIONS: "UNRELEASED_PARTITIONS",
        UNKNOWN: "UNKNOWN",
    }
)
"""The names of the states, by their values in records."""

# ---- results of a step towards the target
TO_REVOKE: Final = "it has partitions to give up"
ALL_FREE: Final = "what it lacks is free"
SOME_FREE: Final = "some of what it lacks is free, some is with others"
NONE_FREE: Final = "all that it lacks is with others"
COMPLETE: Final = "it lacks nothing"

AFTER: Final[Mapping[str, tuple[int, bool]]] = MappingProxyType(
    {
        TO_REVOKE: (UNREVOKED_PARTITIONS, False),
        ALL_FREE: (STABLE, True),
        SOME_FREE: (UNRELEASED_PARTITIONS, True),
        NONE_FREE: (UNRELEASED_PARTITIONS, True),
        COMPLETE: (STABLE, True),
    }
)
"""The next state of the member, and whether it reaches the epoch of the target."""

# ---- states of a group
EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE_GROUP: Final = "Stable"
DEAD: Final = "Dead"


def state_of(members: int, epoch: int, assignment_epoch: int, reconciled: int) -> str:
    """The state of a group: `reconciled` of its members are STABLE in the epoch of the target assignment."""
    if not members:
        return EMPTY
    if epoch > assignment_epoch:
        return ASSIGNING
    return STABLE_GROUP if reconciled == members else RECONCILING
