"""What the core tells a history: the kinds of events and the causes of rebalances. Data for later; nothing here
decides.

Every rebalance is one REBALANCE_BEGAN (cause, trigger, reason), then GENERATION_BEGAN or EMPTIED, then ASSIGNED; what
its members do stands between. Facts of each kind are named at its constant; ids are member ids.
"""

from __future__ import annotations

from typing import Final

GROUP_CREATED: Final = "group created"
"""No facts."""
GROUP_DELETED: Final = "group deleted"
"""No facts."""
MEMBER_JOINED: Final = "member joined"
"""member, instance, client_id, host, reason (the client's own words, KIP-800, or None)."""
MEMBER_LEFT: Final = "member left"
"""member, instance, reason."""
MEMBER_REMOVED: Final = "member removed"
"""member, instance, cause: one of the causes below."""
MEMBER_REPLACED: Final = "member replaced"
"""member (the new id), replaced (the old one), instance."""
REBALANCE_BEGAN: Final = "rebalance began"
"""cause, trigger (the member id, "" when none), reason, generation (the one that ends), members (how many)."""
GENERATION_BEGAN: Final = "generation began"
"""generation, protocol_type, protocol, leader, members (how many)."""
EMPTIED: Final = "group emptied"
"""generation."""
ASSIGNED: Final = "assigned"
"""generation, leader, assignments: bytes by member id."""

NEW_MEMBER: Final = "a new member joined"
LEADER_REJOINED: Final = "the leader joined again"
CHANGED_METADATA: Final = "a member joined again with other metadata"
STATIC_MEMBER_BACK: Final = "a static member came back"
LEFT: Final = "members left"
SESSION_EXPIRED: Final = "a session expired"
NOT_REJOINED: Final = "the rebalance timeout passed before a member joined again"
NOT_SYNCED: Final = "the rebalance timeout passed before a member sent SyncGroup"
GROUP_FULL: Final = "the group is full"
OVER_CAPACITY: Final = "the group was loaded with more members than the limit"
