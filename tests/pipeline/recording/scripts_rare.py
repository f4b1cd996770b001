"""The scripts of what real groups rarely do, and of two happenings in one group.

Groups are deleted and made again, two processes take one instance id, topics are made again, and members are killed in
the midst of a deploy.
"""

from __future__ import annotations

import time
from math import ceil

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed
from tests.pipeline.recording.scripts_drawn import USUAL_PER_S


def made_again(group: Group) -> None:
    """The group is stopped and deleted. Soon its members start again, as a new group of the same name."""
    formed(group, 2)
    group.rest(25, 40)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(3, 8)
    begun = now_ms()
    group.delete()
    group.incident("deleted", begun)
    group.rest(5, 25)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.not_stalled("it was deleted for a while")
    group.rest(30, 40)


def same_instance(group: Group) -> None:
    """Two processes have one `group.instance.id`. The one that is fenced ends, and is started again."""
    formed(group, 3)
    group.rest(15, 25)
    begun = now_ms()
    twin = {"instance": group.processes[2].client_id}
    group.start(4, **twin)
    for turn in range(6):
        group.rest(3, 6)
        one = 4 if turn % 2 else 2
        group.kill(one)
        group.rest(2, 4)
        group.start(one, **twin)
    group.rest(3, 6)
    group.kill(2)
    group.episode("flapping", begun, (2, 4), static=True)
    group.rest(20, 30)


def recreated(group: Group) -> None:
    """The group is stopped, its topic is deleted and made again, and the group starts again."""
    formed(group, 2)
    group.rest(20, 40)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(2, 5)
    begun = now_ms()
    group.make_topic_again()
    group.incident("topic_recreated", begun)
    group.rest(3, 10)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.not_stalled("its topic was made again")
    group.rest(40, 50)


def autoscaled(group: Group) -> None:
    """Two members join and leave together, again and again, while the others stay."""
    formed(group, 2)
    for _ in range(4):
        begun = now_ms()
        group.start(3, 4)
        group.settle()
        group.episode("scale_out", begun, (3, 4))
        group.rest(10, 18)
        begun = now_ms()
        group.stop(3, 4)
        group.settle()
        group.episode("scale_in", begun, (3, 4))
        group.rest(8, 16)
    group.rest(15, 20)


def blue_green(group: Group) -> None:
    """All members of the new release start, and work beside the old ones. Later the old ones stop at once."""
    formed(group, 2)
    group.rest(15, 30)
    begun = now_ms()
    group.start(3, 4)
    group.settle()
    group.rest(15, 50)
    group.stop(1, 2)
    group.settle()
    group.episode("overlapping_deploy", begun, (1, 2, 3, 4))
    group.rest(25, 35)


def deploy_with_a_kill(group: Group) -> None:
    """Each member is restarted once. One of them does not stop in time, and is killed."""
    formed(group, 3)
    group.rest(10, 30)
    begun, members = now_ms(), group.running
    hard = group.random.choice(members)
    for one in members:
        (group.kill if one == hard else group.stop)(one)
        group.rest(0.2, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, members, static=bool(group.options.get("static")))
    group.rest(20, 30)


def slow_deploy(group: Group) -> None:
    """A group that is too slow is restarted, one member after the other, and stays too slow."""
    members = group.random.choice((2, 3))
    written = USUAL_PER_S * group.partitions
    rate = max(round(written * group.random.uniform(0.5, 0.7) / members), 2)
    group.options["rate"] = rate
    begun = now_ms()
    formed(group, members)
    group.rest(15, 25)
    since = now_ms()
    for one in range(1, members + 1):
        group.stop(one)
        group.rest(0.2, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", since, range(1, members + 1), static=False)
    group.rest(110, 140)
    group.incident(
        "too_slow", begun, members=[group.name_of(one) for one in range(1, members + 1)],
        read_per_s=rate * members, written_per_s=written, needed=ceil(written / rate),
    )  # fmt: skip
    group.not_stalled("it is only too slow")


def lost_and_hangs(group: Group) -> None:
    """One member dies for good. Later another one does not poll for two minutes."""
    formed(group, 3)
    group.rest(10, 20)
    begun = now_ms()
    group.kill(3)
    time.sleep(group.options["session_ms"] / 1000 + 2)
    group.settle()
    group.episode("deaths", begun, (3,))
    group.rest(15, 25)
    held = sorted(group.processes[2].assigned or ())
    begun, length_s = now_ms(), group.random.uniform(120, 135)
    group.send_line(2, f"sleep {length_s:.1f}")
    time.sleep(length_s)
    group.stalled(held, begun, "sleep")
    group.rest(20, 30)


def poison_and_scaling(group: Group) -> None:
    """One member cannot process a record. The group gets one more member for it, which does not help."""
    formed(group, 2)
    group.rest(15, 25)
    held = sorted(group.processes[1].assigned or ())[:1]
    begun = now_ms()
    for partition in held:
        group.send_line(1, f"pause {partition}")
    group.rest(70, 90)
    group.stalled(held, begun, "pause")
    for partition in held:
        group.send_line(1, f"go {partition}")
    group.rest(5, 15)
    begun = now_ms()
    group.start(3)
    group.settle()
    group.episode("scale_out", begun, (3,))
    group.rest(25, 35)


def shared(group: Group) -> None:
    """Members of a share group: one joins, one is killed, and one leaves."""
    group.start(1, 2)
    group.rest(30, 40)
    for what, act, one in (("scale_out", group.start, 3), ("deaths", group.kill, 2), ("scale_in", group.stop, 3)):
        begun = now_ms()
        act(one)
        group.rest(50, 60)
        group.episode(what, begun, (one,))
    group.not_stalled("a share group has no committed offsets")


def waits_between_jobs(group: Group) -> None:
    """A job: its only member starts, reads all there is, and ends. This is repeated."""
    begun = now_ms()
    for turn in range(4):
        group.start(1)
        group.settle()
        if not turn:
            group.episode("formation", begun, (1,))
        group.rest(8, 14)
        group.stop(1)
        group.rest(15, 25)
    group.not_stalled("it is a job")
