"""Compares a server's answers with those of its mirror: bodies, field by field, after renaming member ids.

Each side has its own names for its ids: an id is named by the request that caused it. The order is compared where
Kafka's order means something, and not where it is that of a hash map.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.player.stage import UUID
from muster.conform.player.story import Reply

UNORDERED: Mapping[str, Mapping[str, str]] = {
    "JoinGroup": {"Members": "MemberId"},
    "DescribeGroups": {"Groups": "GroupId", "Members": "MemberId"},
    "ListGroups": {"Groups": "GroupId"},
    "DeleteGroups": {"Results": "GroupId"},
    "OffsetCommit": {"Topics": "Name TopicId"},
    "OffsetDelete": {"Topics": "Name"},
    "ConsumerGroupHeartbeat": {"TopicPartitions": "TopicId", "Partitions": ""},
    "ConsumerGroupDescribe": {
        "Groups": "GroupId",
        "Members": "MemberId",
        "SubscribedTopicNames": "",
        "TopicPartitions": "TopicName",
        "Partitions": "",
    },
}
"""Lists without a fixed order: API -> field -> the fields by which its rows are sorted; none: plain values."""
DRAWN = re.compile("(?<=^Static member )[A-Za-z0-9_-]{22}(?= )")
"""A random id for a member that is refused."""
ASSIGNMENTS = ("Assignment", "MemberAssignment")
"""Fields with the bytes of an assignment, in which topics have the order of a hash map when the server has made it."""
ALL_OFFSETS = {"Topics": "Name TopicId", "Partitions": "PartitionIndex"}
"""The fields of an OffsetFetch without topics."""
OF_THE_MACHINE = ("NodeId", "Host", "Port")
"""Fields with the place of a server."""


class Names:
    """The names of one side: of member ids, of groups (which have a suffix), of topics."""

    def __init__(self, suffix: str, topic_ids: Mapping[str, uuid.UUID]) -> None:
        self.suffix = suffix
        self.members: dict[str, str] = {}
        self.producers: dict[int, str] = {}
        self.topics = {topic_id: name for name, topic_id in topic_ids.items()}

    def learn(self, index: int, reply: Reply) -> None:
        """Learn ids: the reply to the request of that index may have a new member id, or a new producer id."""
        producer = reply.body.get("ProducerId", -1)
        if producer != -1:
            self.producers.setdefault(producer, f"<producer of request {index}>")
        new = reply.body.get("MemberId") if reply.api in ("JoinGroup", "ConsumerGroupHeartbeat") else None
        if new and new != reply.request["MemberId"]:
            of_client = UUID.sub("", new) if UUID.search(new) else ""  # a consumer group gives bare ids, in base64
            self.members.setdefault(new, f"<{of_client} of request {index}>")

    def member(self, name: str) -> str | None:
        """The id with this name."""
        return next((real for real, known in self.members.items() if known == name), None)

    def text(self, text: str) -> str:
        """A member id by its name, any other text without the suffix of groups."""
        name = self.members.get(text)
        if name is not None:
            return name
        for real, known in self.members.items():
            text = text.replace(real, known)
        if self.suffix:
            text = text.replace(self.suffix, "").replace(self.suffix.replace("~", "-"), "")
        return UUID.sub("<uuid>", DRAWN.sub("<drawn>", text))


def plain(reply: Reply, names: Names, unseen: Collection[str] = ()) -> object:
    """A reply's body without anything that differs between servers or runs.

    `unseen`: groups that may or may not be listed and described.
    """
    rows = dict(UNORDERED.get(reply.api, {}))
    if reply.api == "OffsetFetch":
        asked = reply.request.get("Groups", [reply.request])
        rows = ALL_OFFSETS if any(one["Topics"] is None for one in asked) else {}
    if reply.api in ("ListGroups", "DescribeGroups", "ConsumerGroupDescribe"):
        mine = [row for row in reply.body["Groups"] if row["GroupId"].endswith(names.suffix)]
        seen = [row for row in mine if names.text(row["GroupId"]) not in unseen]
        return plain_value({**reply.body, "Groups": seen}, names, rows)
    return plain_value(reply.body, names, rows)


def plain_value(value: Any, names: Names, rows: Mapping[str, str]) -> Any:
    """Any part of a body."""
    if isinstance(value, dict):
        out = {}
        for key, one in value.items():
            if key in OF_THE_MACHINE and "Port" in value:
                continue
            if key == "ProducerId":
                out[key] = names.producers.get(one, one)
                continue
            if key in ASSIGNMENTS and isinstance(one, bytes):
                out[key] = plain_assignment(one, names)
                continue
            if key in rows and isinstance(one, list):
                by = rows[key].split()

                def order(row: Any, by: list[str] = by) -> Any:
                    return [str(row.get(name)) for name in by] if by else row  # TopicId: since v10

                # sorted by their real names first: two ids may have one plain name
                one = sorted((plain_value(row, names, rows) for row in sorted(one, key=order)), key=order)
                out[key] = one
                continue
            out[key] = plain_value(one, names, rows)
        return out
    if isinstance(value, list):
        return [plain_value(one, names, rows) for one in value]
    if isinstance(value, uuid.UUID):
        return names.topics.get(value, "an id of no topic")
    return names.text(value) if isinstance(value, str) else value


def plain_assignment(raw: bytes, names: Names) -> object:
    """A consumer's assignment, by topic; other bytes unchanged."""
    try:
        version = int.from_bytes(raw[:2], "big")
        body = codec.decode("ConsumerProtocolAssignment", min(version, 3), raw, 2)
    except (ValueError, IndexError, struct.error):
        return raw
    rows = {names.text(row["Topic"]): sorted(row["Partitions"]) for row in body["AssignedPartitions"]}
    return {"Version": version, "AssignedPartitions": dict(sorted(rows.items())), "UserData": body["UserData"]}


def differences(theirs: object, ours: object, path: str = "") -> list[str]:
    """The differences of two plain bodies: `field: theirs, expected ours`."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        return [line for key in theirs for line in differences(theirs[key], ours[key], f"{path}.{key}".lstrip("."))]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, f"{path}[{i}]")]
    return [] if theirs == ours else [f"{path}: {theirs!r}, expected {ours!r}"]


def dumped(body: object) -> str:
    """One line of text for a plain body."""
    return json.dumps(body, default=repr, sort_keys=True)
