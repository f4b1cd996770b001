"""The alerts of one process. It takes events, looks at the groups every few seconds, and reports what begins and ends.

The rules run in a thread. The event loop only notes events, and looks at groups in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final

import structlog

from muster.coordinator.alerts.book import Alert, alert_of
from muster.coordinator.alerts.group_watch import KEPT_MS, GroupWatch
from muster.coordinator.alerts.remembering import remember
from muster.coordinator.alerts.reporting import AlertReports, webhooks_of
from muster.coordinator.alerts.sampling import Watches, see_commits, see_members
from muster.coordinator.alerts.settings import AlertSettings
from muster.coordinator.alerts.share_sampling import see_deliveries
from muster.coordinator.alerts.webhooks import Webhooks
from muster.coordinator.config import Config
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.server.server import Server
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.pipeline.episodes.live import storm_claim
from muster.pipeline.episodes.model import TROUBLE, Moment
from muster.pipeline.episodes.moments import Losses
from muster.pipeline.episodes.when import When

log = structlog.get_logger("muster.groups")

LOOK_MS: Final = 5_000
"""How often the groups are judged."""
SAMPLE_LOOKS: Final = 3
"""After this many looks, the commits of all groups are looked at."""
IDLE_LOOKS: Final = 60
"""After this many looks, groups without news are judged too, and forgotten if nothing about them is recent."""
MAX_EVENTS: Final = 20_000
"""The most events that wait for the next look. Further events are not judged."""
MAX_WATCHED: Final = 20_000
"""The most groups that are remembered."""
JUDGED_AT_ONCE: Final = 50
"""How many groups the thread judges before others may use the thread."""
_CHANGES: Final = frozenset({events.REBALANCE_COMPLETED, events.EPOCH_RECONCILED, events.GROUP_EMPTIED})
_LOSSES: Final = frozenset({events.MEMBER_EXPIRED, events.MEMBER_REMOVED})
_Waiting = list[tuple[Event, int]]


class GroupAlerts:
    """See the module. `take` is to get all events of groups (`ServerMetrics.subscribe`)."""

    def __init__(self, settings: AlertSettings, webhooks: Webhooks) -> None:
        self.reports = AlertReports(settings, webhooks)
        self.book = self.reports.book
        self._is_enabled = settings.muster_alerts_enable
        self._server: Server | None = None
        self._watches: Watches = {}
        self._waiting: _Waiting = []
        self._timer: Timer | None = None
        self._is_new = True
        """Whether the history of the server was not read yet."""
        self._looks = 0
        self._is_looking = False
        self.closed = False
        """See `jobs.job_queue.Owner`."""
        self._storms: list[Alert] = []
        self._moments: list[Moment] = []

    @classmethod
    def of(cls, config: Config, clock: Clock, token: str | None) -> GroupAlerts:
        """The alerts of a configuration that was `checked`. `token`: what webhooks get in their headers."""
        return cls(config.settings(AlertSettings), webhooks_of(config, clock, token))

    # ---- taking events

    def take(self, some: Sequence[Event], now: Now) -> None:
        """Note events of groups for the next look."""
        if self._timer is not None and len(self._waiting) < MAX_EVENTS:
            self._waiting += [(event, now.wall_ms) for event in some]

    # ---- looking

    def watch(self, clock: Clock, current: Callable[[], Server | None]) -> None:
        """Look at the groups of the current server, until `stop`. `clock`: the machine's."""
        if self._is_enabled:
            self._timer = clock.call_at(clock.mono_ms() + LOOK_MS, partial(self._begin_look, clock, current))

    def _begin_look(self, clock: Clock, current: Callable[[], Server | None]) -> None:
        self.watch(clock, current)
        server = current()
        if server is not self._server:
            self._server = server
            self._watches.clear()
            self._is_new = True
            self._is_looking = False
        if server is not None and server.nodes and not self._is_looking:
            self._is_looking = True
            server.job_queue.run_behind(self.look(server), self._looked, self)

    def _looked(self, _: object) -> None:
        self._is_looking = False

    def fault(self, error: Exception) -> None:
        """Log an error of `look`, which is a bug. The next look begins again."""
        self._is_looking = False
        log.error("groups could not be judged for alerts, because of a bug in the server", exc_info=error)

    def stop(self) -> None:
        """Look no more, and send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self.closed = True
        self.reports.stop()

    def look(self, server: Server) -> Job[None]:
        """Judge all groups once."""
        now_ms = server.clock.now().wall_ms
        some, self._waiting = self._waiting, []
        if self._is_new:
            self._is_new = False
            yield from remember(server, self._watches, now_ms - KEPT_MS, some[0][1] if some else now_ms)
        changed = {event.group_id for event, _ in some if event.kind in _CHANGES}
        yield from self._feed(some)
        for group_id in changed:
            if group_id in self._watches:
                self._watches[group_id].rebalancing = None  # a later one has begun again
        if not self._looks % SAMPLE_LOOKS:
            yield from see_commits(server, self._watches, now_ms)
            yield from see_deliveries(server, self._watches, now_ms, MAX_WATCHED)
        self._looks += 1
        yield from see_members(server, self._watches, changed, now_ms)
        if self._storms or any(event.kind in _LOSSES for event, _ in some):
            self._storms, self._moments = yield OffloadedWork(partial(_storms, [*self._watches.items()], now_ms))
        found = yield from self._judge(now_ms)
        self.reports.take(found, server.node.cluster.cluster_id, now_ms)

    def _feed(self, some: _Waiting) -> Job[None]:
        watches, rows = self._watches, iter(some)
        while part := [*islice(rows, JUDGED_AT_ONCE)]:
            for event, _ in part:
                if event.group_id not in watches and len(watches) < MAX_WATCHED:
                    watches[event.group_id] = GroupWatch()
            yield OffloadedWork(partial(_feed, part, watches))

    def _judge(self, now_ms: int) -> Job[dict[str | None, list[Alert]]]:
        found: dict[str | None, list[Alert]] = {None: self._storms}
        open_groups = {one.group for one in self.book.open()}
        found.update({group_id: [] for group_id in open_groups if group_id not in self._watches})
        rows = iter([
            (group_id, watch) for group_id, watch in self._watches.items()
            if watch.may_have_claims(now_ms) or group_id in open_groups or not self._looks % IDLE_LOOKS
        ])  # fmt: skip
        while part := [*islice(rows, JUDGED_AT_ONCE)]:
            of_part, idle = yield OffloadedWork(partial(_judged, part, now_ms, self._moments, bool(self._storms)))
            found.update(of_part)
            for group_id in idle:
                self._watches.pop(group_id, None)
        return found


def _feed(some: _Waiting, watches: Watches) -> None:
    for event, wall_ms in some:
        watch = watches.get(event.group_id)
        if watch is not None:
            watch.feed(event, wall_ms)


_Rows = Sequence[tuple[str, GroupWatch]]


def _storms(rows: _Rows, now_ms: int) -> tuple[list[Alert], list[Moment]]:
    losses, lost = Losses(), dict[str, list[int]]()
    for group_id, watch in rows:
        heard = watch.heard()
        losses.add(heard)
        known = [one.heard_ms for one in heard if one.heard_ms is not None]
        if known:
            lost[group_id] = known
    moments = losses.found()
    claim = storm_claim(lost, moments, When(now_ms))
    return [] if claim is None else [alert_of(None, claim, now_ms)], moments


def _judged(
    rows: _Rows, now_ms: int, moments: Sequence[Moment], is_storm: bool
) -> tuple[dict[str, list[Alert]], list[str]]:
    """The alerts of each group, and the groups that need not be remembered. A storm stands for its groups."""
    found, idle = dict[str, list[Alert]](), []
    for group_id, watch in rows:
        if watch.is_idle(now_ms):
            idle.append(group_id)
        claims = watch.claims(now_ms, moments)
        found[group_id] = [alert_of(group_id, one, now_ms) for one in claims if not (is_storm and one.rule == TROUBLE)]
    return found, idle
