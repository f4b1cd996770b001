"""The outcome lines of the commands about share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.conform.player.showing_groups import (
    by_id,
    epochs_text,
    error_text,
    members_text,
    message_text,
    shown_groups,
)
from muster.conform.player.stage import Actor, Stage, error_name, named
from muster.conform.player.story import Body, Reply

COUNTS = "counts"
"""The tag of stories whose lines show how many partitions a member has, because the ids of topics decide which."""


TOTALS = "totals"
"""The tag of random histories, whose lines show only the number of all partitions of a member."""


def absorb(stage: Stage, actor: Actor, reply: Reply) -> None:
    """Remember the epoch of a member."""
    if reply.api == "ShareGroupHeartbeat" and reply.body["ErrorCode"] == 0:
        actor.member = reply.body["MemberId"] or actor.member
        actor.epoch = reply.body["MemberEpoch"]


def _partitions(stage: Stage, assignment: Body) -> str:
    if TOTALS in stage.story.tags:
        return f"[{sum(len(row['Partitions']) for row in assignment['TopicPartitions'])}]"
    rows = []
    for row in assignment["TopicPartitions"]:
        name = stage.topic_label(row.get("TopicName") or "") or stage.topic_name(row["TopicId"])
        its = sorted(row["Partitions"])
        rows.append(f"{name}*{len(its)}" if COUNTS in stage.story.tags else f"{name}/" + "+".join(map(str, its)))
    return "[" + " ".join(sorted(rows)) + "]"


def show_heartbeat(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    if body["ErrorCode"]:
        return "share-heartbeat " + error_text(stage, body)
    out = "share-heartbeat ok" + named(epoch=body["MemberEpoch"])
    if body["HeartbeatIntervalMs"] not in (0, 5000):
        out += named(interval=body["HeartbeatIntervalMs"])
    if body["Assignment"] is not None:
        out += named(assignment=_partitions(stage, body["Assignment"]))
    return out


def show_describe(stage: Stage, actor: Actor, reply: Reply) -> str:
    return "share-describe " + shown_groups(stage, by_id(reply.body["Groups"]), _group)


def _group(stage: Stage, group: Body) -> str:
    return epochs_text(group) + members_text(stage, group, _member)


def _member(stage: Stage, member: Body) -> str:
    topics = "+".join(sorted(map(stage.topic_label, member["SubscribedTopicNames"])))
    text = stage.label(member["MemberId"]) + named(rack=member["RackId"])
    return (
        text + f" epoch={member['MemberEpoch']} topics={topics} assignment={_partitions(stage, member['Assignment'])}"
    )


def show_offsets(stage: Stage, actor: Actor, reply: Reply) -> str:
    return "share-offsets " + shown_groups(stage, reply.body["Groups"], _offsets)


def _offsets(stage: Stage, group: Body) -> str:
    rows = [
        f" {stage.topic_label(topic['TopicName'])}/{row['PartitionIndex']}={row['StartOffset']}"
        + named(lag=None if row["Lag"] == -1 else row["Lag"])
        + (f" {error_name(row['ErrorCode'])}" if row["ErrorCode"] else "")
        for topic in group["Topics"]
        for row in topic["Partitions"]
    ]
    return "".join(sorted(rows))


def show_alter(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    rows = [
        f"{stage.topic_label(topic['TopicName'])}/{row['PartitionIndex']}={error_name(row['ErrorCode'])}"
        for topic in body["Responses"]
        for row in topic["Partitions"]
    ]
    return " ".join(["share-alter " + error_text(stage, body), *sorted(rows)])


def show_delete_offsets(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    rows = [_deleted(stage, topic) for topic in body["Responses"]]
    return " ".join(["share-delete-offsets " + error_text(stage, body), *sorted(rows)])


def _deleted(stage: Stage, topic: dict[str, Any]) -> str:
    text = f"{stage.topic_label(topic['TopicName'])}={error_name(topic['ErrorCode'])}"
    return text + (message_text(stage, topic["ErrorMessage"]) if topic["ErrorCode"] else "")


SHOW: dict[str, Callable[[Stage, Actor, Reply], str]] = {
    "ShareGroupHeartbeat": show_heartbeat,
    "ShareGroupDescribe": show_describe,
    "DescribeShareGroupOffsets": show_offsets,
    "AlterShareGroupOffsets": show_alter,
    "DeleteShareGroupOffsets": show_delete_offsets,
}
