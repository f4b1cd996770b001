"""The scripts of what looks like something else: applications under one id, topics with few records, short pauses.

Also of what happens while the broker is away.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Final

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed

FEW: Final = 0.06
"""A partition of a topic with few records gets some in this share of the seconds."""


def _two(group: Group, begun: int, first: Sequence[int], second: Sequence[int]) -> None:
    some = {group.topic: first, f"{group.topic}-2": second}
    names = {topic: [group.name_of(one) for one in members] for topic, members in some.items()}
    group.incident("two_topics", begun, topics=names)


def second_topic_later(group: Group) -> None:
    """A second application with another topic starts under the same id, when the first one is long at work."""
    formed(group, 2)
    group.work(35, 60)
    begun = now_ms()
    group.partitions *= 2
    more = group.random.choice(((3,), (3, 4)))
    group.start(*more, topics=[f"{group.topic}-2"])
    group.settle()
    group.episode("scale_out", begun, more)
    group.work(80, 100)
    _two(group, begun, (1, 2), more)


def second_topic_crashes(group: Group) -> None:
    """Two applications with different topics have one id. A member of the second one dies again and again."""
    begun = now_ms()
    group.start(1, 2)
    group.rest(8, 15)
    topics = [f"{group.topic}-2"]
    group.start(3, topics=topics)
    group.partitions *= 2
    group.settle()
    group.episode("formation", begun, (1, 2, 3))
    group.work(40, 50)
    since = now_ms()
    for _ in range(5):
        group.kill(3)
        group.rest(1, 3)
        group.start(3, topics=topics)
        group.settle()
        group.rest(4, 9)
    group.episode("crash_loop", since, (3,))
    group.work(15, 25)
    _two(group, begun, (1, 2), (3,))


def _deploy(group: Group, topics: list[str]) -> None:
    members = (1, 2, 3)
    formed(group, len(members))
    group.work(20, 30)
    begun = now_ms()
    for one in members:
        group.stop(one)
        group.rest(0.2, 2)
        group.start(one, topics=topics)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, members, static=bool(group.options.get("static")))


def release_with_more_topics(group: Group) -> None:
    """A deploy whose new release reads one more topic."""
    _deploy(group, [group.topic, f"{group.topic}-2"])
    group.work(60, 80)
    group.not_stalled("nothing is wrong with it")


def release_with_another_topic(group: Group) -> None:
    """A deploy whose new release reads another topic. During the deploy the members have different topics."""
    _deploy(group, [f"{group.topic}-2"])
    group.work(60, 80)
    group.not_stalled("it gave the partitions up")


def few_records(group: Group) -> None:
    """Its topic gets a few records in a minute."""
    group.stage.trickle[group.topic] = FEW
    formed(group, 2)
    group.work(100, 130)
    group.not_stalled("its topic has few records")


def a_second_topic_with_few(group: Group) -> None:
    """All members read two topics. One of these gets a few records in a minute."""
    other = f"{group.topic}-2"
    group.stage.trickle[other] = FEW
    begun = now_ms()
    group.start(1, 2, topics=[group.topic, other])
    group.settle()
    group.episode("formation", begun, (1, 2))
    group.work(100, 130)
    group.not_stalled("one of its topics has few records")


def too_many(group: Group) -> None:
    """It has more members than partitions."""
    formed(group, group.partitions + 2)
    group.work(70, 100)
    group.not_stalled("nothing is wrong with it")


def pauses(group: Group) -> None:
    """A member stops for some seconds, as for a long collection of garbage: its session is longer."""
    formed(group, 2)
    for least in (6, 25, 6):
        group.work(10, 20)
        one = group.processes[group.random.choice((1, 2))]
        one.signal(signal.SIGSTOP)
        one.note("frozen")
        time.sleep(group.random.uniform(least, least + 5))
        one.signal(signal.SIGCONT)
        one.note("thawed")
    group.work(20, 30)
    group.not_stalled("its members paused for some seconds")


def to_zero(group: Group) -> None:
    """It is scaled to no member and back, with fewer or more members."""
    formed(group, 2)
    running: tuple[int, ...] = (1, 2)
    for again in ((1, 2, 3), (1,)):
        group.work(20, 30)
        begun = now_ms()
        group.stop(*running)
        group.episode("whole_stop", begun, running)
        group.rest(15, 25)
        begun, running = now_ms(), again
        group.start(*running)
        group.settle()
        group.episode("start", begun, running)
    group.work(25, 35)
    group.not_stalled("it was stopped for a while")


def hard_deploy(group: Group) -> None:
    """A deploy in which nobody waits for the end of a member: all are killed, one after the other."""
    members = (1, 2, 3)
    formed(group, len(members))
    group.work(15, 30)
    begun = now_ms()
    for one in members:
        group.kill(one)
        group.rest(0.5, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, members, hard=True)
    group.work(25, 35)


def restarted_meanwhile(group: Group) -> None:
    """While the broker is away, its members do not answer probes: they are killed and start again, and wait."""
    formed(group, 2)
    group.until_away(150)
    time.sleep(group.random.uniform(10, 30))
    for one in (1, 2):
        group.kill(one)
        time.sleep(group.random.uniform(1, 4))
        group.start(one)
        time.sleep(group.random.uniform(1, 10))
    group.present.wait()
    group.settle()
    group.work(35, 50)
    group.not_stalled("its members were restarted")


def lost_meanwhile(group: Group) -> None:
    """While the broker is away, a member dies for good."""
    formed(group, 3)
    group.until_away(150)
    time.sleep(group.random.uniform(10, 40))
    begun = now_ms()
    group.kill(3)
    group.present.wait()
    time.sleep(group.options["session_ms"] / 1000 + 2)
    group.settle()
    group.episode("deaths", begun, (3,))
    group.work(35, 50)
