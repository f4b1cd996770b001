"""What the commands about share groups (KIP-932) ask for: text -> (api, version, body)."""

from __future__ import annotations

from typing import Any

from muster.conform.player.asking import Asked, subscribed, verb
from muster.conform.player.asking_transactions import VERBS
from muster.conform.player.stage import Actor, Stage, by_topic, null_or

__all__ = ["VERBS"]

Args = dict[str, str]


def own_member(stage: Stage, actor: Actor, text: str | None) -> str | None:
    """The member id of a request: `text`, or the actor's name at first."""
    if text is None and not actor.member:
        actor.member = actor.name  # the assignor orders members by the hashes of their ids: the same in each run
        stage.learn(actor, actor.member)
    return stage.member(actor, text)


@verb("share-heartbeat")
def share_heartbeat(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """epoch= (default: the actor's), topics= (none: the empty list), rack=, member="""
    return (
        "ShareGroupHeartbeat",
        1,
        {
            "GroupId": stage.group_of(args),
            "MemberId": own_member(stage, actor, args.get("member")),
            "MemberEpoch": stage.generation(actor, args.get("epoch"), actor.epoch),
            "RackId": null_or(args.get("rack")),
            "SubscribedTopicNames": subscribed(stage, args),
        },
    )


@verb("share-describe")
def share_describe(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    return "ShareGroupDescribe", 1, {"GroupIds": stage.groups_of(rest)}


@verb("share-offsets")
def share_offsets(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """share-offsets t1/0 t1/1: these partitions; share-offsets all: those with a state; groups=g,h"""
    topics: list[dict[str, Any]] | None = None
    if rest != ["all"]:
        topics = [
            {"TopicName": stage.topic(topic), "Partitions": [int(i) for i in indexes]}
            for topic, indexes in by_topic(rest).items()
        ]
    names = args.get("groups", stage.story.group).split(",")
    return "DescribeShareGroupOffsets", 1, {"Groups": [{"GroupId": stage.group(n), "Topics": topics} for n in names]}


@verb("share-alter")
def share_alter(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """share-alter t1/0=5 t1/1=7"""
    topics = []
    for topic, specs in by_topic(rest).items():
        pairs = [spec.partition("=") for spec in specs]
        rows = [{"PartitionIndex": int(index), "StartOffset": int(offset)} for index, _, offset in pairs]
        topics.append({"TopicName": stage.topic(topic), "Partitions": rows})
    return "AlterShareGroupOffsets", 0, {"GroupId": stage.group_of(args), "Topics": topics}


@verb("share-delete-offsets")
def share_delete_offsets(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """share-delete-offsets t1 t2"""
    topics = [{"TopicName": stage.topic(name)} for name in rest]
    return "DeleteShareGroupOffsets", 0, {"GroupId": stage.group_of(args), "Topics": topics}
