"""One group's members and rebalances, in the form that the rules of `rules` need."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from muster.coordinator.groups.common.events import MEMBER_JOINED, POLLED_TOO_LATE, SESSION_EXPIRED
from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import (
    DEATHS,
    EXPIRED,
    LEFT,
    REPLACED,
    TIMEOUTS,
    Moment,
    Rebalance,
    Stay,
    Who,
    is_slow,
)
from muster.pipeline.episodes.places import Change, changes
from muster.pipeline.episodes.silence import Silence, ended_by

NEAR_MS: Final = 60_000
"""A member joins or leaves at most this long before its rebalance begins."""
_THAWED_MS: Final = 500
"""A broker that was frozen ends the sessions within this time after its first sign of life."""
_AFTER_MS: Final = 5_000
"""The event of a member is at most this long after the end of its rebalance."""


class History:
    """The members and rebalances of one group.

    `stays` are in the order in which they began, `rebalances` in the order in which they ended. `moments`: when members
    of several groups were lost. `silences`: when no group gave a sign of life.
    """

    def __init__(
        self,
        stays: Sequence[Stay],
        rebalances: Sequence[Rebalance],
        moments: Sequence[Moment],
        silences: Sequence[Silence] = (),
    ) -> None:
        self.stays = stays
        self.rebalances = rebalances
        # a silence explains the losses at its moments, and only those: later losses have other reasons
        apart = (one for one in moments if not any(_touches(one, silence) for silence in silences))
        self._apart = list(apart)
        self._by_silence = [(one.from_ms - limits.MOMENT_MS, one.until_ms) for one in silences]
        self.moments = [*self._apart, *self._by_silence]
        self.silences = silences
        self._ends = [one.end_ms for one in rebalances]
        self._by_generation: dict[int, list[int]] = defaultdict(list)
        self._by_before: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(rebalances):
            self._by_generation[one.generation].append(number)
            if one.before_generation is not None:
                self._by_before[one.before_generation].append(number)
        self._came = {number: self._rebalance_of_coming(one) for number, one in enumerate(stays)}
        self._went = {number: self._rebalance_of_going(one) for number, one in enumerate(stays)}
        # a member that exists when the log begins did not join then
        known = [one for one in changes(stays) if one.gone is not None or self._came[one.came or 0] is not None]
        self.left = [one for one in known if self.numbers([one]) or one.how == REPLACED]
        """The changes that no rule has taken yet, in the order of time."""
        self._clients: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for stay in stays:
            self._clients[stay.who.client_id or ""].add(stay.who.slot)

    # ---- members and rebalances

    def _rebalance_of_coming(self, stay: Stay) -> int | None:
        known = [] if stay.first_generation is None else self._by_generation[stay.first_generation]
        number = self._nearest(known, stay.start_ms) if known else self._around(stay.start_ms)
        # nobody knows which members joined with the first record of a log
        return None if number is not None and is_unknown(self.rebalances[number]) else number

    def _rebalance_of_going(self, stay: Stay) -> int | None:
        if stay.end_ms is None or stay.how == REPLACED:
            return None
        known = [] if stay.last_generation is None else self._by_before[stay.last_generation]
        end_ms = stay.end_ms
        return min(known, key=lambda one: self._away_ms(one, end_ms)) if known else self._around(end_ms)

    def _nearest(self, known: Sequence[int], ms: int) -> int | None:
        best = min(known, key=lambda one: self._away_ms(one, ms))
        one = self.rebalances[best]
        return best if one.start_ms - NEAR_MS <= ms <= one.end_ms + _AFTER_MS else None

    def _away_ms(self, number: int, ms: int) -> int:
        one = self.rebalances[number]
        return max(one.start_ms - ms, ms - one.end_ms, 0)

    def _around(self, ms: int) -> int | None:
        number = bisect_left(self._ends, ms)
        near = [one for one in (number - 1, number) if 0 <= one < len(self._ends)]
        near = [one for one in near if self._away_ms(one, ms) <= _AFTER_MS]
        return min(near, key=lambda one: (self._away_ms(one, ms), one), default=None)

    def numbers(self, some: Iterable[Change]) -> set[int]:
        """The rebalances of some changes, as indexes in `rebalances`."""
        numbers_found = {self._went[one.gone] for one in some if one.gone is not None}
        numbers_found |= {self._came[one.came] for one in some if one.came is not None}
        return numbers_found - {None}  # type: ignore[return-value]  # None is taken out

    def owners(self, picked: Sequence[tuple[str, list[Change]]]) -> dict[int, int]:
        """The episode of each rebalance: the episode of the member that caused the rebalance.

        If no episode has that member, it is the episode of the first member in the rebalance.
        """
        claims: dict[int, list[tuple[bool, int, int]]] = defaultdict(list)
        for at, (_, some) in enumerate(picked):
            for one in some:
                for stay, numbers in ((one.gone, self._went), (one.came, self._came)):
                    number = None if stay is None else numbers[stay]
                    if stay is None or number is None:
                        continue
                    is_cause = self.stays[stay].who.member_id == self.rebalances[number].trigger
                    claims[number].append((not is_cause, one.from_ms, at))
        return {number: min(several)[2] for number, several in claims.items()}

    # ---- what rules need

    @staticmethod
    def chains(some: Sequence[Change], most_ms: int, *, distinct: bool = False) -> Iterator[list[Change]]:
        """Groups of changes that follow each other within `most_ms`. `distinct`: a group has each place only once."""
        chain: list[Change] = []
        for one in some:
            last_ms = max((each.until_ms for each in chain), default=0)
            again = distinct and any(each.place == one.place for each in chain)
            if chain and (one.from_ms - last_ms > most_ms or again):
                yield chain
                chain = []
            chain.append(one)
        if chain:
            yield chain

    def runs(self) -> dict[int, list[list[Change]]]:
        """For each place: exchanges that follow each other so soon that they may be a loop."""
        by_place: dict[int, list[Change]] = defaultdict(list)
        for one in self.left:
            if one.gone is not None:
                by_place[one.place].append(one)
        return {
            place: [run for part in _until_nobody_came(some) for run in self.chains(part, limits.LOOP_MS)]
            for place, some in by_place.items()
        }

    def was_slow(self, one: Change) -> bool | None:
        """Did a member not poll in time? True means that the log says so, and None that only its commits suggest it."""
        number = None if one.gone is None else self._went[one.gone]
        if one.gone is None:
            return False
        stay = self.stays[one.gone]
        if number is not None and self.rebalances[number].trigger == stay.who.member_id:
            rebalance = self.rebalances[number]
            if rebalance.cause in TIMEOUTS or POLLED_TOO_LATE in (rebalance.reason or ""):
                return True
            if rebalance.reason:
                return False
        silent_ms, patience_ms = stay.silent_ms, stay.patience_ms
        if stay.how not in (LEFT, *DEATHS) or silent_ms is None or not patience_ms:
            return False
        if patience_ms == stay.session_ms or (one.died and one.overlaps):
            # aiokafka sends its session timeout as rebalance timeout. A slow process returns only after its end
            return False
        return None if is_slow(silent_ms, patience_ms) else False

    def may_be_slow(self, one: Change) -> bool:
        """May a member have been slow, though its commits do not show it? If its timeouts are short, it looks dead."""
        if not one.died:
            return True
        stay = self.stays[one.gone or 0]
        is_short = (stay.patience_ms or 0) <= limits.SLOW_SESSIONS * (stay.session_ms or 0)
        return is_short and not one.overlaps and self.silence_of(one) is None

    def is_sure_of_slowness(self, some: Sequence[Change]) -> bool:
        """Do commits alone show that members were slow often enough? A dead member is silent for its session too."""
        stays = [self.stays[one.gone] for one in some if one.gone is not None]
        patient = all(
            one.how == LEFT or (one.patience_ms or 0) > limits.SLOW_SESSIONS * (one.session_ms or 0) for one in stays
        )
        return len(stays) >= (limits.SLOW_TWICE if patient else limits.LOOPS)

    def is_common(self, one: Change) -> bool:
        """Was a member lost at the same moment as members of several groups, or by a silence of all groups?"""
        if one.gone is None:
            return False
        if (silence := self._silence_before(one)) is not None:
            return not self._is_alone(one, silence)
        if (lost_ms := self.stays[one.gone].lost_ms) is None:
            return False
        times = [lost_ms]
        if one.died and (number := self._went[one.gone]) is not None:
            # each death has a rebalance. The last sign of life was a session before the rebalance, even if the member
            # had nothing to commit
            times.append(self.rebalances[number].start_ms - (self.stays[one.gone].session_ms or 0))
        silent_ms = self.stays[one.gone].silent_ms
        if silent_ms is not None and silent_ms > 0:
            times.append((self.stays[one.gone].end_ms or 0) - silent_ms)  # the time of the member's last commit
        stay = self.stays[one.gone]
        moments = [*self._apart, *(span for span, each in zip(self._by_silence, self.silences, strict=True)
                                   if _may_be_lost_by(stay, each))]  # fmt: skip
        return any(since <= ms <= until for ms in times for since, until in moments)

    def is_same(self, one: Change) -> bool:
        """Does the member that joined have the ids of the member that it replaced, or did nobody join?"""
        if one.gone is None or one.came is None:
            return True
        return self.stays[one.gone].who.slot == self.stays[one.came].who.slot

    def is_exchanged_at_once(self, one: Change) -> bool:
        """Did a member of another name join in the rebalance in which the old one left, most likely before that?

        If so, its join is the cause, or more members joined with it. A rolling restart has them one by one.
        """
        if one.gone is None or one.came is None:
            return False
        old, new = self.stays[one.gone].who, self.stays[one.came].who
        number = self._went[one.gone]
        if old.client_id == new.client_id or number is None or number != self._came[one.came]:
            return False
        together = sum(each == number for each in self._came.values())
        return self.rebalances[number].cause == MEMBER_JOINED or together > 1

    def silence_of(self, one: Change) -> Silence | None:
        """The silence that ended the stay of a member, or None."""
        silence = self._silence_before(one)
        is_alone = silence is not None and self._is_alone(one, silence)
        return None if is_alone else silence

    def _is_alone(self, one: Change, silence: Silence) -> bool:
        """Was the member perhaps lost for its own reason soon after a silence, since most of its group outlived it?

        After a silence a session begins again. So a member that was lost at once was lost because of the silence. So
        was a member that was lost when the new session ended, and that is back.
        """
        stay = self.stays[one.gone or 0]
        late_ms = (stay.end_ms or 0) - silence.until_ms
        if stay.start_ms > silence.from_ms or late_ms < limits.LATE_MS:
            return False
        if one.came is not None and stay.session_ms and abs(late_ms - stay.session_ms) <= limits.LATE_MS:
            return False
        return self.most_outlived(one, silence)

    def most_outlived(self, one: Change, silence: Silence) -> bool:
        """Did most members of the group outlive a silence after which this member was lost?"""
        stay = self.stays[one.gone or 0]
        late_ms = silence.until_ms + limits.BACK_MS + (stay.session_ms or EPOCH_SESSION_MS)
        ends = [one.end_ms for one in self.stays if one.start_ms <= silence.from_ms <= (one.end_ms or late_ms)]
        return 2 * sum(end_ms is not None and end_ms <= late_ms for end_ms in ends) <= len(ends)

    def is_unsure(self, one: Change) -> bool:
        """Does the log hardly show whether a member left, or was lost?

        At the end of a silence it does not: the broker may have removed the member.
        """
        number = None if one.gone is None else self._went[one.gone]
        if number is None or one.how not in (LEFT, *DEATHS):
            return False
        if one.died:
            rebalance = self.rebalances[number]
            return rebalance.cause == SESSION_EXPIRED and rebalance.confidence <= limits.HARDLY
        return self.is_after_silence(one) or self.rebalances[number].confidence <= limits.HARDLY

    def is_after_silence(self, one: Change) -> bool:
        """Did the stay of a member end with a silence?"""
        stay = self.stays[one.gone or 0]
        return any(
            stay.start_ms <= each.from_ms and 0 <= (stay.end_ms or 0) - each.until_ms <= limits.SECOND
            for each in self.silences
        )

    def is_just_after_silence(self, one: Rebalance) -> bool:
        """Did a rebalance end so soon after a silence that sessions may have ended because of it?"""
        return any(each.from_ms <= one.end_ms <= each.until_ms + EPOCH_SESSION_MS for each in self.silences)

    def is_back_after(self, one: Change, silence: Silence) -> bool:
        """Did a member join just after a silence, so that nobody knows whether it is new in the group?

        It is new if its process was never there, and nobody is missing that was there before the silence. But the
        silence may have come in the midst of a formation.
        """
        if one.gone is not None or not silence.from_ms < one.gone_ms <= silence.until_ms + limits.BACK_MS:
            return False
        had = [stay for stay in self.stays if stay.start_ms < silence.from_ms]
        has = {stay.who.slot for stay in self.stays if (stay.end_ms or one.gone_ms + 1) > one.gone_ms}
        before = {stay.who.slot for stay in had if (stay.end_ms or silence.until_ms) >= silence.from_ms}
        was_there = self.stays[one.came or 0].who.slot in {stay.who.slot for stay in had}
        formed_ms = max((stay.start_ms for stay in had), default=silence.from_ms)
        return bool(had) and (was_there or not before <= has or silence.from_ms - formed_ms <= limits.FORM_MS)

    def _silence_before(self, one: Change) -> Silence | None:
        """The silence after which a member did not stay, or None."""
        stay = None if one.gone is None else self.stays[one.gone]
        if stay is None or stay.end_ms is None:
            return None
        heard_ms = None if stay.silent_ms is None else stay.end_ms - stay.silent_ms
        session_ms = stay.session_ms or EPOCH_SESSION_MS
        found = ended_by(self.silences, stay.start_ms, heard_ms, stay.end_ms, session_ms)
        if found is not None and not _may_be_lost_by(stay, found):
            found = None
        return found or self._with_frozen_broker(stay)

    def _with_frozen_broker(self, stay: Stay) -> Silence | None:
        """The silence whose end removed this member together with another member of its group, or None.

        A frozen broker first answers the commits that it had not read, and then ends all sessions.
        """
        for silence in self.silences:
            until_ms = silence.until_ms + _THAWED_MS
            if stay.start_ms <= silence.from_ms and silence.until_ms <= (stay.end_ms or 0) <= until_ms and any(
                one.how in DEATHS and silence.until_ms <= (one.end_ms or 0) <= until_ms for one in self.stays
            ):  # fmt: skip
                return silence
        return None

    def is_after_trouble(self, rebalance: Rebalance) -> bool:
        """Did this rebalance begin when members of several groups had just been lost?"""
        # what was before a silence has another reason
        spans = [*self._apart, *((one.from_ms, one.until_ms) for one in self.silences)]
        return any(since <= rebalance.start_ms <= until + NEAR_MS for since, until in spans)

    def empty_times(self) -> list[int]:
        """The times at which the last member left the group."""
        steps = sorted(
            [(one.start_ms, 1) for one in self.stays]
            + [(one.end_ms, 0) for one in self.stays if one.end_ms is not None],
            key=lambda step: (step[0], -step[1]),
        )
        found, count = [], 0
        for ms, came in steps:
            count += 1 if came else -1
            if not count:
                found.append(ms)
        return found

    def names(self, some: Iterable[Who]) -> list[str]:
        """The names of members for people, each once. A log that begins in mid-life may not have a member's names."""
        return list(dict.fromkeys(self._name(who) for who in some if who.instance_id or who.client_id))

    def _name(self, who: Who) -> str:
        """The name has the host only if another member has the same client id."""
        if who.instance_id:
            return who.instance_id
        client_id = who.client_id or ""
        several = len(self._clients[client_id]) > 1
        return f"{client_id} ({(who.host or '').removeprefix('/')})" if several and who.host else client_id


def _until_nobody_came(some: Sequence[Change]) -> Iterator[list[Change]]:
    part: list[Change] = []
    for one in some:
        part.append(one)
        if one.came is None:
            yield part
            part = []
    if part:
        yield part


def _may_be_lost_by(stay: Stay, silence: Silence) -> bool:
    """Whether a silence may be the reason for the end of a stay.

    What ended before the silence began has another reason. A member whose session ended had sent a heartbeat a session
    before. If that was after the silence, it lived then.
    """
    end_ms, session_ms = stay.end_ms or 0, stay.session_ms
    lived_later = stay.how == EXPIRED and session_ms and end_ms - session_ms > silence.until_ms + limits.LATE_MS
    return end_ms >= silence.from_ms and not lived_later


def _touches(moment: Moment, silence: Silence) -> bool:
    return moment[0] <= silence.until_ms + limits.MOMENT_MS and moment[1] >= silence.from_ms - limits.MOMENT_MS


def is_unknown(one: Rebalance) -> bool:
    """Does the log lack the state before this rebalance?"""
    return one.before_generation is None and one.members_before is None and one.cause is None
