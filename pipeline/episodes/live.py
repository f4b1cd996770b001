"""Claims about groups that only their present state shows: who is waited for, who is fenced, what all groups lost.

No log has these facts, so no verdict of a log has these claims. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import LIKELY, PERHAPS, Claim, Evidence
from muster.pipeline.episodes.model import Moment
from muster.pipeline.episodes.other_trouble import SILENCE_ADVICE
from muster.pipeline.episodes.when import When
from muster.pipeline.wording import plural

WAITED_FOR: Final = "waited_for"
STUCK: Final = "stuck"
FENCED: Final = "fenced"
STORM: Final = "storm"
"""The rules of claims that only the present state shows."""
_NAMED: Final = 3


class Rebalancing(NamedTuple):
    """A rebalance that is not over."""

    state: str
    since_ms: int
    members: int
    """The number of members of the group."""
    holding: Sequence[tuple[str, str]]
    """The members that have something left to do: the name of each, and what it has to do."""


class Takeovers(NamedTuple):
    """How often the processes of one instance id took it from each other."""

    instance: str
    times: Sequence[int]
    """The times at which a process was fenced, the first one first."""
    hosts: tuple[str, ...] = ()


def rebalance_claim(one: Rebalancing, when: When) -> Claim | None:
    """The claim about a rebalance that lasts too long; None if it is short."""
    lasted_ms, since = when.end_ms - one.since_ms, when.since(one.since_ms)
    rows = [Evidence("members", one.since_ms, f"{name} {does}") for name, does in one.holding]
    if len(one.holding) == 1 and one.members > 1 and lasted_ms >= limits.WAITED_MS:
        name, does = one.holding[0]
        others = "one other member" if one.members == 2 else f"{one.members - 1:,} other members"
        text = f"{name} keeps {others} waiting{since}: it {does}"
        advice = f"look what {name} does between two polls: it answers a rebalance only when it polls"
        claim = Claim(WAITED_FOR, text, (name,), one.since_ms, when.end_ms, is_on=True, advice=advice)
        return claim.proved_by(rows)
    if lasted_ms < limits.STUCK_MS:
        return None
    names = [name for name, _ in one.holding]
    whom = f": {_names(names)} {'has' if len(names) == 1 else 'have'} something left to do" if names else ""
    claim = Claim(STUCK, f"stuck in {one.state}{since}{whom}", tuple(names[:_NAMED]), one.since_ms, when.end_ms,
                  is_on=True, advice="muster groups describe says what each member has to do")  # fmt: skip
    return claim.proved_by(rows)


def fenced_claim(one: Takeovers, when: When) -> Claim | None:
    """The claim about an instance id that several processes have; None if it was seldom taken over."""
    recent = [ms for ms in one.times if when.end_ms - ms <= limits.LOOP_MS]
    if len(recent) < limits.LOOPS:
        return None
    where = f" ({', '.join(one.hosts[:_NAMED])})" if len(one.hosts) > 1 else ""
    text = f"processes take the instance id {one.instance} from each other{where}: fenced {plural(len(recent), 'time')}"
    claim = Claim(FENCED, f"{text}{when.since(recent[0])}", (one.instance,), recent[0], recent[-1], LIKELY, is_on=True,
                  advice="give each process a group.instance.id that no other process has")  # fmt: skip
    return claim.proved_by([Evidence("requests_refused", ms, f"{one.instance} was fenced") for ms in recent])


def storm_claim(lost: Mapping[str, Sequence[int]], moments: Sequence[Moment], when: When) -> Claim | None:
    """The claim about the newest moment at which many groups lost members. It is None without a recent one.

    `lost`: the last signs of life of the lost members of each group.
    """
    recent = [one for one in moments if when.end_ms - one[1] <= limits.AROUND_MS]
    if not recent:
        return None
    from_ms, until_ms = min(one[0] for one in recent), max(one[1] for one in recent)
    times = {group: [ms for ms in some if from_ms <= ms < until_ms] for group, some in lost.items()}
    groups = {group: some for group, some in times.items() if some}
    members = sum(map(len, groups.values()))
    first_ms = min(min(some) for some in groups.values())
    text = f"{plural(members, 'member')} of {plural(len(groups), 'group')} were lost at the same moment"
    claim = Claim(STORM, f"{text}{when.at(first_ms)}: perhaps coordinator or network", tuple(sorted(groups))[:_NAMED],
                  first_ms, until_ms, PERHAPS, is_on=True, advice=SILENCE_ADVICE)  # fmt: skip
    return claim.proved_by([Evidence("memberships", some[0], f"{group} lost {plural(len(some), 'member')}")
                            for group, some in sorted(groups.items())])  # fmt: skip


BY_MEMBER: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW, WAITED_FOR, FENCED})
"""The rules of claims about members: other members of the same group are another trouble."""


def _names(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
