"""Scripts of processes that start and stop, in good order or not."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common import events
from muster.simulation.sample.consumer import SampleConsumer
from muster.simulation.sample.group import SETTLED, Group, Script

AT_ONCE_MS: Final = 20
"""A shorter time than any member needs to return in a rebalance that has just begun."""
SLOW_MS: Final = (20_000, 60_000)
LAST_MS: Final = 900_000
"""If less than this time of the sample is left, a script does not begin its action again."""


def steady(group: Group) -> Script:
    """Nothing happens."""
    yield from group.form()


def steady_static(group: Group) -> Script:
    """Nothing happens to static members."""
    yield from group.form(is_static=True)


def flapping(group: Group) -> Script:
    """One process stops and starts again all the time."""
    yield from group.form()
    yield group.part_ms(0.15)
    victim = group.consumers[-1]
    until_ms = max(group.part_ms(0.3), LAST_MS)
    while group.left_ms > until_ms:
        if group.random.random() < 0.6:
            group.leave(victim, "out of memory")
        else:
            crash(group, victim, "killed")
        yield SETTLED
        yield group.some_ms(10, 60)
        group.join(victim)
        yield SETTLED
        yield group.some_ms(120, 600)


def crash(group: Group, consumer: SampleConsumer, why: str = "") -> None:
    """Kill a process. After its session timeout the group rebalances."""
    group.expect(events.SESSION_EXPIRED, consumer)
    group.act("crash", consumer, why)
    consumer.crash()


def crashes(group: Group) -> Script:
    """Now and then a process dies, and later another process takes its place."""
    yield from group.form()
    for _ in range(3):
        yield group.part_ms(0.2)
        victim = group.random.choice(group.living)
        crash(group, victim)
        yield SETTLED
        yield group.some_ms(60, 400)
        group.join(group.add())
        yield SETTLED


def crash_restart(group: Group) -> Script:
    """A process dies and is back at once. The group waits for its old member until the old session ends."""
    yield from group.form()
    for _ in range(3):
        yield group.part_ms(0.2)
        victim = group.random.choice(group.living)
        group.act("crash", victim)
        victim.crash()
        yield group.some_ms(2, 6)
        group.join(victim)
        yield SETTLED


def zombie(group: Group) -> Script:
    """A process stops all activity until the coordinator removes it. Then it wakes up, and its commit is refused."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.3)
        sleeper = group.random.choice(group.owners())
        group.expect(events.SESSION_EXPIRED, sleeper)
        group.act("pause", sleeper, "a long garbage collection")
        sleeper.pause()
        yield SETTLED
        yield group.some_ms(20, 120)
        group.expect(events.NEW_MEMBER, sleeper)
        group.act("wake", sleeper)
        sleeper.wake()
        yield SETTLED


def deploys(group: Group) -> Script:
    """Two rolling deploys. Each process stops and starts again, and the group rebalances both times."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.3)
        for consumer in list(group.consumers):
            group.leave(consumer, "rolling deploy")
            yield SETTLED
            yield group.some_ms(5, 20)
            group.join(consumer)
            yield SETTLED
            yield group.some_ms(5, 20)


def deploy_elsewhere(group: Group) -> Script:
    """A rolling deploy onto other hosts. Each new process starts before the old one stops."""
    yield from group.form()
    yield group.part_ms(0.4)
    for consumer in list(group.consumers):
        group.join(group.add())
        yield SETTLED
        yield group.some_ms(5, 20)
        group.leave(consumer, "replaced")
        yield SETTLED


def static_deploys(group: Group) -> Script:
    """Rolling deploys of static members. Each member is back within its session, so the group does not rebalance."""
    yield from group.form(is_static=True)
    for _ in range(2):
        yield group.part_ms(0.25)
        for consumer in list(group.consumers):
            yield from _restart(group, consumer)
            yield group.some_ms(5, 20)


def _restart(group: Group, consumer: SampleConsumer) -> Script:
    group.act("stop", consumer, "restart")
    consumer.stop()
    yield group.plan.session_timeout_ms // 3
    group.act("start", consumer)
    consumer.launch()
    yield SETTLED


def static_restart(group: Group) -> Script:
    """A static member restarts in time. Another stays away for too long. An administrator removes a third."""
    yield from group.form(is_static=True)
    yield group.part_ms(0.2)
    yield from _restart(group, group.consumers[0])
    yield group.part_ms(0.2)
    late = group.consumers[1]
    group.expect(events.SESSION_EXPIRED, late)
    group.act("stop", late, "its machine takes long to come back")
    late.stop()
    yield SETTLED
    yield group.some_ms(60, 300)
    group.join(late)
    yield SETTLED
    yield group.part_ms(0.15)
    gone = group.consumers[2]
    group.act("stop", gone, "scaled in")
    gone.stop()
    yield group.some_ms(2, 8)
    group.expect(events.LEFT, gone)
    group.act("remove", gone)
    gone.remove("scaled in")
    yield SETTLED


def scale_out(group: Group) -> Script:
    """Processes are added, one by one and two at once. Later they are removed again."""
    yield from group.form()
    yield group.part_ms(0.15)
    for _ in range(2):
        group.join(group.add())
        yield SETTLED
        yield group.some_ms(30, 120)
    yield group.part_ms(0.2)
    group.join(group.add())
    yield AT_ONCE_MS
    group.add().launch()
    yield SETTLED
    yield group.part_ms(0.2)
    for consumer in list(group.consumers[group.plan.members :]):
        group.leave(consumer, "scale in")
        yield SETTLED
        yield group.some_ms(30, 120)


def redeploy(group: Group) -> Script:
    """All processes stop at once, and after a while all start again."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.25)
        stop_all(group, "deploy")
        yield SETTLED
        yield group.some_ms(20, 300)
        yield from group.gather(group.consumers)


def stop_all(group: Group, why: str) -> None:
    """Stop all processes at one time. The first one makes the group rebalance, and then the group is empty."""
    first, *others = group.living
    group.leave(first, why)
    for consumer in others:
        group.act("stop", consumer, why)
        consumer.stop()


def slow_poller(group: Group) -> Script:
    """One process is slow to call its client again whenever the group rebalances.

    Later it does not poll for so long that its client leaves.
    """
    yield from group.form()
    slow = group.consumers[0]
    slow.slow_ms = group.random.randrange(*SLOW_MS)
    for _ in range(2):
        yield group.part_ms(0.15)
        extra = group.add()
        group.join(extra)
        yield SETTLED
        yield group.part_ms(0.1)
        group.leave(extra)
        yield SETTLED
    for _ in range(2):
        yield group.part_ms(0.05)
        group.expect(events.LEFT, slow)
        group.act("give up polling", slow, "max.poll.interval.ms")
        slow.give_up_polling()
        yield SETTLED
        yield group.some_ms(60, 600)
        group.expect(events.NEW_MEMBER, slow)
        group.act("poll again", slow)
        slow.come_back("need to re-join after the poll timeout")
        yield SETTLED
