"""Everything that is known of one group for alerts, and the claims about it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.coordinator.alerts.commits import CommitSamples, Owners
from muster.coordinator.alerts.event_values import KINDS, value_of
from muster.coordinator.alerts.shares import ShareSamples
from muster.coordinator.alerts.streams import StreamReports
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.applications import Subscriptions, applications, together
from muster.pipeline.episodes.claims import OF_SHARES, TWO_TOPICS, Claim, Facts
from muster.pipeline.episodes.find import episodes
from muster.pipeline.episodes.from_events import EventReader
from muster.pipeline.episodes.live import Rebalancing, Takeovers, fenced_claim, rebalance_claim
from muster.pipeline.episodes.model import Moment
from muster.pipeline.episodes.moments import Heard
from muster.pipeline.episodes.score import SHORT_MS, flapping_score
from muster.pipeline.episodes.share_facts import NO_SHARES
from muster.pipeline.episodes.verdict import verdict
from muster.pipeline.episodes.when import When
from muster.pipeline.wording import HOUR
from muster.protocol.errors import ErrorCode

KEPT_MS: Final = 2 * limits.AGAIN_MS
"""Members and rebalances are forgotten this long after their end."""
FENCES_KEPT: Final = 20
"""How many takeovers of an instance id are remembered."""
RECENT_MS: Final = 5 * limits.MINUTE
"""Trouble with deliveries is an alert for this long."""
INSTANCES_KEPT: Final = 100
"""How many instance ids of a group are remembered."""


@dataclass(slots=True)
class GroupWatch:
    """See the module. A thread calls `feed` and `claims`, and nobody else uses the group meanwhile."""

    commits: CommitSamples = field(default_factory=CommitSamples)
    rebalancing: Rebalancing | None = None
    """The rebalance that is not over; None: the group is Stable or Empty."""
    owners: Owners = field(default_factory=dict)
    mixed: list[tuple[int, int, Subscriptions]] = field(default_factory=list)
    """The time in which members read different topics, as `applications.together` reads it; [] without one."""
    shares: ShareSamples | None = None
    """The deliveries of a share group; None: other groups, and share groups without deliveries."""
    streams: StreamReports = field(default_factory=StreamReports)
    has_news: bool = False
    """Whether events came since the last call of `claims`."""
    _reader: EventReader = field(default_factory=EventReader)
    _fences: dict[str, deque[int]] = field(default_factory=dict)
    _hosts: dict[str, dict[str, None]] = field(default_factory=dict)
    _replaced: set[str] = field(default_factory=set)
    """Instance ids with a successor, whose former process was not refused yet."""

    def feed(self, event: Event, wall_ms: int) -> None:
        """Take an event."""
        self.has_news = True
        if event.kind == events.REQUEST_REFUSED:
            self._refused(event.facts, wall_ms)
        elif event.kind == events.DELIVERIES_FAILED:
            self._failed(event.facts, wall_ms)
        self.streams.feed(event, wall_ms)
        if event.kind in KINDS:
            value = value_of(event, wall_ms)
            self._reader.feed(value)
            if event.kind == events.MEMBER_REPLACED:
                self._took_over(value["member"])

    def remember(self, value: Mapping[str, Any]) -> None:
        """Take an event of the history."""
        self.has_news = True
        self.streams.remember(value)
        if value["kind"] == events.DELIVERIES_FAILED:
            self._failed(value, value["time"])
        elif value["kind"] in KINDS:
            self._reader.feed(value)

    def _failed(self, facts: Mapping[str, Any], wall_ms: int) -> None:
        if self.shares is None:
            self.shares = ShareSamples()
        self.shares.failed(facts, wall_ms)

    def _took_over(self, member: Mapping[str, Any]) -> None:
        instance = member["instance"]
        if instance is None or (instance not in self._hosts and len(self._hosts) >= INSTANCES_KEPT):
            return
        self._replaced.add(instance)
        self._hosts.setdefault(instance, {})[str(member["host"]).removeprefix("/")] = None

    def _refused(self, facts: Mapping[str, Any], wall_ms: int) -> None:
        instance = facts["instance"]
        if facts["error"] == ErrorCode.FENCED_INSTANCE_ID and instance in self._replaced:
            self._replaced.discard(instance)
            self._fences.setdefault(instance, deque(maxlen=FENCES_KEPT)).append(wall_ms)

    def subscribed(self, members: Subscriptions, wall_ms: int) -> None:
        """Note the client id and the topics of each member."""
        if len(applications(members)) > 1:
            from_ms = self.mixed[0][0] if self.mixed else wall_ms
            self.mixed = [(from_ms, wall_ms, members)]
        else:
            self.mixed = []

    def heard(self) -> list[Heard]:
        """The stays of all members, with the last sign of life of each lost member."""
        return [
            Heard(one.lost_ms if one.how in model.DEATHS else None, one.start_ms, one.end_ms)
            for one in self._reader.all_stays()
        ]

    def is_idle(self, wall_ms: int) -> bool:
        """Whether nothing about the group is worth remembering."""
        self._reader.forget(wall_ms - KEPT_MS)
        self._fences = {
            name: times for name, times in self._fences.items() if times and wall_ms - times[-1] <= limits.LOOP_MS
        }
        self.streams.forget(wall_ms - KEPT_MS)
        is_known = self._reader.rebalances or self._fences or self.mixed or self.rebalancing is not None
        is_known = is_known or self.streams.is_known
        if self.shares is not None:
            self.shares.forget(wall_ms - KEPT_MS)
            is_known = is_known or self.shares.is_known
        return not is_known and not self.commits.is_behind

    def may_have_claims(self, wall_ms: int) -> bool:
        """Whether the claims may be others than at the last call of `claims`."""
        is_known = self.has_news or self._fences or self.mixed or self.rebalancing or self.streams.is_known
        of_shares = self.shares is not None and self.shares.is_known
        return bool(is_known) or of_shares or self.commits.may_be_trouble(wall_ms)

    def claims(self, wall_ms: int, moments: Sequence[Moment]) -> list[Claim]:
        """The claims about trouble that lasts."""
        self.has_news = False
        reader, when = self._reader, When(wall_ms)
        stays, rebalances = reader.all_stays(), reader.rebalances
        facts = Facts(
            wall_ms,
            stays=stays,
            rebalances=rebalances,
            stalled=self.commits.stalls(wall_ms, self.owners) if self.rebalancing is None else (),
            back=self.commits.back(wall_ms),
            progress=[*self.commits.steps],
            lags=self.commits.lags(self.owners),
            score=self._score(wall_ms),
            deleted_ms=reader.deleted_ms,
            together=self._together(wall_ms),
            streams=self.streams.facts(),
            shares=NO_SHARES if self.shares is None else self.shares.facts(),
        )
        found = [*verdict(episodes(stays, rebalances, moments), facts).claims]
        if self.rebalancing is not None and (claim := rebalance_claim(self.rebalancing, when)) is not None:
            found.append(claim)
        for instance, times in self._fences.items():
            claim = fenced_claim(Takeovers(instance, times, tuple(self._hosts.get(instance, ()))), when)
            if claim is not None:
                found.append(claim)
        return [one for one in found if one.is_on or one.rule == TWO_TOPICS or _is_recent(one, wall_ms)]

    def _together(self, wall_ms: int) -> Any:
        return together([(from_ms, wall_ms, members) for from_ms, _, members in self.mixed])

    def _score(self, wall_ms: int) -> float:
        rebalances = self._reader.rebalances
        if not rebalances:
            return 0.0
        ends = [one.end_ms for one in rebalances]
        lasted = [after - end for end, after in zip(ends, [*(one.start_ms for one in rebalances[1:]), wall_ms],
                                                    strict=True)]  # fmt: skip
        short = sum(ms < SHORT_MS and bool(one.members_after) for ms, one in zip(lasted, rebalances, strict=True))
        places = {stay.who.member_id: stay.who.slot for stay in self._reader.all_stays()}
        triggers = [places.get(one.trigger, (one.trigger,)) for one in rebalances if one.trigger is not None]
        hours = (wall_ms - rebalances[0].start_ms) / HOUR
        return flapping_score(len(rebalances), hours, short, len(triggers), len(set(triggers)))


def _is_recent(claim: Claim, wall_ms: int) -> bool:
    """Whether deliveries have shown this trouble lately."""
    return claim.rule in OF_SHARES and claim.until_ms is not None and wall_ms - claim.until_ms <= RECENT_MS
