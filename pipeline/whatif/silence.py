"""What the last commits of members tell of their ends: how long a static member was away before it came back, and who
left because it had not polled in time. Pure: it completes a history that events or records do not tell whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from muster.pipeline.episodes.model import is_slow
from muster.pipeline.episodes.thresholds import SLOW_TWICE
from muster.pipeline.whatif.history import CLASSIC, LEFT, REPLACED, History, Spell
from muster.pipeline.whatif.processes import POLLED_TOO_LATE

SILENT_MS: Final = 500
"""Who committed so shortly before its end is not asked about."""
_SESSIONS: Final = 0.9
"""A static member that was away for longer than this share of its session would hardly have been one still: it had
nothing to commit."""


def hear(history: History, heard: Mapping[str, int]) -> None:
    """`heard`: when members last committed, by their ids; those that are not in it committed up to their end."""
    if history.protocol != CLASSIC:
        return  # its records tell who is away
    slow: dict[tuple[str, str, str | None], list[Spell]] = defaultdict(list)
    for spell in history.spells:
        heard_ms = heard.get(spell.member_id)
        if heard_ms is None or spell.end_ms is None:
            continue
        silent_ms = spell.end_ms - max(heard_ms, spell.joined_ms or 0)
        if spell.end == REPLACED and 0 < silent_ms < _SESSIONS * spell.session_timeout_ms:
            spell.heard_ms = spell.end_ms - silent_ms
        # a client whose rebalance timeout is its session has no time in which it must poll
        has_polls = spell.rebalance_timeout_ms != spell.session_timeout_ms
        if spell.end == LEFT and not spell.reason and has_polls and is_slow(silent_ms, spell.rebalance_timeout_ms):
            slow[spell.client_id, spell.host, spell.instance_id].append(spell)
    for some in slow.values():
        if len(some) >= SLOW_TWICE:
            for spell in some:
                spell.reason = POLLED_TOO_LATE
