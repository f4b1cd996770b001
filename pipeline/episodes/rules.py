"""Rules for which changes of members belong together: one function for each kind of episode.

`RULES` has the functions in the order in which they apply. Each function yields kinds of episodes, each with the
changes of one episode. It gets the changes that no earlier rule has taken. The page docs/pipeline-episodes.md explains
each rule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.history import NEAR_MS, History, is_unknown
from muster.pipeline.episodes.places import Change
from muster.pipeline.episodes.silence import Silence

Found = Iterator[tuple[str, list[Change]]]


def _formation(of: History) -> Found:
    """Find the first members of a new group, or of a group that had stopped before its log begins."""
    first = of.rebalances[0] if of.rebalances else None
    had_stopped = first is not None and is_unknown(first) and first.members_after == 0
    if had_stopped:
        first = next((one for one in of.rebalances if one.members_after), None)
    if first is None or first.members_before != 0:
        return
    # a group that seems to have no members in the first record has some if only their records are missing
    since_ms = first.start_ms - (0 if had_stopped else NEAR_MS)
    if any(one.start_ms < since_ms for one in of.stays):
        return
    came = [one for one in of.left if one.gone is None]
    chain = next(of.chains(came, limits.FORM_MS), None)
    if chain and chain[0].gone_ms <= first.end_ms:
        is_lost = had_stopped and of.is_just_after_silence(of.rebalances[0])
        yield (model.TROUBLE if is_lost else model.STOP if had_stopped else model.FORMATION), chain


def _trouble(of: History) -> Found:
    """Find members that were lost at the same moment as members of other groups. A loop across it stays a loop."""
    every = {one for one in of.left if of.is_common(one)}
    for run in (run for runs in of.runs().values() for run in runs):
        by_trouble = _by_trouble(of, [one for one in run if one in every])
        if sum(one.died for one in run) - len(by_trouble) >= limits.LOOPS:
            for some in by_trouble:
                silence = of.silence_of(some[-1])
                is_alone = silence is not None and of.most_outlived(some[-1], silence)
                every.difference_update(some if is_alone else some[:-1])
        deaths = [at for at, one in enumerate(run) if one.died and one not in every]
        if deaths and deaths[-1] - deaths[0] + 1 >= limits.LOOPS:
            every.difference_update(run[deaths[0] : deaths[-1]])
            # without a silence, the moment at which other groups lost members is chance
            every.difference_update(one for one in run if of.silence_of(one) is None)
    common = [one for one in of.left if one in every]
    for silence in of.silences:
        if ended := [one for one in common if of.silence_of(one) == silence]:
            yield model.TROUBLE, ended
    for silence in of.silences:
        if back := [one for one in of.left if of.is_back_after(one, silence)]:
            yield model.TROUBLE, back
    common = [one for one in common if of.silence_of(one) is None]
    for chain in of.chains(sorted(common, key=lambda one: one.gone_ms), 3 * limits.MOMENT_MS):
        yield model.TROUBLE, chain


def _by_trouble(of: History, common: Sequence[Change]) -> list[list[Change]]:
    """The losses of one place by the same trouble, which explains only one loss of a member."""
    by_silence: dict[Silence, list[Change]] = defaultdict(list)
    others: list[Change] = []
    for one in common:
        silence = of.silence_of(one)
        (others if silence is None else by_silence[silence]).append(one)
    return [*by_silence.values(), *of.chains(others, 3 * limits.MOMENT_MS)]


def _whole_stop(of: History) -> Found:
    """Find times at which the last member left: members that left soon before, and members that joined then."""
    ended = sorted((one for one in of.left if one.gone is not None), key=lambda one: one.gone_ms)
    times = [one.gone_ms for one in ended]
    came = sorted((one for one in of.left if one.back_ms is not None), key=lambda one: one.back_ms or 0)
    came_at = [one.back_ms or 0 for one in came]
    taken: set[Change] = set()
    loops = {
        one for runs in of.runs().values() for run in runs
        if sum(each.died for each in run) >= limits.LOOPS for one in run
    }  # fmt: skip
    starts = sorted(one.start_ms for one in of.stays)
    for ms in of.empty_times():
        gone: list[Change] = []
        for one in reversed(ended[: bisect_right(times, ms)]):
            if bisect_right(starts, one.gone_ms) < bisect_left(starts, ms) or _is_replaced_before(one, ms):
                break  # another member joined later, or replaced this one: no stop yet
            since_ms = (gone[-1].gone_ms if gone else ms) - one.gone_ms
            # a dead member does not belong to a stop in which the other members left later
            is_other = bool(gone) and one.died != gone[-1].died and since_ms > limits.MOMENT_MS
            if one in taken or since_ms > limits.STOP_MS or is_other:
                break
            gone.append(one)
        if not gone or all(one.died and one in loops for one in gone):
            continue  # members that die again and again may all be dead at some time
        after = came[bisect_right(came_at, ms) :]
        soon = bool(after) and (after[0].back_ms or 0) - ms <= limits.RETURN_MS
        if len(gone) < 2 and soon and gone[0].came is not None:  # the only member restarted
            continue
        back: list[Change] = []
        for one in after:
            if back and (one.back_ms or 0) - (back[-1].back_ms or 0) > limits.FORM_MS:
                break
            # an exchange of another member is no return, and neither is a replacement much later
            if one.gone is None or one in gone:
                back.append(one)
        some = [one for one in dict.fromkeys([*reversed(gone), *back]) if one not in taken]
        taken.update(some)
        yield model.STOP, some


def _is_replaced_before(one: Change, ms: int) -> bool:
    return one.back_ms is not None and one.back_ms < ms


def _slow(of: History) -> Found:
    """Find members that poll too slowly, and therefore are removed or leave."""
    for runs in of.runs().values():
        for run in runs:
            slow = [one for one in run if of.was_slow(one) is not False]
            sure = [one for one in slow if of.was_slow(one)]
            if sure or of.is_sure_of_slowness(slow):
                # the other departures of this member most likely have the same cause, though it is less visible
                alike = [one for one in run if one in slow or (one.came is not None and of.may_be_slow(one))]
                yield model.SLOW, alike if 2 * len(slow) >= len(alike) else slow


def _without_autoscaling(of: History) -> Found:
    """Split exchanges of members that leave together and return together, several times, while other members stay.

    This is no loop and no restart: somebody scales the group in and out.
    """
    together: dict[frozenset[int], list[list[Change]]] = defaultdict(list)
    for chain in _gone_together(of):
        backs = [one.back_ms for one in chain if one.back_ms is not None]
        # after the last departure the members may not have returned
        if len(chain) > 1 and (not backs or (len(backs) == len(chain) and max(backs) - min(backs) <= limits.MOMENT_MS)):
            together[frozenset(one.place for one in chain)].append(chain)
    apart = {one for chains in together.values() if len(chains) >= limits.LOOPS for chain in chains for one in chain}
    of.left = sorted(
        (part for one in of.left for part in (_halves(one) if one in apart else (one,))),
        key=lambda one: (one.from_ms, one.gone_ms, one.place),
    )
    yield from ()


def _gone_together(of: History) -> Iterator[list[Change]]:
    chain: list[Change] = []
    for one in sorted((one for one in of.left if one.how == model.LEFT), key=lambda one: one.gone_ms):
        if chain and not _are_at_once((*chain, one)):
            yield chain
            chain = []
        chain.append(one)
    if chain:
        yield chain


def _are_at_once(some: Sequence[Change]) -> bool:
    """Did all members leave at the same moment, before the first of them was back?"""
    gone = [one.gone_ms for one in some]
    back = min((one.back_ms for one in some if one.back_ms is not None), default=max(gone))
    return max(gone) - min(gone) <= limits.MOMENT_MS and back >= max(gone)


def _halves(one: Change) -> tuple[Change, ...]:
    """The two changes that a false exchange consists of: the departure and the join."""
    if one.came is None:
        return (one,)
    came_ms = one.back_ms or 0
    return Change(None, one.came, came_ms, came_ms, None, one.place), one._replace(came=None, back_ms=None)


def _loops(of: History) -> Found:
    """Find members that leave and return several times, and pairs of members that do so in turn."""
    runs = [(place, run) for place, several in of.runs().items() for run in several if len(run) > 1]
    runs.sort(key=lambda one: one[1][0].from_ms)
    used: set[int] = set()
    for at, (_, run) in enumerate(runs):
        if at in used:
            continue
        beside = [
            other
            for other, (_, some) in enumerate(runs)
            if other != at and some[0].from_ms <= run[-1].until_ms and run[0].from_ms <= some[-1].until_ms
        ]
        if len(beside) == 1 and len(run) + len(runs[beside[0]][1]) >= limits.TWO_LOOP:
            both = sorted((*run, *runs[beside[0]][1]), key=lambda one: one.from_ms)
            alternations = sum(one.place != other.place for one, other in pairwise(both))
            together = sum(_are_at_once((one, other)) for one, other in pairwise(both))
            if 2 * alternations >= len(both) > 4 * together:
                used |= {at, beside[0]}
                if all(one.died for one in both):  # processes that die in turn do not exclude each other
                    yield model.CRASH_LOOP, run
                    yield model.CRASH_LOOP, runs[beside[0]][1]
                else:
                    yield model.FLAPPING, both
                continue
        if len(run) >= limits.LOOPS and (len(beside) < 2 or len(run) > limits.LOOPS * 2):
            used.add(at)
            yield _kind_of_loop(of, run), run


def _kind_of_loop(of: History, run: Sequence[Change]) -> str:
    if _is_shared(of, run):
        return model.FLAPPING
    # if the only member always sends a LeaveGroup, it may be a job that runs now and then
    emptied = set(of.empty_times())
    is_job = all(one.how == model.LEFT and one.gone_ms in emptied for one in run)
    return model.RESTART if is_job else model.CRASH_LOOP


def _is_shared(of: History, run: Sequence[Change]) -> bool:
    """Do two processes with different hosts or client ids take one instance id from each other in turn?"""
    numbers = [run[0].gone, *(one.came for one in run)]
    whos = [of.stays[one].who for one in numbers if one is not None]
    return len({(one.client_id, one.host) for one in whos}) == 2 and all(
        (one.client_id, one.host) != (other.client_id, other.host) for one, other in pairwise(whos)
    )


def _rolling(of: History) -> Found:
    """Find members that restarted, one after the other."""
    some = [one for one in of.left if one.gone is not None and one.came is not None and not one.died]
    for chain in of.chains(some, limits.TOGETHER_MS, distinct=True):
        if len(chain) > 1 and _are_at_once(chain) and all(one.how != model.REPLACED for one in chain):
            yield model.RESTART, chain
        elif len(chain) > 1:
            overlapping = sum(one.overlaps or of.is_exchanged_at_once(one) for one in chain)
            yield (model.OVERLAPPED if 2 * overlapping > len(chain) else model.ROLLING), chain


def _without_lone_overlaps(of: History) -> Found:
    """Split exchanges whose two members have different names and overlap, if no deploy took place at that time.

    Such an exchange is false: one member joined, and another one left later.
    """
    left: list[Change] = []
    for one in of.left:
        if one.gone is None or one.came is None or not one.overlaps or _is_called_alike(of, one):
            left.append(one)
            continue
        left += _halves(one)
    of.left = sorted(left, key=lambda one: (one.from_ms, one.gone_ms, one.place))
    yield from ()


def _is_called_alike(of: History, one: Change) -> bool:
    old, new = (of.stays[number or 0].who for number in (one.gone, one.came))
    return old.slot == new.slot or old.client_id == new.client_id


def _scaled(of: History) -> Found:
    """Find members that joined, or left, without an exchange. A change in the other direction ends the episode."""
    kind, some = "", list[Change]()
    for one in of.left:
        if one.gone is None:
            mine = model.SCALE_OUT
        elif one.came is None and not one.died:
            mine = model.SCALE_IN
        else:
            continue
        if mine != kind:
            yield from ((kind, chain) for chain in of.chains(some, limits.TOGETHER_MS))
            kind, some = mine, []
        some.append(one)
    yield from ((kind, chain) for chain in of.chains(some, limits.TOGETHER_MS))


def _died(of: History) -> Found:
    dead = sorted((one for one in of.left if one.died), key=lambda one: one.gone_ms)
    chain: list[Change] = []
    for one in dead:
        if chain and one.gone_ms - chain[-1].gone_ms > limits.MOMENT_MS:
            yield model.DIED, chain
            chain = []
        chain.append(one)
    if chain:
        yield model.DIED, chain


def _restart(of: History) -> Found:
    for one in of.left:
        yield model.RESTART, [one]


_Rule = Callable[[History], Found]
RULES: Final[Sequence[_Rule]] = (
    _formation, _trouble, _whole_stop, _slow, _without_autoscaling, _loops, _rolling, _without_lone_overlaps, _scaled,
    _died, _restart,
)  # fmt: skip
