"""Makes a sample: a data directory with `truth.jsonl`, from one cast of groups in its own world."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from muster.coordinator.groups.common.settings import GroupSettings
from muster.simulation.sample import transactions
from muster.simulation.sample.group import Group
from muster.simulation.sample.stories import STORIES, Cast, cast
from muster.simulation.sample.truth import Truth
from muster.simulation.sample.world import World

TRUTH_FILE: Final = "truth.jsonl"
HOUR_MS: Final = 3_600_000
END_MS: Final = 1_767_225_600_000
"""The default end of a sample: 2026-01-01T00:00Z. The time is fixed, so that the same seed gives the same bytes."""
PARTITIONS: Final = 50
"""The number of partitions of __consumer_offsets, as in Kafka."""
RECORDS_PER_GROUP_HOUR: Final = 160
"""The default number of committed offsets for each group and hour."""
_STEPS: Final = 200


class Wanted(NamedTuple):
    """The parameters of a sample."""

    groups: int = 50
    hours: float = 24
    seed: int = 1
    records: int | None = None
    """About how many offsets are committed. None means RECORDS_PER_GROUP_HOUR for each group and hour."""
    end_ms: int = END_MS
    """The wall time (ms) at which the sample ends."""


class Written(NamedTuple):
    """The content of a written sample."""

    groups: int
    commits: int
    """The number of committed offsets. Nearly all keys in the log are offset commits."""
    start_ms: int
    end_ms: int


class NotEmpty(ValueError):
    """The directory for the sample is not empty."""


def write(directory: Path, wanted: Wanted, progress: Callable[[float], object] = lambda _: None) -> Written:
    """Make a sample in a directory that is empty or does not exist.

    `progress` is called with the share that is done. Raises NotEmpty, OSError and the errors of `LogManager.open`.
    """
    if directory.exists() and any(directory.iterdir()):
        raise NotEmpty(f"{directory} is not empty")
    span_ms = int(wanted.hours * HOUR_MS)
    start_ms = wanted.end_ms - span_ms
    settings = GroupSettings()
    world = World(directory, seed=wanted.seed, start_ms=start_ms, partitions=PARTITIONS, settings=settings)
    try:
        truth = Truth(directory / TRUTH_FILE)
        try:
            _play(world, truth, wanted, start_ms, progress)
        finally:
            truth.close()
    except BaseException:
        world.abandon()
        raise
    world.close()
    return Written(wanted.groups, world.records, start_ms, wanted.end_ms)


def _play(world: World, truth: Truth, wanted: Wanted, start_ms: int, progress: Callable[[float], object]) -> None:
    span_ms = wanted.end_ms - start_ms
    records = wanted.records or max(round(RECORDS_PER_GROUP_HOUR * wanted.groups * wanted.hours), 1)
    settings = {name: getattr(world.settings, name) for name in GroupSettings.__dataclass_fields__}
    truth.write(
        "sample",
        seed=wanted.seed,
        start=start_ms,
        end=wanted.end_ms,
        groups=wanted.groups,
        hours=wanted.hours,
        settings=settings,
    )
    groups = _start_groups(world, truth, cast(wanted.groups, records, span_ms, wanted.seed), wanted)
    coordinator = transactions.start_producers(world, truth, span_ms, wanted.seed)
    for step in range(_STEPS):
        world.run(lambda: False, span_ms * (step + 1) // _STEPS - span_ms * step // _STEPS)
        progress((step + 1) / _STEPS)
    coordinator.close()
    for group in groups:
        group.finish()
    for name, traffic in world.traffic.items():
        truth.write("topic", topic=name, partitions=traffic.partitions, **traffic.facts())


def _start_groups(world: World, truth: Truth, everything: Cast, wanted: Wanted) -> list[Group]:
    for name, topic in everything.topics.items():
        world.create_topic(name, topic.partitions, topic.records_per_s)
    groups = []
    for plan in everything.plans:
        story = STORIES[plan.story]
        group = Group(plan, world, truth, wanted.seed, wanted.end_ms, story.made)
        group.run(story.script(group))
        groups.append(group)
    return groups
