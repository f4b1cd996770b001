"""What a verdict mentions besides rebalances: stalled partitions, commits that went back, and a clock that went back.

Pure. `verdict` puts these into the sentence about the group; docs/pipeline-episodes.md has the rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import Rebalance
from muster.pipeline.wording import MINUTE, plural

STALLED: Final = "stalled"
SECOND_APPLICATION: Final = "second_application"
ZOMBIE: Final = "zombie"
"""The kinds of trouble. ZOMBIE and SECOND_APPLICATION are also causes in the table `regressions`."""
OF_COMMITS: Final = (STALLED, SECOND_APPLICATION, ZOMBIE)
_ON_PURPOSE: Final = {
    "reset": ("reset of offsets", "resets of offsets"),
    "deleted": ("new start without offsets", "new starts without offsets"),
    "topic_recreated": ("new start in a topic made anew", "new starts in topics made anew"),
    "rewind": ("rewind",),
    "unknown": ("step back", "steps back"),
}
_NAMED: Final = 3


class Stall(NamedTuple):
    """A time in which a partition stalled: a row of the table `stalls` with status STALL or STOP."""

    topic: str
    partition: int
    from_ms: int
    until_ms: int | None
    """The end of the stall; None means that the partition still stalled at the end of the log."""
    lag: int | None


class Back(NamedTuple):
    """Commits that went back: a row of the table `regressions`."""

    cause: str
    from_ms: int
    until_ms: int
    commits: int


class Trouble(NamedTuple):
    """An incident that nobody wanted."""

    kind: str
    is_on: bool
    """Whether the trouble lasted until the end of the log, or until at most an hour before the end."""
    text: str


When = Callable[[int, int], str]
"""A function that puts a time, or a range of times, into words."""


def troubles(stalled: Sequence[Stall], back: Sequence[Back], end_ms: int, when: When) -> list[Trouble]:
    """All trouble that the commits show, the worst first."""
    still = [one for one in stalled if one.until_ms is None]
    over = [one for one in stalled if one.until_ms is not None]
    found = [Trouble(STALLED, True, _stalls_now(still, end_ms, when))] if still else []
    for cause, words_of in _WORDS.items():
        some = [one for one in back if one.cause == cause]
        if some:
            from_ms, until_ms = min(one.from_ms for one in some), max(one.until_ms for one in some)
            text = words_of(len(some), sum(one.commits for one in some)) + when(from_ms, until_ms)
            found.append(Trouble(cause, end_ms - until_ms <= limits.AGAIN_MS, text))
    if over:
        found.append(Trouble(STALLED, False, _stalled_before(over, when)))
    return sorted(found, key=lambda one: not one.is_on)


def on_purpose(back: Sequence[Back]) -> list[str]:
    """The incidents that somebody wanted, as in `1 reset of offsets` or `2 rewinds`."""
    counted = Counter(one.cause for one in back)
    return [plural(counted[cause], *words) for cause, words in _ON_PURPOSE.items() if counted[cause]]


def _stalls_now(some: Sequence[Stall], end_ms: int, when: When) -> str:
    since = when(min(one.from_ms for one in some), end_ms)
    count = len({(one.topic, one.partition) for one in some})
    lag = sum(one.lag or 0 for one in some)
    behind = f", {plural(lag, 'record')} behind" if lag else ""
    return f"{_places(some)} {'stands' if count == 1 else 'stand'} still{since}{behind}"


def _stalled_before(some: Sequence[Stall], when: When) -> str:
    return f"{_places(some)} stood still" + when(
        min(one.from_ms for one in some), max(one.until_ms or 0 for one in some)
    )


def _places(some: Sequence[Stall]) -> str:
    """The names of the partitions, as in `orders-3 and orders-5`. If there are many, their number and some names."""
    names = [f"{topic}-{partition}" for topic, partition in sorted({(one.topic, one.partition) for one in some})]
    if len(names) > _NAMED:
        return f"{plural(len(names), 'partition')} ({', '.join(names[: _NAMED - 1])} and others)"
    return " and ".join(names) if len(names) < _NAMED else f"{', '.join(names[:-1])} and {names[-1]}"


def _second(_: int, commits: int) -> str:
    return f"a second application commits under the same group id ({plural(commits, 'commit')} went back)"


def _zombie(times: int, _: int) -> str:
    again = "" if times == 1 else f" ({plural(times, 'time')})"
    return f"a former owner still committed after its partitions had gone to another member{again}"


_WORDS: Final[dict[str, Callable[[int, int], str]]] = {SECOND_APPLICATION: _second, ZOMBIE: _zombie}


LEAST_MS: Final = MINUTE
"""A smaller step back is no trouble: the clocks of brokers differ by less than this."""


class Fall(NamedTuple):
    """The largest step with which the clock of the brokers went back."""

    at_ms: int
    """The time that the clock had reached before it went back."""
    by_ms: int


def went_back(rebalances: Iterable[Rebalance]) -> Fall | None:
    """The largest step back of the clock. None means that no such step is known.

    The clock went back if a generation ended long before the generation that it followed. Records that are more than a
    day off are corrected before (`tables/log_times.py`). After a smaller step back, nobody knows whether the times
    before it or after it are right.
    """
    some = list(rebalances)
    ends: dict[int, list[int]] = defaultdict(list)
    for one in some:
        ends[one.generation].append(one.end_ms)
    found: list[Fall] = []
    for one in some:
        # a group that was deleted and created again may have several generations with the same number
        before = ends.get(one.before_generation) if one.before_generation is not None else None
        if before and min(before) - one.end_ms > LEAST_MS:
            found.append(Fall(min(before), min(before) - one.end_ms))
    return max(found, key=lambda fall: fall.by_ms, default=None)
