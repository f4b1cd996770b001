"""What each command of a story asks for: text -> (api, version, body)."""

from __future__ import annotations

import re
from collections.abc import Callable

from muster.conform.player.fields import message_of
from muster.conform.player.kafka_codec import highest
from muster.conform.player.stage import Actor, Stage, by_topic, bytes_of, null_or, pairs, stretched, subscription
from muster.conform.player.story import Body

Asked = tuple[str, int, Body]
Verb = Callable[[Stage, Actor, dict[str, str], list[str]], Asked]
VERBS: dict[str, Verb] = {}
"""The words of requests. Each `asking_*` module adds some, and imports another one: `asking_streams` has all."""


def verb(name: str) -> Callable[[Verb], Verb]:
    def register(function: Verb) -> Verb:
        VERBS[name] = function
        return function

    return register


@verb("ask")
def ask(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    """ask API v3 Field=value ...: any API; its answer is shown field by field."""
    api, text = rest
    body = message_of(stage, api, text)
    stage.shown_by_field.add(id(body))
    return api, highest(api), body


KEEP = ("client", "type", "protocols", "session", "rebalance", "instance", "topics")


@verb("join")
def join(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    for key in KEEP:
        if key in args:
            actor.settings[key] = args[key]
            if key == "topics":
                actor.settings["protocols"] = args.get("protocols", "range")
    metadata = _subscription(stage, actor, args)
    return (
        "JoinGroup",
        9,
        {
            "GroupId": stage.group_of(args),
            "SessionTimeoutMs": int(actor.settings["session"]),
            "RebalanceTimeoutMs": int(actor.settings["rebalance"]),
            "MemberId": stage.member(actor, args.get("member")),
            "GroupInstanceId": null_or(actor.settings["instance"]),
            "ProtocolType": "" if actor.settings["type"] == "none" else actor.settings["type"],
            "Protocols": [
                {"Name": name, "Metadata": stage.bytes_of(meta) if meta else metadata}
                for name, meta in pairs(actor.settings["protocols"])
            ],
            "Reason": null_or(args.get("reason")),
        },
    )


def _subscription(stage: Stage, actor: Actor, args: dict[str, str]) -> bytes:
    """A subscription to the actor's topics. owned=mine: with its own partitions; subscription=3 rack=r: of this
    version.
    """
    owned, version = args.get("owned"), int(args.get("subscription", 1))
    names = null_or(actor.settings["topics"])
    if names is None:
        return b""
    topics = [stage.topic(name) for name in names.split(",")]
    if owned is None and version == 1:
        return bytes_of("sub(" + "+".join(topics) + ")")
    has = {stage.topic(name): its for name, its in partitions_of(actor, owned or "none").items()}
    return subscription(topics, has, version, args.get("rack"))


def partitions_of(actor: Actor, text: str) -> dict[str, list[int]]:
    """t1/0+1,t2/0; none; mine: what the actor was last assigned, mine-1: less the last of it, mine,t1/2: and more."""
    rows: dict[str, list[int]] = {}
    for item in text.split(","):
        topic, _, indexes = item.partition("/")
        if topic.startswith("mine"):
            rows |= {name: list(its) for name, its in actor.assigned.items()}
            if topic == "mine-1" and rows:
                rows[max(rows)].pop()
        elif topic != "none":
            rows[topic] = [*rows.get(topic, ()), *(int(i) for i in indexes.split("+"))]
    return rows


def subscribed(stage: Stage, args: dict[str, str]) -> list[str] | None:
    """The topics of a heartbeat. None means that the heartbeat has no `topics=`, and `none` means an empty list."""
    return [stage.topic(name) for name in args["topics"].split(",") if name != "none"] if "topics" in args else None


def _sender(stage: Stage, actor: Actor, args: dict[str, str], generation: str = "GenerationId") -> Body:
    """The member that sends a request. `generation` is the field of its generation."""
    return {
        "GroupId": stage.group_of(args),
        generation: stage.generation(actor, args.get("generation"), actor.generation),
        "MemberId": stage.member(actor, args.get("member")),
        "GroupInstanceId": null_or(args.get("instance", actor.settings["instance"])),
    }


@verb("sync")
def sync(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return (
        "SyncGroup",
        5,
        {
            **_sender(stage, actor, args),
            "ProtocolType": null_or(args.get("type", actor.settings["type"])),
            "ProtocolName": null_or(args.get("protocol", actor.protocol or "range")),
            "Assignments": [
                {"MemberId": stage.member(actor, who), "Assignment": stage.bytes_of(stretched(what))}
                for who, what in (
                    item.split(":", 1) if not item.startswith("id:") else item.rsplit(":", 1)
                    for item in args.get("assign", "").split(",")
                    if item
                )
            ],
        },
    )


@verb("heartbeat")
def heartbeat(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return "Heartbeat", 4, _sender(stage, actor, args)


@verb("leave")
def leave(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    """leave: itself. leave B C(i1) none(i2): each by member label and, in brackets, instance id; reason= for all."""
    members = []
    reason = {"Reason": null_or(args.get("reason"))}
    for item in rest:
        found = re.fullmatch(r"([^()]+)(?:\((.*)\))?", item)
        if found is None:
            raise ValueError(f"who leaves? {item}")
        members.append({"MemberId": stage.member(actor, found[1]), "GroupInstanceId": found[2], **reason})
    if not rest and args.pop("nobody", None) is None:
        members = [
            {
                "MemberId": stage.member(actor, args.get("member")),
                "GroupInstanceId": null_or(args.get("instance", actor.settings["instance"])),
                **reason,
            }
        ]
    body = {"GroupId": stage.group_of(args), "Members": members}
    if int(args.get("v", 5)) < 3:
        body = {"GroupId": body["GroupId"], "MemberId": members[0]["MemberId"]}
    return "LeaveGroup", 5, body


@verb("commit")
def commit(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    """commit t1/0=5 t1/1=6:note t1/2=7@3:note (the leader epoch 3)"""
    return (
        "OffsetCommit",
        9,
        {
            **_sender(stage, actor, args, "GenerationIdOrMemberEpoch"),
            "RetentionTimeMs": int(args.get("retention", -1)),
            "Topics": [
                {**topic, "TopicId": stage.topic_id(stage.topic_label(topic["Name"]))}
                for topic in commit_topics(stage, rest)
            ],
        },
    )


def commit_topics(stage: Stage, rest: list[str]) -> list[Body]:
    topics = []
    for topic, specs in by_topic(rest).items():
        partitions = []
        for spec in specs:
            index, _, value = spec.partition("=")
            position, _, metadata = value.partition(":")
            offset, _, epoch = position.partition("@")
            partitions.append(
                {
                    "PartitionIndex": int(index),
                    "CommittedOffset": int(offset),
                    "CommittedLeaderEpoch": int(epoch or -1),
                    "CommittedMetadata": None if metadata == "null" else stretched(metadata),
                }
            )
        topics.append({"Name": stage.topic(topic), "Partitions": partitions})
    return topics


@verb("fetch")
def fetch(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    """fetch t1/0 t1/1, or fetch all; groups=g,h for several (v8+); stable=yes"""
    topics = (
        None
        if rest == ["all"]
        else [
            {
                "Name": stage.topic(topic),
                "TopicId": stage.topic_id(topic),
                "PartitionIndexes": [int(i) for i in indexes],
            }
            for topic, indexes in by_topic(rest).items()
        ]
    )
    stable = args.get("stable") == "yes"
    version = int(args.get("v", 9))
    names = args.get("groups", args.get("group", stage.story.group)).split(",")
    if version < 8:
        named = topics and [{key: topic[key] for key in ("Name", "PartitionIndexes")} for topic in topics]
        return "OffsetFetch", 9, {"GroupId": stage.group(names[0]), "Topics": named, "RequireStable": stable}
    return (
        "OffsetFetch",
        9,
        {
            "RequireStable": stable,
            "Groups": [
                {
                    "GroupId": stage.group(name),
                    "Topics": topics,
                    "MemberId": stage.member(actor, args["member"]) if "member" in args else None,
                    "MemberEpoch": stage.generation(actor, args.get("epoch"), -1),
                }
                for name in names
            ],
        },
    )


@verb("offset-delete")
def offset_delete(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return (
        "OffsetDelete",
        0,
        {
            "GroupId": stage.group_of(args),
            "Topics": [
                {"Name": stage.topic(topic), "Partitions": [{"PartitionIndex": int(i)} for i in indexes]}
                for topic, indexes in by_topic(rest).items()
            ],
        },
    )


@verb("delete")
def delete(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return "DeleteGroups", 2, {"GroupsNames": stage.groups_of(rest)}


@verb("describe")
def describe(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    groups = stage.groups_of(rest)
    return "DescribeGroups", 6, {"Groups": groups, "IncludeAuthorizedOperations": args.get("operations") == "yes"}


@verb("list")
def list_groups(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return (
        "ListGroups",
        5,
        {
            "StatesFilter": [s for s in args.get("states", "").split(",") if s],
            "TypesFilter": [s for s in args.get("types", "").split(",") if s],
        },
    )


@verb("find")
def find(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    keys = [stage.group(name) for name in rest]
    if int(args.get("v", 6)) < 4:
        return "FindCoordinator", 6, {"Key": keys[0], "KeyType": int(args.get("type", 0))}
    return "FindCoordinator", 6, {"CoordinatorKeys": keys, "KeyType": int(args.get("type", 0))}


@verb("consumer-heartbeat")
def consumer_heartbeat(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    """KIP-848. `owned=none` is the empty list, `owned=mine` what the member was last assigned. `~` in a `regex=` is the
    suffix of the story's own topics.
    """
    owned = args.get("owned")
    partitions = None
    if owned is not None:
        partitions = [
            {"TopicId": stage.topic_id(topic), "Partitions": indexes}
            for topic, indexes in partitions_of(actor, owned).items()
        ]
    regex = null_or(args.get("regex"))
    if "instance" in args:
        actor.settings["instance"] = args["instance"]
    member = args.get("member")
    if member is None and not actor.member:
        actor.member = f"{actor.name}-{stage.draw()}"  # assignors sort by member id: here in the order of the names
        stage.learn(actor, actor.member)
    return (
        "ConsumerGroupHeartbeat",
        1,
        {
            "GroupId": stage.group_of(args),
            "MemberId": stage.member(actor, member),
            "MemberEpoch": stage.generation(actor, args.get("epoch"), actor.epoch),
            "InstanceId": null_or(actor.settings["instance"]),
            "RackId": null_or(args.get("rack")),
            "RebalanceTimeoutMs": int(args.get("rebalance", -1)),
            "SubscribedTopicNames": subscribed(stage, args),
            "SubscribedTopicRegex": None if regex is None else stage.pattern(regex),
            "ServerAssignor": null_or(args.get("assignor")),
            "TopicPartitions": partitions,
        },
    )


@verb("consumer-describe")
def consumer_describe(stage: Stage, actor: Actor, args: dict[str, str], rest: list[str]) -> Asked:
    return "ConsumerGroupDescribe", 1, {"GroupIds": stage.groups_of(rest)}
