"""`muster lint --rehearse`: plays the moments in which clients go wrong, and reports what each client did.

The rehearsal begins when clients have been at work for a while. A moment ends when its time is over and each client
that was hit has recovered, or has had time for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from muster.clientlint.linter import Linter
from muster.clientlint.moments import Moment
from muster.clientlint.trails import Played, Trails
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.waits import pause

log = structlog.get_logger("muster.lint")

WARM_UP_REQUESTS: Final = 30
"""The rehearsal begins after this many requests of clients …"""
WARM_UP_MS: Final = 5_000
"""… and this time later: then groups are stable."""
RECOVERY_MS: Final = 15_000
"""How long a client that was hit may take to recover."""
CHECK_MS: Final = 250


class Rehearsal:
    """See the module. `played`: the moments until now."""

    def __init__(self, control: ServerControl, linter: Linter, moments: Sequence[Moment]) -> None:
        self.played: list[Played] = []
        self._control = control
        self._linter = linter
        self._moments = moments
        self._trails = Trails()
        linter.watch(self._trails)

    async def play(self) -> None:
        """Wait for clients, and play all moments."""
        while self._linter.requests < WARM_UP_REQUESTS:
            await self._wait(CHECK_MS)
        await self._wait(WARM_UP_MS)
        for moment in self._moments:
            log.info("a moment of the rehearsal begins", moment=moment.name, about=moment.about)
            await self._play(moment)

    async def _play(self, moment: Moment) -> None:
        self._trails.begin()
        match = Match(api=moment.apis, predicate=self._predicate(moment))
        rule = self._control.faults.add(match, moment.action, name=moment.name)
        self._shake(moment.shakes)
        await self._wait(moment.lasts_ms)
        self._control.faults.remove(rule.id)
        waited_ms = 0
        while waited_ms < RECOVERY_MS and not self._trails.is_over:
            await self._wait(CHECK_MS)
            waited_ms += CHECK_MS
        self.played.append(Played(moment.name, moment.about, self._trails.reactions()))

    def _predicate(self, moment: Moment) -> Callable[[Request], bool]:
        hit: set[str] = set()

        def is_hit(request: Request) -> bool:
            if moment.transactional and not request.transactional_ids:
                return False
            if (moment.protocol or moment.static is not None) and not self._is_member(moment, request):
                return False
            if moment.each_once and request.client_id in hit:
                return False
            hit.add(request.client_id)
            self._trails.hit(request.client_id)
            return True

        return is_hit

    def _is_member(self, moment: Moment, request: Request) -> bool:
        """Whether a member of the moment's protocol asks, which is static or not, as the moment demands."""
        groups, members = request.groups, request.members
        if not groups or not members:
            return False
        group = self._control.groups.describe(groups[0])
        if moment.protocol and group.kind != moment.protocol:
            return False
        if moment.static is None:
            return True
        known = next((one for one in group.members if one.member_id == members[0]), None)
        is_static = bool(request.instances) or (known is not None and bool(known.instance_id))
        return is_static == moment.static

    def _shake(self, how: str) -> None:
        groups = self._control.groups
        for group_id in groups.ids() if how else ():
            try:
                if how == "rebalance":
                    groups.rebalance(group_id)
                else:
                    for member in groups.describe(group_id).members:
                        groups.expire(group_id, member.member_id)
            except CannotBeDone as refusal:
                log.info("a group is left alone", group=group_id, reason=str(refusal))

    async def _wait(self, ms: int) -> None:
        await pause(self._control.server.clock.machine, ms)
