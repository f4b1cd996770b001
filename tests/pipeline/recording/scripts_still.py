"""The scripts of what looks like a partition that stands still, and is none; and of a member that truly hangs.

Also of members that come back late, and of topics that grow.
"""

from __future__ import annotations

import time

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed


def writes_late(group: Group) -> None:
    """Producers keep their records for a while, and then send them with the times at which they were made."""
    formed(group, 2)
    for _ in range(2):
        group.rest(20, 35)
        group.stage.late.add(group.topic)
        group.rest(45, 75)
        group.stage.late.discard(group.topic)
    group.rest(20, 30)
    group.not_stalled("its records were written late")


def one_quiet(group: Group) -> None:
    """Nobody writes to one partition for a while."""
    formed(group, 2)
    group.rest(20, 30)
    place = group.topic, group.random.randrange(group.partitions)
    group.stage.quiet.add(place)
    group.rest(70, 100)
    group.stage.quiet.discard(place)
    group.rest(20, 30)
    group.not_stalled("nobody wrote to this partition")


def goes_silent(group: Group) -> None:
    """Producers stop for good. The group goes on, and has nothing to read."""
    formed(group, 2)
    group.rest(40, 60)
    group.stage.quiet.add(group.topic)
    group.rest(90, 110)
    group.not_stalled("nobody wrote any more")


def hangs(group: Group) -> None:
    """A member does not poll for two minutes, which its settings allow. It stays a member; the other one goes on."""
    formed(group, 2)
    group.rest(20, 35)
    one = group.random.choice((1, 2))
    held = sorted(group.processes[one].assigned or ())
    begun, length_s = now_ms(), group.random.uniform(120, 140)
    group.send_line(one, f"sleep {length_s:.1f}")
    time.sleep(length_s)
    group.stalled(held, begun, "sleep")
    group.rest(20, 30)


def rescheduled(group: Group) -> None:
    """A member dies, and is back long after its session ended."""
    formed(group, 3)
    group.rest(15, 30)
    begun = now_ms()
    group.kill(2)
    time.sleep(group.options["session_ms"] / 1000 + 2)
    group.settle()
    group.episode("deaths", begun, (2,))
    group.rest(20, 40)
    begun = now_ms()
    group.start(2)
    group.settle()
    group.episode("scale_out", begun, (2,))
    group.rest(20, 30)


def grows(group: Group) -> None:
    """The topic of the group gets more partitions."""
    formed(group, group.random.choice((2, 3)))
    group.rest(20, 40)
    group.grow(group.partitions + 2)
    group.rest(15, 20)
    group.settle()
    group.rest(30, 40)
