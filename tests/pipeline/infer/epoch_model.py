"""A hand-made KIP-848 group: a small coordinator that writes what Kafka's would write, and knows which member had what,
and when.

Members do nothing by themselves: `beat` is a heartbeat of one of them. A target assignment distributes the partitions
of each topic to its subscribers, in the order in which they joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from muster.pipeline.infer.epoch_image import (
    AWAY,
    CLASSIC,
    CURRENT,
    EPOCH,
    MEMBER,
    OWES,
    PATTERN,
    STABLE,
    TARGET,
    TARGET_EPOCH,
    Record,
)
from muster.pipeline.schema import CLASSIC_GROUP, CONSUMER_GROUP
from tests.pipeline.tables.history import START_MS

WAITS = 2
"""The state of a member that waits until others give up its partitions (UNRELEASED_PARTITIONS)."""
Place = tuple[str, int]


class Server:
    """One group. Times are ms; topic ids are the topics' names with `id-` before."""

    def __init__(self, topics: dict[str, int], *, first: int = 2) -> None:
        self.topics = dict(topics)
        self.records: list[Record] = []
        self.epoch = first - 1
        self.members: dict[str, dict[str, Any]] = {}
        self.had: list[tuple[str, int, str, int, int | None]] = []
        """The partitions that each member had: topic, partition, member, from, until (None: still)."""
        self._since: dict[tuple[str, Place], int] = {}

    # ---- events

    def join(self, at_ms: int, name: str, *topics: str, instance: str | None = None, **other: Any) -> None:
        """A member joins."""
        self.members[name] = {
            "epoch": 0, "state": STABLE, "has": [], "owes": [], "target": [], "topics": topics or ("t",),
            "instance": instance, "other": other,
        }  # fmt: skip
        self._tell(at_ms, name)
        self._raise(at_ms)
        self._reconcile(at_ms, name, joins=True)

    def leave(self, at_ms: int, name: str) -> None:
        """A member leaves; Kafka writes the same when its session is over."""
        self._remove(at_ms, name)
        self._raise(at_ms)

    def stop(self, at_ms: int, name: str) -> None:
        """A static member stops, and may return."""
        self._write(at_ms, CURRENT, name, self._assignment(name) | {"memberEpoch": AWAY})

    def back(self, at_ms: int, name: str, new: str) -> None:
        """A static member returns under another id."""
        old = self.members[name]
        self._remove(at_ms, name)
        self.members[new] = {**old, "has": []}
        self._tell(at_ms, new)
        self._write(at_ms, TARGET, new, {"topicPartitions": _topics(old["target"])})
        self.members[new]["epoch"] = 0
        kept = [place for place in old["has"] if place in old["target"]]
        self._have(at_ms, new, kept, [], STABLE if len(kept) == len(old["target"]) else WAITS)
        self.members[new]["epoch"] = old["epoch"]
        self._write(at_ms, CURRENT, new, self._assignment(new))

    def subscribe(self, at_ms: int, name: str, *topics: str) -> None:
        """A member changes its subscription."""
        self.members[name]["topics"] = topics
        self._tell(at_ms, name)
        self._raise(at_ms)

    def grow(self, at_ms: int, topic: str, count: int) -> None:
        """A topic gets more partitions."""
        self.topics[topic] = count
        self._raise(at_ms)

    def beat(self, at_ms: int, name: str) -> None:
        """A heartbeat: a member gives up what the last answer revoked, and gets its next assignment."""
        self._reconcile(at_ms, name)

    def settle(self, at_ms: int) -> int:
        """Let all members send heartbeats until none has anything to do, one each ms. Returns the time of the last
        one.
        """
        for _ in range(3 * len(self.members) + 3):
            for name in list(self.members):
                at_ms += 1
                self.beat(at_ms, name)
        return at_ms

    def delete(self, at_ms: int) -> None:
        """Delete the group, which is empty."""
        assert not self.members
        self._write(at_ms, TARGET_EPOCH, "", None)
        self._write(at_ms, EPOCH, "", None)
        self.epoch = 1

    def upgrade(self, at_ms: int, *names: str) -> None:
        """A classic group with these members becomes a KIP-848 group. Each member has a partition of `t`."""
        self._write(at_ms, CLASSIC, "", None)
        for number, name in enumerate(names):
            metadata = {"sessionTimeoutMs": 6_000, "supportedProtocols": []}
            place = ("t", number)
            self.members[name] = {
                "epoch": self.epoch, "state": STABLE, "has": [], "owes": [], "target": [place], "topics": ("t",),
                "instance": None, "other": {"classicMemberMetadata": metadata},
            }  # fmt: skip
            self._tell(at_ms, name)
        self._write(at_ms, EPOCH, "", {"epoch": self.epoch, "metadataHash": 1})
        self._write(at_ms, TARGET_EPOCH, "", {"assignmentEpoch": self.epoch})
        for name, one in self.members.items():
            self._have(at_ms, name, one["target"], [], STABLE)

    def downgrade(self, at_ms: int) -> None:
        """The group becomes a classic group, whose record comes next."""
        for name in list(self.members):
            self._remove(at_ms, name)
        self._write(at_ms, TARGET_EPOCH, "", None)
        self._write(at_ms, EPOCH, "", None)

    # ---- how they happen

    def _tell(self, at_ms: int, name: str) -> None:
        one = self.members[name]
        value = {
            "instanceId": one["instance"], "rackId": None, "clientId": name.rstrip("0123456789"), "clientHost": "/h",
            "subscribedTopicNames": list(one["topics"]), "subscribedTopicRegex": "", "rebalanceTimeoutMs": 300_000,
            "serverAssignor": None, "classicMemberMetadata": None,
        }  # fmt: skip
        self._write(at_ms, MEMBER, name, value | one["other"])

    def _raise(self, at_ms: int) -> None:
        self.epoch += 1
        wanted = sorted({topic for one in self.members.values() for topic in one["topics"]})
        hashed = hash(tuple((topic, self.topics[topic]) for topic in wanted)) if wanted else 0
        self._write(at_ms, EPOCH, "", {"epoch": self.epoch, "metadataHash": hashed})
        if not self.members:
            return
        targets: dict[str, list[Place]] = {name: [] for name in self.members}
        for topic in wanted:
            takers = [name for name, one in self.members.items() if topic in one["topics"]]
            for number in range(self.topics[topic]):
                targets[takers[number % len(takers)]].append((topic, number))
        for name, places in targets.items():
            self.members[name]["target"] = places
            self._write(at_ms, TARGET, name, {"topicPartitions": _topics(places)})
        self._write(at_ms, TARGET_EPOCH, "", {"assignmentEpoch": self.epoch, "assignmentTimestamp": at_ms})

    def _reconcile(self, at_ms: int, name: str, *, joins: bool = False) -> None:
        one = self.members[name]
        kept = [place for place in one["has"] if place in one["target"]]
        owes = [place for place in one["has"] if place not in one["target"]]
        before = (one["epoch"], one["state"], one["has"], one["owes"])
        if owes:
            after = (one["epoch"], OWES, kept, owes)
        else:
            others = [each for other, each in self.members.items() if other != name]
            taken = {place for each in others for place in (*each["has"], *each["owes"])}
            free = [place for place in one["target"] if place not in kept and place not in taken]
            is_whole = len(kept) + len(free) == len(one["target"])
            after = (self.epoch, STABLE if is_whole else WAITS, kept + free, [])
        if after != before or joins:
            one["epoch"] = after[0]
            self._have(at_ms, name, after[2], after[3], after[1])

    def _have(self, at_ms: int, name: str, places: list[Place], owes: list[Place], state: int) -> None:
        one = self.members[name]
        for place in one["has"]:
            if place not in places:
                self.had.append((*place, name, self._since.pop((name, place)), at_ms))
        for place in places:
            self._since.setdefault((name, place), at_ms)
        one["has"], one["owes"], one["state"] = list(places), list(owes), state
        self._write(at_ms, CURRENT, name, self._assignment(name))

    def _remove(self, at_ms: int, name: str) -> None:
        for place in self.members.pop(name)["has"]:
            self.had.append((*place, name, self._since.pop((name, place)), at_ms))
        for kind in (CURRENT, TARGET, MEMBER):
            self._write(at_ms, kind, name, None)

    def _assignment(self, name: str) -> dict[str, Any]:
        one = self.members[name]
        return {
            "memberEpoch": one["epoch"], "previousMemberEpoch": 0, "state": one["state"],
            "assignedPartitions": _topics(one["has"]), "partitionsPendingRevocation": _topics(one["owes"]),
        }  # fmt: skip

    def _write(self, at_ms: int, key_type: int, key: str, value: dict[str, Any] | None) -> None:
        self.records.append(Record(len(self.records), at_ms, key_type, key, value))

    # ---- what must be found

    @property
    def names(self) -> dict[str, str]:
        """The names of topics, by their ids."""
        return {f"id-{topic}": topic for topic in self.topics}

    def holds(self) -> list[tuple[str, int, str, int, int | None]]:
        """All times in which members had partitions, also those that have not ended."""
        still = [(*place, name, since, None) for (name, place), since in self._since.items()]
        return sorted([*self.had, *still], key=str)


def _topics(places: Iterable[Place]) -> list[dict[str, Any]]:
    found: dict[str, list[int]] = {}
    for topic, number in places:
        found.setdefault(topic, []).append(number)
    return [{"topicId": f"id-{topic}", "partitions": numbers} for topic, numbers in found.items()]


def decoded_row(record: Record, group: str = "g") -> dict[str, Any]:
    """A record in the form of the decoder."""
    row = {
        "group": group, "log_partition": 0, "log_offset": record.offset, "log_timestamp_ms": START_MS + record.at_ms,
        "key_type": record.key_type, "is_tombstone": record.value is None,
    }  # fmt: skip
    if record.key_type == CLASSIC:
        return row | {"kind": CLASSIC_GROUP}
    name = {PATTERN: "regularExpression"}.get(record.key_type, "memberId")
    key = {"groupId": group} | ({name: record.key} if record.key else {})
    value = None if record.value is None else json.dumps(record.value)
    return row | {"kind": CONSUMER_GROUP, "key_json": json.dumps(key), "value_json": value}
