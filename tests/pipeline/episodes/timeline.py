"""A hand-made history of a group's members and rebalances: each join and each departure has its own rebalance."""

from __future__ import annotations

from muster.pipeline.episodes import find
from muster.pipeline.episodes.model import EXPIRED, LEFT, REPLACED, Episode, Moment, Rebalance, Stay, Who
from muster.pipeline.episodes.silence import Silence

START_MS = 1_750_000_000_000
HOUR_S = 3_600


class Group:
    """Times are seconds since START_MS. A group begins with `names`: each is a client id on its own host."""

    def __init__(self, *names: str, host: str | None = None, partitions: int = 6) -> None:
        self.stays: list[Stay] = []
        self.rebalances: list[Rebalance] = []
        self.moments: list[Moment] = []
        self.silences: list[Silence] = []
        self._alive: dict[str, int] = {}
        self._host, self._partitions = host, partitions
        self._ids = self._generation = 0
        if names:
            for name in names:
                self._begin(name, 0)
            self._rebalance(3, "member_joined", names[0])

    def comes(self, at_s: float, *names: str, **other: object) -> Group:
        """All of them join in one rebalance."""
        for name in names:
            self._begin(name, at_s, **other)
        return self._rebalance(at_s, "member_joined", names[0])

    def leaves(self, at_s: float, *names: str, how: str = LEFT, **other: object) -> Group:
        """All of them leave in one rebalance."""
        ids = {name: self.stays[self._alive[name]].who.member_id for name in names}
        for name in names:
            number = self._alive.pop(name)
            self.stays[number] = self.stays[number]._replace(
                end_ms=ms(at_s), how=how, last_generation=self._generation, **self._of_spell(other)
            )
        cause = "session_expired" if how == EXPIRED else "member_left"
        return self._rebalance(at_s, cause, ids[names[0]], is_id=True, **other)

    def exchanges(self, at_s: float, gone: str, came: str, cause: str) -> Group:
        """For each member (a letter) that leaves, another one joins in the same rebalance."""
        for name in gone:
            number = self._alive.pop(name)
            self.stays[number] = self.stays[number]._replace(
                end_ms=ms(at_s), how=LEFT, last_generation=self._generation
            )
        for name in came:
            self._begin(name, at_s + 1)
        return self._rebalance(at_s, cause, came[0])

    def dies(self, at_s: float, *names: str, **other: object) -> Group:
        return self.leaves(at_s, *names, how=EXPIRED, **other)

    def restarts(self, at_s: float, name: str, away_s: float = 20, **other: object) -> Group:
        return self.leaves(at_s, name, **other).comes(at_s + away_s, name)

    def is_replaced(self, at_s: float, name: str, host: str | None = None) -> Group:
        """A static member returns without a rebalance."""
        old = self._alive.pop(name)
        self.stays[old] = self.stays[old]._replace(end_ms=ms(at_s), how=REPLACED, last_generation=self._generation)
        self._begin(name, at_s, host=host, instance=True, generation=self._generation)
        return self

    def is_lost_with_others(self, at_s: float) -> Group:
        """Whether members of several groups were seen last at this time."""
        self.moments.append((ms(at_s - 10), ms(at_s + 20)))
        return self

    def is_silent_with_others(self, from_s: float, until_s: float) -> Group:
        """No group gives a sign of life in this time."""
        self.silences.append(Silence(ms(from_s), ms(until_s), 5))
        return self

    def rebalances_for(self, at_s: float, cause: str, name: str | None = None) -> Group:
        """Add rebalances with the same members."""
        return self._rebalance(at_s, cause, name)

    def episodes(self) -> list[Episode]:
        return find.episodes(self.stays, self.rebalances, self.moments, self.silences)

    def kinds(self) -> list[str]:
        """The kinds of episodes, without the first formation."""
        return [one.kind for one in self.episodes() if one.kind != "first_formation"]

    def _begin(
        self, name: str, at_s: float, *, host: str | None = None, instance: bool = False, generation: int | None = None
    ) -> None:
        self._ids += 1
        client, where = name.split("#")[0], host or self._host or f"/10.0.0.{sum(name.encode()) % 251}"
        who = Who(f"{client}-{self._ids:04d}", name if instance else None, client, where)
        first = self._generation + 1 if generation is None else generation
        self._alive[name] = len(self.stays)
        self.stays.append(Stay(who, ms(at_s), None, None, first))

    def _rebalance(
        self,
        at_s: float,
        cause: str,
        name: str | None,
        *,
        is_id: bool = False,
        reason: str | None = None,
        **_: object,
    ) -> Group:
        self._generation += 1
        trigger = name if is_id or name is None else self.stays[self._alive[name]].who.member_id
        had = len(self.rebalances) and self.rebalances[-1].members_after
        self.rebalances.append(
            Rebalance(
                self._generation,
                self._generation - 1,
                ms(at_s),
                ms(at_s + 2),
                cause,
                trigger,
                reason,
                had,
                len(self._alive),
                self._partitions,
                2_000 * self._partitions,
                1.0,
            )
        )
        return self

    @staticmethod
    def _of_spell(other: dict[str, object]) -> dict[str, object]:
        return {name: other[name] for name in ("silent_ms", "patience_ms", "session_ms") if name in other}


def ms(at_s: float) -> int:
    return START_MS + round(at_s * 1000)
