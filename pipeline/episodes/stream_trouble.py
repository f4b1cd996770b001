"""What a verdict says about the tasks of a streams group. Pure.

It names topics that are not ready, and an application that was ended. It also names tasks that bounce, warm-ups that do
not end, and an instance that has all tasks. An instance is a process. Its threads are members, whose client ids differ
at the end only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import stream_facts
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import (
    BOUNCING,
    CERTAIN,
    LIKELY,
    NOT_READY,
    ONE_HAS_ALL,
    PERHAPS,
    SHUTDOWN,
    WARMING,
    Claim,
    Evidence,
    Facts,
)
from muster.pipeline.episodes.stream_facts import Holding, Topics, instance_name
from muster.pipeline.episodes.when import When
from muster.pipeline.infer.stream_tasks import ACTIVE, GIVEN_UP, WARMUP
from muster.pipeline.wording import duration, plural

_NAMED: Final = 3


def stream_troubles(facts: Facts, when: When) -> Iterator[Claim]:
    """The claims about all trouble that the tasks and the topics show."""
    streams = facts.streams
    for one in streams.topics:
        if one.state == stream_facts.SHUTDOWN:
            yield _shut_down(one, facts, when)
    slow = [
        one
        for one in streams.topics
        if one.state == stream_facts.NOT_READY and _lasted_ms(one, facts) >= limits.UNREADY_MS
    ]
    if slow:
        yield _not_ready(slow, facts, when)
    if bounced := _bounces(facts):
        yield _bouncing(bounced, when)
    warming = [one for one in streams.tasks if one.role == WARMUP and one.until_ms is None]
    if long := [one for one in warming if facts.end_ms - one.from_ms >= limits.WARMUP_MS]:
        yield _warming(long, facts, when)
    if (alone := _alone(facts)) is not None:
        yield _has_all(alone, when)


def _list(names: Sequence[str]) -> str:
    shown = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


# ---- topics


def _lasted_ms(one: Topics, facts: Facts) -> int:
    return (facts.end_ms if one.until_ms is None else one.until_ms) - one.from_ms


def _not_ready(some: Sequence[Topics], facts: Facts, when: When) -> Claim:
    last = some[-1]
    is_on = last.until_ms is None
    span = when.since(last.from_ms) if is_on else when.from_to(last.from_ms, last.until_ms or 0)
    text = f"{'its topics are' if is_on else 'its topics were'} not ready{span}"
    confidence, who = CERTAIN, tuple(last.missing or ())
    advice = "create the source topics, or look whether the topics have the right partition counts"
    if last.why is not None:
        text += f": {last.why.removesuffix('.')}"
    elif last.missing:
        noun = "topic" if len(last.missing) == 1 else "topics"
        verb = "is" if len(last.missing) == 1 else "are"
        text += f", perhaps because the source {noun} {_list(last.missing)} {verb} missing"
        confidence, advice = PERHAPS, f"create {_list(last.missing)}"
    claim = Claim(
        NOT_READY, text, who, last.from_ms, facts.end_ms if is_on else last.until_ms, confidence, is_on=is_on,
        happenings=len(some), advice=advice if is_on else None,
    )  # fmt: skip
    return claim.proved_by([_topics_row(one) for one in some])


def _topics_row(one: Topics) -> Evidence:
    names = f" {_list(one.sources)}" if one.sources else ""
    text = f"source topics{names}: {one.state.replace('_', ' ')}"
    return Evidence("topologies", one.from_ms, text if one.why is None else f"{text}: {one.why}")


def _shut_down(one: Topics, facts: Facts, when: When) -> Claim:
    who = instance_name(one.client) or "a member"
    runs = any(stay.start_ms > one.from_ms for stay in facts.stays)
    is_on = not runs and facts.deleted_ms is None and facts.end_ms - one.from_ms <= limits.AGAIN_MS
    text = f"{who} had an error and ended the whole application{when.at(one.from_ms)}"
    return Claim(
        SHUTDOWN, f"{text}; it was started again later" if runs else text, (who,), one.from_ms, one.from_ms,
        is_on=is_on, advice=f"look for the error in the log of {who} at {when.clock(one.from_ms)}",
    ).proved_by([Evidence("topologies", one.from_ms, f"{who} asked all members to end")])  # fmt: skip


# ---- tasks that bounce


class _Bounce(NamedTuple):
    """An active task that went back to an instance which had given it up before."""

    before: Holding
    """The time in which another instance had the task, and gave it up."""
    after: Holding


def _bounces(facts: Facts) -> list[_Bounce]:
    """The moves of tasks back to an instance, while no member joined or left. At least LOOPS moves of one task."""
    changes = sorted(ms for stay in facts.stays for ms in (stay.start_ms, stay.end_ms) if ms is not None)
    by_task: Mapping[str, list[Holding]] = defaultdict(list)
    for one in sorted(facts.streams.tasks, key=lambda one: one.from_ms):
        if one.role == ACTIVE:
            by_task[one.task].append(one)
    found = []
    for some in by_task.values():
        moves = [
            _Bounce(before, after)
            for origin, before, after in zip(some, some[1:], some[2:], strict=False)
            if origin.instance == after.instance != before.instance
            and origin.ended == before.ended == GIVEN_UP
            and after.from_ms - origin.from_ms <= limits.BOUNCE_MS
            and not any(origin.from_ms < ms <= after.from_ms for ms in changes)
        ]
        if len(moves) >= limits.LOOPS:
            found += moves
    return found


def _bouncing(some: Sequence[_Bounce], when: When) -> Claim:
    tasks = _distinct([one.after.task for one in some])
    who = _distinct([one.name for pair in some for one in (pair.before, pair.after)])
    from_ms, until_ms = min(one.before.from_ms for one in some), max(one.after.from_ms for one in some)
    times = len(some)
    unowned_ms = sum(one.after.unowned_ms or 0 for one in some)
    lost = f", and nobody had {'it' if len(tasks) == 1 else 'them'} for {duration(unowned_ms)}" if unowned_ms else ""
    what = f"task {tasks[0]}" if len(tasks) == 1 else plural(len(tasks), "task")
    text = f"{what} went back and forth between {_list(who)} {plural(times, 'time')}"
    return Claim(
        BOUNCING, f"{text}{when.between(from_ms, until_ms, times)}{lost}, though no member came or left", tasks,
        from_ms, until_ms, LIKELY, is_on=not when.is_over(from_ms, until_ms, times), happenings=1,
        advice="look whether settings of the group or tags of its members change again and again",
    ).proved_by([_task_row(one.after) for one in some])  # fmt: skip


def _task_row(one: Holding) -> Evidence:
    after = f", after {duration(one.unowned_ms)} without an owner" if one.unowned_ms else ""
    return Evidence("tasks", one.from_ms, f"{one.name} got the {one.role} task {one.task}{after}")


# ---- warm-ups that do not end


def _warming(some: Sequence[Holding], facts: Facts, when: When) -> Claim:
    from_ms = min(one.from_ms for one in some)
    tasks, who = _distinct([one.task for one in some]), _distinct([one.name for one in some])
    what = f"the warm-up of task {tasks[0]}" if len(tasks) == 1 else f"the warm-ups of {plural(len(tasks), 'task')}"
    text = f"{what} at {_list(who)} {'lasts' if len(tasks) == 1 else 'last'} for {duration(facts.end_ms - from_ms)}"
    return Claim(
        WARMING, f"{text}{when.since(from_ms)}, perhaps without an end", tasks, from_ms, facts.end_ms, PERHAPS,
        is_on=True, advice=f"compare how fast {_list(who)} restores with how fast the changelogs grow",
    ).proved_by([_task_row(one) for one in some])  # fmt: skip


# ---- an instance that has all tasks


class _Alone(NamedTuple):
    """An instance that has all active tasks, though other instances could have some."""

    tasks: Sequence[Holding]
    others: Sequence[str]
    from_ms: int
    until_ms: int


def _alone(facts: Facts) -> _Alone | None:
    """The instance that has all active tasks at the end of the log, for long enough."""
    now = [one for one in facts.streams.tasks if one.role == ACTIVE and one.until_ms is None]
    owners = {one.instance for one in now}
    mine = {one.member_id for one in now}
    if len(owners) != 1 or len(now) < limits.ALL_TASKS:
        return None
    (owner,) = owners
    # a member without any task may be another thread of the same instance
    threads = {one.member_id for one in facts.streams.tasks if one.instance == owner} | mine
    idle = [
        stay for stay in facts.stays
        if stay.end_ms is None and stay.who.member_id not in threads and not _is_thread(stay.who.client_id, now)
    ]  # fmt: skip
    if not idle:
        return None
    others = [one for one in facts.streams.tasks if one.role == ACTIVE and one.instance != owner]
    from_ms = max(
        min(stay.start_ms for stay in idle), max(one.from_ms for one in now),
        max((one.end_ms(facts.end_ms) for one in others), default=0),
    )  # fmt: skip
    if facts.end_ms - from_ms < limits.ALL_MS:
        return None
    names = [instance_name(stay.who.client_id) or stay.who.member_id for stay in idle if stay.start_ms <= from_ms]
    return _Alone(now, _distinct(names), from_ms, facts.end_ms)


def _is_thread(client: str | None, some: Sequence[Holding]) -> bool:
    """Does a client id only differ by the number of the thread from one of these?"""
    return client is not None and instance_name(client) in {one.name for one in some}


def _has_all(one: _Alone, when: When) -> Claim:
    who = one.tasks[0].name
    others = plural(len(one.others), "other instance has", "other instances have")
    return Claim(
        ONE_HAS_ALL, f"{who} has all {len(one.tasks)} active tasks{when.since(one.from_ms)}; {others} none", (who,),
        one.from_ms, one.until_ms, is_on=True,
        advice="look whether the other instances have the same topology, and whether they restore state",
    ).proved_by([_task_row(task) for task in one.tasks])  # fmt: skip
