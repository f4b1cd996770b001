"""Words of a history for an operator: members, durations, numbers and causes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

Value = Mapping[str, Any]
"""The JSON of one event."""


_DRAWN: Final = re.compile("[A-Za-z0-9+/_-]{22}")
"""A member id that a client of the consumer protocol has drawn: a UUID in base64."""


def who(member: Value) -> str:
    """A member in words for people: its instance or its id, its client, its address."""
    name = f"static member {member['instance']}" if member.get("instance") else f"member {short(member['member'])}"
    known = [f"client {member['client_id']}" if member.get("client_id") else "", (member.get("host") or "").lstrip("/")]
    told = ", ".join(one for one in known if one)
    return f"{name} ({told})" if told else name


def short(member_id: str) -> str:
    """A member id without most of its UUID."""
    if _DRAWN.fullmatch(member_id):
        return f"{member_id[:8]}…"
    head, _, tail = member_id.rpartition("-")
    uuid = member_id[-36:]
    if len(member_id) > 36 and uuid.count("-") == 4:
        return f"{member_id[:-37]}-{uuid[:8]}…"
    return member_id if not head or len(tail) < 12 else f"{head}-{tail[:8]}…"


def seconds(ms: int) -> str:
    """A duration in words."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    return f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def plural(count: int, word: str) -> str:
    """A number with its noun."""
    return f"{count} {many(word, count)}"


def many(word: str, count: int) -> str:
    """A noun, in the plural unless the count is 1."""
    return word if count == 1 else f"{word}s"


def phrase(cause: str, whose: str, how_long: str = "its session timeout") -> str:
    """A cause, and the member that is responsible for it."""
    words = CAUSES.get(cause, f"{{who}}: {cause.replace('_', ' ')}")
    return words.replace("{who}", whose).replace("{how long}", how_long).strip()


CAUSES: Final[dict[str, str]] = {
    "member_joined": "{who} joined",
    "member_left": "{who} left",
    "session_expired": "{who} sent no heartbeat for {how long}",
    "subscription_changed": "{who} changed its subscription",
    "metadata_changed": "{who} joined again with other metadata",
    "partitions_changed": "{who} leads and saw that a topic has other partitions",
    "leader_rejoined": "{who} leads and joined again",
    "static_member_returned": "{who} came back",
    "join_timeout": "{who} did not join again in time",
    "sync_timeout": "{who} did not sync in time",
    "revocation_timeout": "{who} did not give up its partitions in time",
    "topics_changed": "topics have changed",
    "pattern_resolved": "a regular expression stands for other topics",
    "group_full": "{who} found the group full",
    "assignment_too_large": "the assignment of {who} is larger than max.message.bytes of __consumer_offsets",
    "group_over_capacity": "the group was loaded with more members than group.max.size",
    "asked": "it was asked for",
}
"""The text that follows the member that caused something."""
