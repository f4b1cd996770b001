"""What the last commits of members tell of their ends: how long a static member was away before it came back, and who
left because it had not polled in time. Pure: it completes a history that events or records do not tell whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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


def hear(history: History, heard: Mapping[str, Sequence[int]]) -> None:
    """`heard`: when members last committed in each of their stays, by their ids; who is not in it committed up to its
    end.
    """
    slow: dict[tuple[str, str, str | None], list[Spell]] = defaultdict(list)
    back = {(one.member_id, one.joined_ms) for one in history.spells if one.remembers}
    for spell in history.spells:
        end_ms = spell.end_ms
        if end_ms is None:
            continue
        heard_ms = max((ms for ms in heard.get(spell.member_id, ()) if ms <= end_ms), default=None)
        if heard_ms is None:
            continue
        silent_ms = end_ms - max(heard_ms, spell.joined_ms or 0)
        # the records of KIP-848 groups tell themselves who is away
        is_away = spell.end == REPLACED and history.protocol == CLASSIC
        if is_away and 0 < silent_ms < _SESSIONS * spell.session_timeout_ms:
            spell.heard_ms = end_ms - silent_ms
        # a client whose rebalance timeout is its session has no time in which it must poll
        has_polls = spell.rebalance_timeout_ms != spell.session_timeout_ms
        if spell.end == LEFT and not spell.reason and has_polls and is_slow(silent_ms, spell.rebalance_timeout_ms):
            slow[spell.client_id, spell.host, spell.instance_id].append(spell)
    for some in slow.values():
        # who left by itself and is back under its id did not stop
        if len(some) >= SLOW_TWICE or any(_is_back(one, back) for one in some):
            for spell in some:
                spell.reason = POLLED_TOO_LATE


def _is_back(spell: Spell, back: Collection[tuple[str, int | None]]) -> bool:
    return any(member_id == spell.member_id and (ms or 0) >= (spell.end_ms or 0) for member_id, ms in back)
