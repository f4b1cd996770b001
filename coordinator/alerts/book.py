"""The alerts that are open, and what is to be reported of them. This module knows no clock and no network.

An alert is reported when it begins and when it ends. It is not reported again while it goes on, or soon comes back:
only after `repeat_ms`. In a quiet time nothing is reported. What is open at its end is reported then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes.claims import Claim, Evidence
from muster.pipeline.episodes.live import BY_MEMBER

MAX_OPEN: Final = 1_000
"""The most open alerts. Further ones wait until others end."""
ENDED_MS: Final = 300_000
"""An alert is over when its claim was not made for this time. So it does not begin again and again."""
FIRING: Final = "firing"
RESOLVED: Final = "resolved"


class Alert(NamedTuple):
    """A claim about a group that needs help now."""

    group: str | None
    """None: the claim is about several groups."""
    rule: str
    text: str
    """What is wrong, as one sentence."""
    who: tuple[str, ...]
    since_ms: int
    """When the trouble began (wall)."""
    confidence: str
    advice: str | None
    evidence: tuple[Evidence, ...]

    @property
    def key(self) -> Key:
        """What makes it the same alert: its group and its rule, and its members."""
        return self.group, self.rule, self.who if self.rule in BY_MEMBER else ()

    def to_json(self) -> dict[str, object]:
        """The alert as JSON."""
        return {
            "group": self.group,
            "rule": self.rule,
            "text": self.text,
            "who": list(self.who),
            "since": self.since_ms,
            "confidence": self.confidence,
            "advice": self.advice,
            "evidence": [{"table": one.table, "time": one.at_ms, "text": one.text} for one in self.evidence],
        }


Key = tuple[str | None, str, tuple[str, ...]]


class Report(NamedTuple):
    """An alert that begins (`FIRING`) or ends (`RESOLVED`)."""

    status: str
    alert: Alert


class _Entry:
    __slots__ = ("alert", "firing_sent_ms", "is_open", "seen_ms", "sent")

    def __init__(self, alert: Alert, seen_ms: int) -> None:
        self.alert = alert
        self.seen_ms = seen_ms
        self.is_open = True
        self.sent: str | None = None
        """The status that webhooks got last."""
        self.firing_sent_ms: int | None = None
        """When webhooks got `FIRING` last."""


def alert_of(group: str | None, claim: Claim, now_ms: int) -> Alert:
    """The alert of a claim."""
    since_ms = now_ms if claim.from_ms is None else claim.from_ms
    return Alert(group, claim.rule, claim.text, claim.who, since_ms, claim.confidence, claim.advice, claim.evidence)


class AlertBook:
    """See the module."""

    def __init__(self, repeat_ms: int) -> None:
        """`repeat_ms` -1: an alert that goes on is not reported again."""
        self._repeat_ms = repeat_ms
        self._entries: dict[Key, _Entry] = {}
        self.counts: Counter[str] = Counter()
        """How many alerts have begun, by rule."""

    def open(self, group: str | None = None) -> list[Alert]:
        """The open alerts of a group; None: of all groups. The oldest comes first."""
        found = [one.alert for one in self._entries.values() if one.is_open and group in (None, one.alert.group)]
        return sorted(found, key=lambda one: (one.since_ms, one.group or "", one.rule))

    def begins_and_ends(self, found: Mapping[str | None, Sequence[Alert]], now_ms: int) -> list[Report]:
        """Take the alerts of the groups in `found`, and return those that begin or end. Other groups stay as they
        are.
        """
        changes = []
        for alert in (one for some in found.values() for one in some):
            entry = self._entries.get(alert.key)
            if entry is None and len(self._entries) >= MAX_OPEN:
                continue
            if entry is None or not entry.is_open:
                changes.append(Report(FIRING, alert))
                self.counts[alert.rule] += 1
            if entry is None:
                self._entries[alert.key] = _Entry(alert, now_ms)
            else:
                entry.alert, entry.seen_ms, entry.is_open = alert, now_ms, True
        for entry in self._entries.values():
            if entry.is_open and entry.alert.group in found and now_ms - entry.seen_ms >= ENDED_MS:
                entry.is_open = False
                changes.append(Report(RESOLVED, entry.alert))
        return changes

    def to_send(self, now_ms: int, *, is_quiet: bool) -> list[Report]:
        """What webhooks are to get now."""
        found = []
        for key, entry in [*self._entries.items()]:
            if entry.is_open:
                if not is_quiet and self._is_due(entry, now_ms):
                    entry.sent, entry.firing_sent_ms = FIRING, now_ms
                    found.append(Report(FIRING, entry.alert))
            elif entry.sent == FIRING:
                if not is_quiet:
                    entry.sent = RESOLVED
                    found.append(Report(RESOLVED, entry.alert))
            elif entry.sent is None or now_ms - entry.seen_ms >= max(self._repeat_ms, ENDED_MS):
                del self._entries[key]
        return found

    def _is_due(self, entry: _Entry, now_ms: int) -> bool:
        return entry.firing_sent_ms is None or 0 <= self._repeat_ms <= now_ms - entry.firing_sent_ms
