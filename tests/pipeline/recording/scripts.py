"""What the groups of a recording do: a script for each kind of event that the pipeline should find."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tests.pipeline.recording.cast import Group, now_ms

Play = Callable[[Group], None]


def formed(group: Group, members: int) -> None:
    """Start its first members, in random order."""
    begun = now_ms()
    group.start(*range(1, members + 1))
    group.settle()
    group.episode("formation", begun, range(1, members + 1))
    group.rest(8, 14)


def rolling(group: Group) -> None:
    """Each member is restarted, one after the other, twice; static members are back within their sessions."""
    formed(group, group.random.choice((3, 4)))
    for _ in range(2):
        begun, members = now_ms(), group.running
        for one in members:
            group.stop(one)
            group.rest(0.2, 2)
            group.start(one)
            group.rest(2, 5)
            group.settle()
        group.episode("rolling_restart", begun, members, static=bool(group.options.get("static")))
        group.rest(15, 25)


def scaling(group: Group) -> None:
    """More members, then fewer."""
    formed(group, 2)
    begun = now_ms()
    for one in (3, 4):
        group.start(one)
        group.rest(0, 3)
    group.settle()
    group.episode("scale_out", begun, (3, 4))
    group.rest(20, 30)
    begun = now_ms()
    for one in (4, 2):
        group.stop(one)
        group.rest(0, 3)
    group.settle()
    group.episode("scale_in", begun, (4, 2))
    group.rest(15, 25)
    begun = now_ms()
    group.start(5, 6)
    group.settle()
    group.episode("scale_out", begun, (5, 6))
    group.rest(15, 20)


def crash_loop(group: Group) -> None:
    """One member dies and is started again, again and again: sometimes before its session is over, sometimes after."""
    formed(group, 3)
    begun = now_ms()
    for turn in range(5):
        group.kill(2)
        late = group.options["session_ms"] / 1000 + 2
        group.rest(*((0.5, 2) if turn % 2 else (late, late + 3)))
        group.start(2)
        group.settle()
        group.rest(3, 8)
    group.episode("crash_loop", begun, (2,))
    group.rest(10, 15)


def flapping(group: Group) -> None:
    """Two members leave and return in turn."""
    formed(group, 3)
    begun = now_ms()
    for turn in range(8):
        one = 2 + turn % 2
        group.stop(one)
        group.rest(3, 6)
        group.start(one)
        group.settle()
        group.rest(1, 3)
    group.episode("flapping", begun, (2, 3))
    group.rest(10, 15)


def overlap(group: Group) -> None:
    """The new release starts before the old one stops."""
    formed(group, 3)
    for old, new in (((1, 2, 3), (4, 5, 6)), ((4, 5, 6), (7, 8, 9))):
        begun = now_ms()
        group.start(*new)
        group.rest(3, 7)
        for one in old:
            group.stop(one)
            group.rest(0.5, 2.5)
        group.settle()
        group.episode("overlapping_deploy", begun, (*old, *new))
        group.rest(25, 35)


def slow(group: Group) -> None:
    """One member does not poll in time, again and again, and is removed each time."""
    formed(group, 3)
    begun = now_ms()
    for _ in range(5):
        group.send_line(3, f"sleep {group.options['max_poll_ms'] / 1000 + group.random.uniform(3, 5):.1f}")
        time.sleep(group.options["max_poll_ms"] / 1000 + 6)
        group.settle()
        group.rest(2, 6)
    group.episode("slow_poller", begun, (3,))
    group.rest(10, 15)


def whole_stop(group: Group) -> None:
    """All stop, and return some time later."""
    formed(group, 3)
    for pause in (group.random.uniform(20, 35), group.random.uniform(8, 15)):
        group.rest(10, 20)
        begun = now_ms()
        group.stop(1, 2, 3)
        group.episode("whole_stop", begun, (1, 2, 3))
        time.sleep(pause)
        begun = now_ms()
        group.start(1, 2, 3)
        group.settle()
        group.episode("start", begun, (1, 2, 3))
    group.not_stalled("it was stopped for a while")
    group.rest(10, 20)


def deaths(group: Group) -> None:
    """Several die at once, and several join at once."""
    formed(group, 4)
    for some in ((2, 3), (1, 4, 2)):
        begun = now_ms()
        group.kill(*some)
        time.sleep(group.options["session_ms"] / 1000 + 2)
        group.settle()
        group.episode("deaths", begun, some)
        group.rest(10, 15)
        begun = now_ms()
        group.start(*some)
        group.settle()
        group.episode("scale_out", begun, some)
        group.rest(12, 20)


def rewinder(group: Group) -> None:
    """Members seek back and continue from there."""
    formed(group, 2)
    group.rest(10, 20)
    for one, line in ((1, "back 40"), (2, "back 25 3"), (1, "back 60")):
        begun = now_ms()
        group.send_line(one, line)
        group.rest(14, 18)
        group.drops("rewind", begun, by=group.name_of(one))
        group.rest(5, 15)
    group.not_stalled("it went back, and on")


def rewinder_at_assignment(group: Group) -> None:
    """Members of the group go back whenever they get partitions: to their own stored offset, which is a little late."""
    formed(group, 2)
    for one in (3, 4):
        group.rest(10, 15)
        begun = now_ms()
        group.start(one)
        group.settle()
        group.rest(8, 10)
        group.drops("rewind", begun, by=None)
        group.episode("scale_out", begun, (one,))
    group.rest(10, 20)


def two_applications(group: Group) -> None:
    """Two applications that take all partitions themselves commit under one group id; the second begins long after the
    first.
    """
    every = tuple(range(group.partitions))
    group.start(1, alone=every)
    group.rest(35, 45)
    begun = now_ms()
    group.start(2, alone=every, starts_at=0, rate=10)
    group.rest(60, 80)
    group.stop(2)
    group.rest(1, 2)
    group.drops("second_application", begun, by=group.name_of(2))
    group.rest(15, 25)
    group.not_stalled("two applications commit")


def application_without_members(group: Group) -> None:
    """All members stop, and an application without membership continues to commit, from further back."""
    formed(group, 2)
    group.rest(15, 25)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(4, 8)
    begun = now_ms()
    group.start(3, alone=tuple(range(group.partitions)), starts_at=5, rate=10)
    group.rest(40, 50)
    group.stop(3)
    group.drops("second_application", begun, by=group.name_of(3))
    group.rest(5, 10)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.rest(10, 20)


def reset(group: Group) -> None:
    """A tool moves all partitions at once, twice, while the group is empty."""
    formed(group, 2)
    for shift in (30, None):
        group.rest(20, 30)
        begun = now_ms()
        group.stop(1, 2)
        group.episode("whole_stop", begun, (1, 2))
        group.rest(3, 6)
        at = group.committed()
        begun = now_ms()
        group.reset({one: 0 if shift is None else max(place - shift, 0) for one, place in at.items()})
        group.rest(2, 3)
        group.drops("reset", begun, by=None)
        group.rest(1, 4)
        begun = now_ms()
        group.start(1, 2)
        group.settle()
        group.episode("start", begun, (1, 2))
    group.rest(10, 20)


def stuck(group: Group) -> None:
    """A poison pill: one partition is committed at the same offset again and again while its topic grows. Later another
    partition is not committed any more.
    """
    formed(group, 2)
    group.rest(15, 25)
    verbs = ("stick", "pause") if group.options["commits"] == "hand" else ("pause", "pause")
    for verb, partition in zip(verbs, (1, 2), strict=True):
        begun = now_ms()
        for one in group.running:
            group.send_line(one, f"{verb} {partition}")
        group.rest(45, 60)
        group.stalled([partition], begun, verb)
        for one in group.running:
            group.send_line(one, f"go {partition}")
        group.rest(12, 20)


def stuck_to_the_end(group: Group) -> None:
    """One partition stands still to the end."""
    formed(group, 3)
    group.rest(30, 50)
    begun = now_ms()
    for one in group.running:
        group.send_line(one, "pause 0")
    group.rest(90, 100)
    group.stalled([0], begun, "pause")


def idle(group: Group) -> None:
    """The topic of the group gets no records any more."""
    formed(group, 2)
    group.rest(30, 50)
    group.stage.quiet.add(group.topic)
    group.rest(80, 100)
    group.not_stalled("its topic is idle")


def deleted(group: Group) -> None:
    """The group is stopped for ever, and later deleted, while its topic grows."""
    formed(group, 2)
    group.rest(40, 60)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(30, 40)
    group.delete()
    group.not_stalled("it was deleted")


def given_up(group: Group) -> None:
    """The group subscribes to another topic, and leaves the first topic, which grows."""
    formed(group, 2)
    group.rest(30, 40)
    for one in group.running:
        group.send_line(one, f"subscribe {group.topic}-2")
        group.rest(8, 12)
    group.rest(50, 60)
    group.not_stalled("it gave the partitions up")


def frozen(group: Group) -> None:
    """A member's host stands still for longer than its session, and then continues with its old assignment: it is
    fenced.
    """
    formed(group, 3)
    for one in (2, 3):
        group.rest(8, 15)
        begun = now_ms()
        group.processes[one].signal(signal.SIGSTOP)
        group.processes[one].note("frozen")
        time.sleep(group.options["session_ms"] / 1000 + group.random.uniform(4, 8))
        group.processes[one].signal(signal.SIGCONT)
        group.processes[one].note("thawed")
        group.settle()
        group.episode("deaths", begun, (one,))
    group.not_stalled("its members were frozen for a while")
    group.rest(10, 20)


def static_deaths(group: Group) -> None:
    """Static members are killed: the first is back in time and nobody notices, the second is late."""
    formed(group, 3)
    for one, is_late in ((1, False), (2, True), (3, False)):
        group.rest(8, 15)
        group.kill(one)
        group.rest(1, 2)
        if is_late:
            begun = now_ms()
            time.sleep(group.options["session_ms"] / 1000 + 2)
            group.settle()
            group.episode("deaths", begun, (one,))
            group.rest(5, 8)
        group.start(one)
        group.settle()
    group.rest(10, 20)


class Part(NamedTuple):
    """A group of the cast."""

    name: str
    play: Play
    options: Mapping[str, Any] = {}  # a constant


CAST: Final = (
    Part("rolling", rolling),
    Part("static", rolling, {"static": True, "session_ms": 15_000}),
    Part("scaling", scaling),
    Part("crashes", crash_loop, {"session_ms": 6_000}),
    Part("flapping", flapping),
    Part("overlap", overlap),
    Part("slow", slow, {"max_poll_ms": 8_000, "session_ms": 6_000, "client": ("java", "confluent", "kafka-python")}),
    Part("stops", whole_stop),
    Part("deaths", deaths, {"session_ms": (6_000, 10_000)}),
    Part("rewinds", rewinder, {"commits": "hand"}),
    Part(
        "own-places",
        rewinder_at_assignment,
        {"client": ("java", "confluent"), "commits": "hand", "rewinds": 15, "assignor": "range"},
    ),
    Part("twice", two_applications, {"client": "confluent", "commits": "hand"}),
    Part("stranger", application_without_members, {"client": "confluent", "commits": "hand"}),
    Part("resets", reset),
    Part("poison", stuck, {"commits": "hand"}),
    Part("stuck", stuck_to_the_end),
    Part("idle", idle),
    Part("deleted", deleted),
    Part("given-up", given_up),
    Part("frozen", frozen, {"session_ms": (6_000, 10_000)}),
    Part("static-deaths", static_deaths, {"static": True, "session_ms": 15_000, "partitions": (7, 12)}),
)  # fmt: skip
"""Options: one value, or several values. One of several values is drawn."""


def together(parts: list[threading.Thread]) -> None:
    """Let all of them play to the end."""
    for one in parts:
        one.start()
    for one in parts:
        one.join()
