"""The scripts of recordings that are drawn at random (`grammar`): what the other scripts do not have, and shorter forms
of what they have.
"""

from __future__ import annotations

import signal
import time
from math import ceil

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed

USUAL_PER_S = 4.5
"""The usual number of records that a partition gets in a second (`cast.feed`)."""


def calm(group: Group) -> None:
    """Nothing happens."""
    formed(group, group.random.choice((1, 2, 3)))
    group.rest(70, 100)


def crashes(group: Group) -> None:
    """One member dies again and again. It is back before its session ends, or after that, or it does both in turn."""
    formed(group, group.random.choice((2, 3)))
    how = group.random.choice(("soon", "late", "both"))
    begun = now_ms()
    for turn in range(group.random.choice((4, 5))):
        group.kill(2)
        late = group.options["session_ms"] / 1000 + 2
        is_soon = how == "soon" or (how == "both" and turn % 2 == 0)
        group.rest(*((0.3, 2) if is_soon else (late, late + 3)))
        group.start(2)
        group.settle()
        group.rest(3, 8)
    group.episode("crash_loop", begun, (2,))
    group.rest(10, 20)


def deploy(group: Group) -> None:
    """Each member is restarted once, one after the other."""
    formed(group, group.random.choice((2, 3, 4)))
    group.rest(10, 40)
    begun, members = now_ms(), group.running
    for one in members:
        group.stop(one)
        group.rest(0.2, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, members, static=bool(group.options.get("static")))
    group.rest(20, 30)


def slow_polls(group: Group) -> None:
    """One member does not poll in time, again and again."""
    formed(group, 2)
    begun = now_ms()
    for _ in range(4):
        group.send_line(2, f"sleep {group.options['max_poll_ms'] / 1000 + group.random.uniform(3, 5):.1f}")
        time.sleep(group.options["max_poll_ms"] / 1000 + 6)
        group.settle()
        group.rest(2, 6)
    group.episode("slow_poller", begun, (2,))
    group.rest(10, 15)


def too_slow(group: Group) -> None:
    """The members read fewer records in a second than producers write."""
    members = group.random.choice((2, 3))
    written = USUAL_PER_S * group.partitions
    rate = max(round(written * group.random.uniform(0.5, 0.8) / members), 2)
    group.options["rate"] = rate
    begun = now_ms()
    formed(group, members)
    group.rest(100, 140)
    group.incident(
        "too_slow", begun, members=[group.name_of(one) for one in range(1, members + 1)],
        read_per_s=rate * members, written_per_s=written, needed=ceil(written / rate),
    )  # fmt: skip
    group.not_stalled("it is only too slow")


def one_too_slow(group: Group) -> None:
    """One member reads fewer records in a second than its partitions get; the other keeps up."""
    share = USUAL_PER_S * group.partitions / 2
    rate = max(round(share * group.random.uniform(0.4, 0.6)), 2)
    begun = now_ms()
    group.start(1)
    group.start(2, rate=rate)
    group.settle()
    group.episode("formation", begun, (1, 2))
    group.rest(110, 140)
    group.incident("too_slow", begun, members=[group.name_of(2)], read_per_s=rate, written_per_s=share)
    group.not_stalled("a member is only too slow")


def burst(group: Group) -> None:
    """Producers write four times as much for a while. The group falls behind and keeps up again."""
    group.options["rate"] = round(USUAL_PER_S * group.partitions * 1.2)
    formed(group, 2)
    group.rest(20, 30)
    begun = now_ms()
    group.stage.load[group.topic] = 4
    group.rest(15, 20)
    del group.stage.load[group.topic]
    group.incident("burst", begun)
    group.rest(60, 70)
    group.not_stalled("producers wrote more for a while")


def poison(group: Group) -> None:
    """One member cannot process a record: it commits the same offset of the partition again and again, to the end or
    until the record is gone.
    """
    formed(group, 2)
    group.rest(20, 30)
    one = group.random.choice((1, 2))
    held = sorted(group.processes[one].assigned or ())
    _stuck(group, one, held[:1])


def blocked(group: Group) -> None:
    """One member cannot process a record, and therefore reads nothing at all. The other member continues."""
    formed(group, 2)
    group.rest(20, 30)
    one = group.random.choice((1, 2))
    _stuck(group, one, sorted(group.processes[one].assigned or ()))


def _stuck(group: Group, one: int, partitions: list[int]) -> None:
    begun = now_ms()
    for partition in partitions:
        group.send_line(one, f"stick {partition}")
    group.work(60, 90)
    at = group.committed()
    group.stalled(partitions, begun, "stick")
    for partition in partitions:
        group.incident(
            "poison", begun, topic=group.topic, partition=partition, offset=at.get(partition),
            members=[group.name_of(one)],
        )  # fmt: skip
    if group.random.random() < 0.5:
        for partition in partitions:
            group.send_line(one, f"go {partition}")
        group.rest(25, 35)


def skips(group: Group) -> None:
    """A member does not read for a while, and then goes on without the records of that time: they are lost."""
    formed(group, 2)
    for one in (1, 2):
        group.rest(15, 25)
        begun, at = now_ms(), group.committed()
        group.send_line(one, "sleep 14")
        group.send_line(one, "back -40")
        group.rest(20, 24)
        held = sorted(group.processes[one].assigned or ())
        group.incident(
            "skip", begun, topic=group.topic, members=[group.name_of(one)], records=40,
            partitions=held, at=[at.get(partition) for partition in held],
        )  # fmt: skip
    group.rest(10, 20)


def reset_to_end(group: Group) -> None:
    """The group is stopped, and a tool moves its offsets forward: records are lost."""
    formed(group, 2)
    group.rest(25, 35)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(15, 20)
    begun, at = now_ms(), group.committed()
    group.reset({one: place + 45 for one, place in at.items()})
    group.incident(
        "skip",
        begun,
        topic=group.topic,
        members=[],
        records=45,
        partitions=sorted(at),
        at=[at[one] for one in sorted(at)],
    )
    group.rest(1, 3)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.rest(20, 30)


def two_topics(group: Group) -> None:
    """Two applications with different topics use one group id."""
    other = f"{group.topic}-2"
    begun = now_ms()
    group.start(1, 2)
    group.rest(8, 15)
    group.start(3, 4, topics=[other])
    group.partitions *= 2
    group.settle()
    group.episode("formation", begun, (1, 2, 3, 4))
    group.rest(30, 40)
    since = now_ms()
    for one in (3, 4):
        group.stop(one)
        group.rest(0.2, 1)
        group.start(one, topics=[other])
        group.settle()
    group.episode("rolling_restart", since, (3, 4))
    group.rest(25, 40)
    names = {group.topic: [1, 2], other: [3, 4]}
    group.incident(
        "two_topics", begun,
        topics={topic: [group.name_of(one) for one in some] for topic, some in names.items()},
    )  # fmt: skip


def stopped(group: Group) -> None:
    """The group is stopped for good, while its topic grows."""
    formed(group, 2)
    group.rest(30, 60)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(50, 60)
    group.not_stalled("it was stopped")


def removed(group: Group) -> None:
    """The group is stopped, and deleted soon after that."""
    formed(group, 2)
    group.rest(30, 60)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(5, 15)
    begun = now_ms()
    group.delete()
    group.incident("deleted", begun)
    group.rest(30, 40)
    group.not_stalled("it was deleted")


def freezes(group: Group) -> None:
    """The host of a member stands still for longer than its session. Then the same process continues."""
    formed(group, 3)
    one = group.random.choice((2, 3))
    for _ in range(group.random.choice((1, 2))):
        group.rest(15, 25)
        begun = now_ms()
        group.processes[one].signal(signal.SIGSTOP)
        group.processes[one].note("frozen")
        time.sleep(group.options["session_ms"] / 1000 + group.random.uniform(4, 8))
        group.processes[one].signal(signal.SIGCONT)
        group.processes[one].note("thawed")
        group.settle()
        group.episode("deaths", begun, (one,))
        group.incident("frozen", begun, members=[group.name_of(one)])
    group.not_stalled("its members were frozen for a while")
    group.rest(15, 20)


def lost(group: Group) -> None:
    """One member dies, and nobody takes its place."""
    formed(group, 3)
    group.rest(15, 40)
    begun = now_ms()
    group.kill(3)
    time.sleep(group.options["session_ms"] / 1000 + 2)
    group.settle()
    group.episode("deaths", begun, (3,))
    group.rest(30, 40)


def all_crash(group: Group) -> None:
    """A release that fails: each member dies again and again, a moment after its start."""
    formed(group, 2)
    group.rest(10, 20)
    begun = now_ms()
    for _ in range(4):
        for one in (1, 2):
            group.kill(one)
            group.rest(0.3, 2)
            group.start(one)
            group.rest(3, 6)
        group.settle()
        group.rest(2, 5)
    group.episode("crash_loop", begun, (1, 2))
    group.rest(10, 20)


def alone(group: Group) -> None:
    """The only member of a group dies again and again."""
    formed(group, 1)
    begun = now_ms()
    for _ in range(4):
        group.kill(1)
        late = group.options["session_ms"] / 1000 + 2
        group.rest(*((0.3, 2) if group.random.random() < 0.5 else (late, late + 3)))
        group.start(1)
        group.settle()
        group.rest(4, 9)
    group.episode("crash_loop", begun, (1,))
    group.rest(10, 20)


def pods(group: Group) -> None:
    """A deploy of pods: each member stops, and soon a member of another name takes its place."""
    formed(group, 3)
    group.rest(10, 30)
    begun = now_ms()
    for one in (1, 2, 3):
        group.stop(one)
        group.rest(0.5, 3)
        group.start(one + 3)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, (1, 2, 3, 4, 5, 6))
    group.rest(20, 30)


def skips_ahead(group: Group) -> None:
    """The only member reads too slowly, is far behind, and then goes on near the end: nobody reads what is between."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.4), 2)
    begun = now_ms()
    formed(group, 1)
    group.rest(70, 90)
    since, at = now_ms(), group.committed()
    group.send_line(1, "back -150")
    group.rest(15, 20)
    group.incident(
        "skip", since, topic=group.topic, members=[group.name_of(1)], records=150,
        partitions=sorted(at), at=[at[one] for one in sorted(at)], shown=True,
    )  # fmt: skip
    group.incident("burst", begun)
    group.not_stalled("it is only too slow")


def catches_up(group: Group) -> None:
    """A member is too slow for its topic, until more members start. Then the group keeps up."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.7), 2)
    formed(group, 1)
    group.rest(50, 70)
    begun = now_ms()
    group.start(2, 3, 4)
    group.settle()
    group.episode("scale_out", begun, (2, 3, 4))
    group.rest(60, 80)
    group.incident("burst", begun)
    group.not_stalled("it was only too slow")


def whole_restart(group: Group) -> None:
    """All members stop, and start again a moment later."""
    formed(group, group.random.choice((2, 3)))
    for _ in range(2):
        group.rest(20, 30)
        begun, members = now_ms(), group.running
        group.stop(*members)
        group.episode("whole_stop", begun, members)
        group.rest(2, 12)
        begun = now_ms()
        group.start(*members)
        group.settle()
        group.episode("start", begun, members)
    group.rest(15, 25)


def goes_quiet(group: Group) -> None:
    """Nobody writes for a while: the group has nothing to read, and nothing is wrong with it."""
    formed(group, 2)
    group.rest(30, 40)
    group.stage.quiet.add(group.topic)
    group.rest(60, 80)
    group.stage.quiet.discard(group.topic)
    group.rest(20, 30)
    group.not_stalled("nobody wrote")
