"""Which stories are played on a broker, with which names and settings; and which are not, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.conform.catalogue import level_of
from muster.conform.player.releases import Release, name_of
from muster.conform.player.stage import prefixed
from muster.conform.player.story import Step, Story
from muster.conform.results import Outcome, Setting, State
from muster.conform.settings import Known, groups_of, wanted

ONE_BROKER = "one-broker"
"""The tag of a story whose answers differ where partitions have several leaders."""
ANONYMOUS = "anonymous"
"""The tag of a story whose answers are those to a client without a name."""
START = "conform-"
"""All names of topics, groups and transactional ids begin with this text, topics for dead letters with `dlq.`."""
STREAMS_DELAY = "group.streams.initial.rebalance.delay.ms"
OWN_DELAY_UNTIL = (4, 2)
"""Until this release a streams group with a config of its own ignores the broker's initial delay."""


@dataclass(frozen=True)
class Planned:
    """A story that is played."""

    story: Story
    prefix: str
    group_configs: Mapping[str, str] = field(default_factory=dict)
    """Configs that each group of the story gets beforehand."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """Settings of all brokers that are changed for the story."""

    @property
    def level(self) -> str:
        """The story's level."""
        return level_of(self.story)

    @property
    def topics(self) -> dict[str, int]:
        """The topics that stories share, by their names on the server, with their numbers of partitions."""
        return {prefixed(self.prefix, name): count for name, count in self.story.topics.items()}

    @property
    def own_topics(self) -> list[str]:
        """The beginnings of the names of the topics that are made for this story alone."""
        return [prefixed(self.prefix, name) for name in self.story.own_topics]

    @property
    def groups(self) -> list[str]:
        """The beginnings of the names of the story's groups."""
        return [self.prefix + name for name in groups_of(self.story)]

    @property
    def seconds(self) -> float:
        """How long the story waits at least."""
        words = [item.line.split() for item in self.story.items if isinstance(item, Step)]
        waits = [int(one[1]) for one in words if one[0] == "advance"]
        return (sum(waits) + sum(int(one[2].partition(".")[0]) for one in words if one[0] == "await")) / 1000

    @property
    def depends_on_time(self) -> bool:
        """Whether a busy machine can change how the story goes: time passes in it, or something is not answered yet."""
        is_waiting = any(line.split()[1:2] == ["waiting"] for line in self.story.text.splitlines())
        return self.story.takes_time or is_waiting or not {"txn", "share", "handlers"}.isdisjoint(self.story.tags)

    @property
    def can_be_stretched(self) -> bool:
        """Whether all of its times are in its requests. Delays of the broker cannot be stretched."""
        if not {"txn", "share", "handlers"}.isdisjoint(self.story.tags):
            return False
        delays = [value for name, value in self.story.broker.items() if name.endswith(".ms") and ".min." not in name]
        return not any(value != "0" for value in delays)


@dataclass(frozen=True)
class Plan:
    """All stories of a run, by the settings of the brokers that they need, and those that are skipped."""

    played: tuple[Planned, ...]
    skipped: tuple[Outcome, ...]

    @property
    def phases(self) -> list[tuple[dict[str, str], list[Planned]]]:
        """Stories with the same changes of the brokers' settings, those without a change first."""
        found: dict[tuple[tuple[str, str], ...], list[Planned]] = {}
        for one in sorted(self.played, key=lambda one: one.broker_configs):
            found.setdefault(one.broker_configs, []).append(one)
        return [(dict(configs), ones) for configs, ones in found.items()]


def plan(
    stories: Iterable[Story],
    known: Known,
    run: str,
    release: Release,
    *,
    may_alter: bool,
    brokers: int = 1,
    is_anonymous: bool = True,
) -> Plan:
    """Plan a run. `run` is a text of this run alone."""
    played: list[Planned] = []
    skipped: list[Outcome] = []
    sets: dict[tuple[tuple[str, int], ...], int] = {}
    for story in stories:
        if story.since is not None and story.since > release:
            skipped.append(skip(story, f"Kafka has it since {name_of(story.since)}"))
            continue
        if ONE_BROKER in story.tags and brokers > 1:
            skipped.append(skip(story, "it is for a single broker"))
            continue
        if ANONYMOUS in story.tags and not is_anonymous:
            skipped.append(skip(story, "it is for a client without a login and a certificate"))
            continue
        unfit = known.unfit(story)
        if any(not (may_alter and one.dynamic) for one in unfit):
            skipped.append(skip(story, needs(unfit), unfit))
            continue
        place = sets.setdefault(tuple(sorted(story.topics.items())), len(sets))
        of_groups = {key: one.value for one in unfit if (key := known.group_config(one.name)) is not None}
        own_delay = known.group_config(STREAMS_DELAY)
        if of_groups and own_delay and release <= OWN_DELAY_UNTIL and STREAMS_DELAY in (wants := wanted(story)):
            of_groups[own_delay] = wants[STREAMS_DELAY]
        of_brokers = tuple((one.name, one.value) for one in unfit if known.group_config(one.name) is None)
        played.append(Planned(story, f"{START}{run}-{place}-", of_groups, of_brokers))
    return Plan(tuple(played), tuple(skipped))


def needs(settings: Sequence[Setting]) -> str:
    """Which settings would let a story run, and how to set them."""
    text = " ".join(f"{one.name}={one.value}" for one in settings)
    can_all = all(one.dynamic for one in settings)
    return f"needs {text} ({'--may-alter sets it' if can_all else 'in the properties of the broker'})"


def skip(story: Story, why: str, settings: Sequence[Setting] = ()) -> Outcome:
    """The outcome of a story that is not played."""
    level = level_of(story)
    return Outcome("story", story.name, level, story.title, State.SKIPPED, why=why, settings=tuple(settings))


def described(chosen: Plan) -> list[str]:
    """What a run would make and change, in lines (`--dry-run`)."""
    topics = sorted({(name, count) for one in chosen.played for name, count in one.topics.items()})
    own = sorted({name for one in chosen.played for name in one.own_topics})
    groups = sorted({name for one in chosen.played for name in one.groups})
    lines = [f"topic {name} with {count} partitions, deleted at the end" for name, count in topics]
    lines += [f"topics {name}-*, deleted at the end" for name in own]
    lines += [f"groups and transactional ids {name}~*; groups are deleted at the end" for name in groups]
    for one in chosen.played:
        for name in one.groups if one.group_configs else ():
            given = " ".join(f"{key}={value}" for key, value in sorted(one.group_configs.items()))
            lines.append(f"configs of groups {name}~*: {given}, removed at the end")
    for configs, ones in chosen.phases:
        lines += [
            f"for {len(ones)} stories all brokers: {key}={value}, put back then" for key, value in configs.items()
        ]
    return list(dict.fromkeys(lines))
