"""The scripts of groups that lose something. They have more ways to be too slow than `scripts_drawn` has.

Records are skipped by tools and by members. Partitions stand still, also because a record kills its reader.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tests.pipeline.recording.cast import Group, now_ms
from tests.pipeline.recording.scripts import formed
from tests.pipeline.recording.scripts_drawn import USUAL_PER_S


def _too_slow(group: Group, begun: int, before: dict[str, int], members: Iterable[int]) -> None:
    """State that these members read too slowly from then to the end."""
    names = [group.name_of(one) for one in members]
    group.incident("too_slow", begun, members=names, before=before)
    group.not_stalled("it is only too slow")


def slows_down(group: Group) -> None:
    """The members keep up, until what they write to gets slow."""
    formed(group, 2)
    group.work(25, 40)
    begun, before = now_ms(), group.so_far()
    rate = max(round(USUAL_PER_S * group.partitions * group.random.uniform(0.4, 0.65) / 2), 2)
    for one in (1, 2):
        group.send_line(one, f"rate {rate}")
    group.work(120, 150)
    _too_slow(group, begun, before, (1, 2))


def load_grows(group: Group) -> None:
    """The members keep up, until producers write three times as many records."""
    group.options["rate"] = round(USUAL_PER_S * group.partitions * 0.75)
    formed(group, 2)
    group.work(25, 40)
    begun, before = now_ms(), group.so_far()
    group.stage.load[group.topic] = 3
    group.work(110, 140)
    _too_slow(group, begun, before, (1, 2))


def hot_partition(group: Group) -> None:
    """One partition gets far more records than the others. Its member is too slow; the other one keeps up."""
    group.options["rate"] = round(USUAL_PER_S * group.partitions * 0.9)
    formed(group, 2)
    group.work(20, 30)
    one = group.random.choice((1, 2))
    hot = min(group.processes[one].assigned or {0})
    begun, before = now_ms(), group.so_far()
    group.stage.load[group.topic, hot] = 10
    group.work(110, 140)
    _too_slow(group, begun, before, (one,))


def slow_without_one(group: Group) -> None:
    """Three members keep up. One dies for good, and two are too few."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.38), 2)
    formed(group, 3)
    group.work(20, 30)
    begun, before = now_ms(), group.so_far()
    group.kill(3)
    time.sleep(group.options["session_ms"] / 1000 + 2)
    group.settle()
    group.episode("deaths", begun, (3,))
    group.work(130, 160)
    _too_slow(group, begun, before, (1, 2))


def _skipped(group: Group, since: int, at: dict[int, int], records: int, **more: Any) -> None:
    partitions = sorted(at)
    group.incident(
        "skip", since, topic=group.topic, records=records, partitions=partitions, shown=True,
        at=[at[one] for one in partitions], **{"members": [], **more},
    )  # fmt: skip


def one_skips_ahead(group: Group) -> None:
    """Both members read too slowly. One goes on near the end, and nobody reads what is between."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.2), 2)
    begun = now_ms()
    formed(group, 2)
    group.work(70, 90)
    one = group.random.choice((1, 2))
    held = sorted(group.processes[one].assigned or ())
    since, at = now_ms(), group.committed()
    group.send_line(one, "back -150")
    group.work(20, 30)
    _skipped(group, since, {partition: at[partition] for partition in held}, 150, members=[group.name_of(one)])
    group.incident("burst", begun)
    group.not_stalled("it is only too slow")


def reset_to_latest(group: Group) -> None:
    """A group that is far behind is stopped, and a tool moves its offsets to the end: its backlog is lost."""
    group.options["rate"] = max(round(USUAL_PER_S * group.partitions * 0.25), 2)
    slow_since = now_ms()
    formed(group, 2)
    group.work(50, 70)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.incident("burst", slow_since)
    group.rest(3, 10)
    begun, at, ends = now_ms(), group.committed(), group.ends()
    group.reset(ends)
    behind = {one: place for one, place in at.items() if place < ends[one]}
    _skipped(group, begun, behind, min((ends[one] - place for one, place in behind.items()), default=0))
    group.rest(1, 3)
    begun = now_ms()
    group.options["rate"] = 0
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.work(25, 35)


def reset_of_one(group: Group) -> None:
    """The group is stopped, and a tool moves the offset of one partition forward."""
    formed(group, 2)
    group.work(20, 35)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.work(25, 35)
    begun, at = now_ms(), group.committed()
    one = group.random.randrange(group.partitions)
    group.reset({one: at[one] + 60})
    _skipped(group, begun, {one: at[one]}, 60)
    group.rest(1, 3)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.work(25, 35)


def _hang(group: Group, *members: int) -> int:
    """These members do not poll for some two minutes; the broker's absence does not count. It returns the start."""
    begun = now_ms()
    for one in members:
        group.send_line(one, "hang")
    group.work(115, 125)
    return begun


def _held(group: Group, *members: int) -> list[int]:
    return sorted({partition for one in members for partition in group.processes[one].assigned or ()})


def all_hang(group: Group) -> None:
    """All members wait for something else, and do not poll for two minutes. Other groups go on."""
    formed(group, 2)
    group.work(15, 30)
    held = _held(group, 1, 2)
    begun = _hang(group, 1, 2)
    group.stalled(held, begun, "sleep")
    for one in (1, 2):
        group.send_line(one, "wake")
    group.work(20, 30)


def hang_and_restart(group: Group) -> None:
    """A member does not poll for two minutes. Then a probe of its liveness kills it, and it starts again."""
    formed(group, 2)
    group.work(15, 30)
    one = group.random.choice((1, 2))
    held = _held(group, one)
    begun = _hang(group, one)
    group.kill(one)
    group.stalled(held, begun, "sleep")
    group.rest(1, 4)
    group.start(one)
    group.settle()
    group.work(20, 30)


def stuck_after_deploy(group: Group) -> None:
    """A deploy. After it one partition is read by nobody, to the end or until somebody restarts its member."""
    formed(group, 2)
    group.work(10, 20)
    begun = now_ms()
    for one in (1, 2):
        group.stop(one)
        group.rest(0.2, 2)
        group.start(one)
        group.rest(2, 5)
        group.settle()
    group.episode("rolling_restart", begun, (1, 2), static=bool(group.options.get("static")))
    one = group.random.choice((1, 2))
    held = _held(group, one)[:1]
    begun = now_ms()
    for partition in held:
        group.send_line(one, f"pause {partition}")
    group.work(75, 100)
    group.stalled(held, begun, "pause")
    if group.random.random() < 0.5:
        for partition in held:
            group.send_line(one, f"go {partition}")
        group.work(20, 30)


def poison_kills(group: Group) -> None:
    """A record kills its reader. The member starts again and dies again, and the other member dies of it too."""
    formed(group, 2)
    group.work(15, 25)
    one = group.random.choice((1, 2))
    partition = min(group.processes[one].assigned or {0})
    begun, killed = now_ms(), set[int]()
    for number in (1, 2):
        group.send_line(number, f"pause {partition}")
    for _ in range(6):
        group.work(3, 6)
        one = next((number for number in (1, 2) if partition in (group.processes[number].assigned or ())), one)
        killed.add(one)
        group.kill(one)
        group.rest(1, 3)
        group.start(one)
        group.send_line(one, f"pause {partition}")
        group.settle()
    group.stalled([partition], begun, "pause")
    group.incident(
        "poison", begun, topic=group.topic, partition=partition, offset=group.committed()[partition],
        members=[group.name_of(number) for number in sorted(killed)], how="kills",
    )  # fmt: skip
    group.episode("crash_loop", begun, sorted(killed))
    group.work(15, 25)


def poison_and_skip(group: Group) -> None:
    """One member cannot process a record. The group is stopped, and a tool moves the offset behind this record."""
    formed(group, 2)
    group.work(15, 25)
    one = group.random.choice((1, 2))
    partition = min(group.processes[one].assigned or {0})
    begun = now_ms()
    group.send_line(one, f"stick {partition}")
    group.work(70, 90)
    at = group.committed()[partition]
    group.stalled([partition], begun, "stick")
    group.incident("poison", begun, topic=group.topic, partition=partition, offset=at, members=[group.name_of(one)])
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(3, 8)
    begun = now_ms()
    group.reset({partition: at + 1})
    _skipped(group, begun, {partition: at}, 1, meant=True)
    group.rest(1, 3)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.work(20, 30)
