"""What a story needs of the broker's settings, and with which settings it would be played.

A setting of groups is given to the story's own groups (KIP-848's group configs), if the user allows that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from muster.conform.player.story import Step, Story
from muster.conform.results import Setting

NOT_SAID: Final = {
    "consumer": {
        "group.consumer.max.size": "2147483647",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.session.timeout.ms": "45000",
    },
    "share": {"group.share.max.size": "200", "group.share.session.timeout.ms": "45000"},
    "streams": {
        "group.streams.max.size": "2147483647",
        "group.streams.num.standby.replicas": "0",
        "group.streams.rack.aware.assignment.tags": "",
        "group.streams.session.timeout.ms": "45000",
    },
    "join": {"group.max.size": "2147483647"},
    "enter": {"group.max.size": "2147483647"},
}
"""The settings that a story with a request of this kind needs, unless its `broker` line names them. The kind is the
first word of the request.
"""
REFUSALS: Final = ("INVALID_SESSION_TIMEOUT", "INVALID_CONFIG")
"""A story with such an answer is about a bound: only the bound of its `broker` line will do."""
GROUP: Final = re.compile(r"\bgroups?=(\S+)")
SESSION: Final = re.compile(r"\bsession=(-?\d+)")
DELAY: Final = "group.initial.rebalance.delay.ms"
MIN_SESSION: Final = "group.min.session.timeout.ms"
OF_JOINS: Final = (DELAY, MIN_SESSION)
"""A story in which nobody joins a classic group does not mind these settings."""
LONGEST_DELAY_MS: Final = 3000
"""Kafka's default: the longest delay before the first generation of a group that the player has patience for."""
UNHURRIED: Final = Path(__file__).with_name("unhurried.txt")
"""The names of stories whose answers are the same when each first generation of a group comes later."""

MAIN: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "3",
}
POLICY: Final = "group.consumer.migration.policy"
SETS: Final = {
    "main": MAIN,
    "small": {**MAIN, "group.max.size": "2", "group.share.max.size": "2", "group.streams.max.size": "2"},
    "delayed": {**MAIN, "group.initial.rebalance.delay.ms": "600"},
    "upgrade": {**MAIN, POLICY: "upgrade", "group.consumer.max.size": "3"},
    "downgrade": {**MAIN, POLICY: "downgrade"},
    "disabled": {**MAIN, POLICY: "disabled", "group.streams.max.size": "9"},
}
"""Settings of a broker, by name. With those of `main` nearly all stories are played. All together play all stories."""


def wanted(story: Story) -> dict[str, str]:
    """All settings that the story needs."""
    lines = (item.line.partition(":")[2].split() for item in story.items if isinstance(item, Step))
    words = {line[0] for line in lines if line}
    needed: dict[str, str] = {}
    for kind in sorted({word.partition("-")[0] for word in words}):
        needed |= NOT_SAID.get(kind, {})
    needed |= story.broker
    if words.isdisjoint(("join", "enter")):
        needed = {name: value for name, value in needed.items() if name not in OF_JOINS}
    return needed


@cache
def unhurried() -> frozenset[str]:
    """The names of the stories that do not mind an initial delay."""
    return frozenset(UNHURRIED.read_text(encoding="utf-8").split())


def shortest_session(story: Story) -> int:
    """The shortest session of classic members in the story."""
    return min(map(int, [story.defaults.get("session", "10000"), *SESSION.findall(story.text)]))


def groups_of(story: Story) -> list[str]:
    """The names of the groups that the story uses, as the story calls them."""
    found = {story.group: None}
    for item in story.items:
        if isinstance(item, Step):
            for names in GROUP.findall(item.line):
                found |= dict.fromkeys(names.split(","))
    return [name for name in found if name not in ("none", "null")]


OFF: Final = ("0", "", "200", "2147483647", "bidirectional", "45000", "4096", "1800000")
"""A broker that does not report a setting behaves as with one of these values of it."""


def fits(story: Story, name: str, value: str, found: str | None) -> bool:
    """Whether a broker's value of a setting will do for the story. A lower bound may be lower than the story's."""
    if found == value or (found is None and value in OFF):
        return True
    if found is None or any(word in story.text for word in REFUSALS):
        return False
    if name == DELAY and value == "0":
        return story.name in unhurried() and int(found) <= LONGEST_DELAY_MS
    if name == MIN_SESSION:
        return int(found) <= shortest_session(story)
    return ".min." in name and int(found) <= int(value)


@dataclass(frozen=True)
class Known:
    """What is known of a broker's settings."""

    values: Mapping[str, str | None] | None
    """None: the broker does not say."""
    dynamic: frozenset[str] = frozenset()
    """Settings of the broker that can be changed while it runs."""
    of_groups: frozenset[str] = frozenset()
    """Names of group configs, as `consumer.session.timeout.ms`."""

    def unfit(self, story: Story) -> list[Setting]:
        """The settings that keep the story from being played as things are. Empty if the broker says nothing."""
        if self.values is None:
            return []
        return [
            Setting(name, value, self.values.get(name), self.is_dynamic(name))
            for name, value in sorted(wanted(story).items())
            if not fits(story, name, value, self.values.get(name))
        ]

    def is_dynamic(self, name: str) -> bool:
        """Whether the setting can be changed at run time, for a group or for all."""
        return self.group_config(name) is not None or name in self.dynamic

    def group_config(self, name: str) -> str | None:
        """The group config for a setting of the broker; None: it has none."""
        short = name.removeprefix("group.")
        return short if short != name and short in self.of_groups else None
