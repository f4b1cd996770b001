"""The scripts of two happenings at once, and of group ids that change hands.

A tool of kafka-python resets offsets, an application without members and a stray one use a group's id, and members of
other client libraries take it over.
"""

from __future__ import annotations

import time

import kafka

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed
from tests.pipeline.recording.scripts_drawn import USUAL_PER_S


def _reset(group: Group, to: dict[int, int]) -> None:
    """Commit as kafka-python does it without a membership: in an empty group."""
    group.present.wait()
    tool = kafka.KafkaConsumer(bootstrap_servers=group.stage.bootstrap, group_id=group.name, enable_auto_commit=False)
    try:
        tool.commit({
            kafka.TopicPartition(group.topic, partition): kafka.structs.OffsetAndMetadata(at, "", -1)
            for partition, at in to.items()
        })  # fmt: skip
    finally:
        tool.close()
    places = [[group.topic, *one] for one in to.items()]
    group.stage.journal.write(group=group.name, at=now_ms(), what="reset", by="tool", places=places)


def new_owner(group: Group) -> None:
    """An application is stopped for good. A tool moves its offsets, and another application takes the group id over."""
    formed(group, 2)
    group.work(25, 40)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(6, 15)
    at, by = group.committed(), group.random.choice((-40, 60))
    begun = now_ms()
    _reset(group, {one: max(place + by, 0) for one, place in at.items()})
    if by > 0:
        group.incident(
            "skip", begun, topic=group.topic, records=by, partitions=sorted(at), at=[at[one] for one in sorted(at)],
            members=[], shown=True,
        )  # fmt: skip
    group.rest(2, 3)
    if by < 0:
        group.drops("reset", begun, by=None)
    group.rest(2, 6)
    begun = now_ms()
    client = "aiokafka" if group.options["client"] != "aiokafka" else "confluent"
    group.options |= {"client": client, "assignor": "range"}
    group.start(5, 6, 7)
    group.settle()
    group.episode("start", begun, (5, 6, 7))
    group.work(30, 45)


def slow_and_crashing(group: Group) -> None:
    """All members read too slowly, and one of them dies again and again."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.2), 2)
    since = now_ms()
    formed(group, 3)
    group.work(30, 45)
    begun = now_ms()
    for _ in range(4):
        group.kill(2)
        group.rest(1, 3)
        group.start(2)
        group.settle()
        group.rest(5, 10)
    group.episode("crash_loop", begun, (2,))
    group.work(50, 70)
    group.incident("too_slow", since, members=[group.name_of(one) for one in (1, 2, 3)])
    group.not_stalled("it is only too slow")


def stuck_and_deployed(group: Group) -> None:
    """One partition is read by nobody. Somebody restarts all members, one after the other, which does not help."""
    formed(group, 2)
    group.work(15, 25)
    partition = min(group.processes[group.random.choice((1, 2))].assigned or {0})
    begun = now_ms()
    for number in (1, 2):
        group.send_line(number, f"pause {partition}")
    group.work(45, 60)
    since = now_ms()
    for number in (1, 2):
        group.stop(number)
        group.rest(0.2, 2)
        group.start(number)
        group.send_line(number, f"pause {partition}")
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", since, (1, 2), static=bool(group.options.get("static")))
    group.work(50, 70)
    group.stalled([partition], begun, "pause")


def stray(group: Group) -> None:
    """Somebody starts a consumer by hand with the id of the group: it takes partitions for a minute, and leaves."""
    formed(group, 2)
    for _ in range(2):
        group.work(15, 25)
        begun = now_ms()
        group.start(9)
        group.settle()
        group.episode("scale_out", begun, (9,))
        group.work(25, 40)
        begun = now_ms()
        group.stop(9)
        group.settle()
        group.episode("scale_in", begun, (9,))
    group.work(20, 30)


def jobs_by_the_minute(group: Group) -> None:
    """Producers write all records of half a minute at once. The group reads them, and waits for the next ones."""
    formed(group, 2)
    for _ in range(4):
        group.stage.quiet.add(group.topic)
        time.sleep(group.random.uniform(25, 32))
        group.stage.load[group.topic] = 10
        group.stage.quiet.discard(group.topic)
        time.sleep(group.random.uniform(2.5, 4))
        del group.stage.load[group.topic]
    group.work(15, 25)
    group.not_stalled("its records come at once")


def slow_release(group: Group) -> None:
    """A deploy whose new release reads too slowly."""
    formed(group, 2)
    group.work(30, 40)
    begun, before = now_ms(), group.so_far()
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * group.random.uniform(0.45, 0.7) / 2), 2)
    for one in (1, 2):
        group.stop(one)
        group.rest(0.2, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, (1, 2), static=bool(group.options.get("static")))
    group.work(120, 140)
    group.incident("too_slow", begun, members=[group.name_of(one) for one in (1, 2)], before=before)
    group.not_stalled("it is only too slow")
