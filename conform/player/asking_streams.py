"""What the commands about streams groups (KIP-1071) ask for: text -> (api, version, body)."""

from __future__ import annotations

from typing import Any

from muster.conform.player.asking import Asked, verb
from muster.conform.player.asking_share_records import VERBS
from muster.conform.player.asking_shares import Args, own_member
from muster.conform.player.stage import Actor, Stage, null_or

__all__ = ["VERBS"]

TOPOLOGIES = {
    "count": "0:t1>words 1:<words%counts",
    "plain": "0:t1",
    "own": "0:o",
    "own-state": "0:o%store",
    "own-count": "0:o>words 1:<words%counts",
    "own-pair": "0:o,t1%store&o,t1",
    "state": "0:t1%store",
    "pair": "0:t1,t2%joined&t1,t2",
    "two": "0:t1%a 1:t2%b",
    "wide": "0:t1,t3%store",
    "fixed": "0:t1>words 1:<words=5%counts",
    "joined": "0:t1>words 1:t3,<words%store&t3,words",
    "missing": "0:nope%store",
    "uneven": "0:t1,t3%store&t1,t3",
    "loop": "0:<words>words",
    "unfed": "0:t1 1:<words",
    "empty": "0:%store",
}
"""Topologies by name: subtopologies with their topics. `>` is a repartition topic that it writes, `<` one that it
reads. `=5` is a fixed count, `%` a changelog, `&` a copartition group.
"""


def topology(stage: Stage, text: str) -> dict[str, Any]:
    """The topology of this name, with `@1` behind it in another epoch."""
    name, _, epoch = text.partition("@")
    return {"Epoch": int(epoch or 0), "Subtopologies": [_subtopology(stage, one) for one in TOPOLOGIES[name].split()]}


def _subtopology(stage: Stage, text: str) -> dict[str, Any]:
    number, _, rest = text.partition(":")
    rest, *copartitioned = rest.split("&")
    rest, *changelogs = rest.split("%")
    rest, *sinks = rest.split(">")
    names = [name for name in rest.split(",") if name]
    sources = [name for name in names if name[0] != "<"]
    repartitions = [name[1:].partition("=") for name in names if name[0] == "<"]
    groups = []
    for group in copartitioned:
        wanted = group.split(",")
        groups.append(
            {
                "SourceTopics": [place for place, one in enumerate(sources) if one in wanted],
                "SourceTopicRegex": [],
                "RepartitionSourceTopics": [place for place, one in enumerate(repartitions) if one[0] in wanted],
            }
        )
    return {
        "SubtopologyId": number,
        "SourceTopics": [stage.topic(name) for name in sources],
        "SourceTopicRegex": [],
        "StateChangelogTopics": [
            _topic(stage, f"{name}-changelog", 0, [("cleanup.policy", "compact")]) for name in changelogs
        ],
        "RepartitionSinkTopics": [internal(stage, name) for name in sinks],
        "RepartitionSourceTopics": [_topic(stage, name, int(count or 0), []) for name, _, count in repartitions],
        "CopartitionGroups": groups,
    }


def _topic(stage: Stage, name: str, partitions: int, configs: list[tuple[str, str]]) -> dict[str, Any]:
    rows = [{"Key": key, "Value": value} for key, value in configs]
    return {"Name": internal(stage, name), "Partitions": partitions, "ReplicationFactor": 0, "TopicConfigs": rows}


def internal(stage: Stage, name: str) -> str:
    """The real name of an internal topic of the story's group."""
    return f"{stage.prefix}{stage.story.group}-{name}{stage.suffix.replace('~', '-')}"


def tasks(text: str | None) -> list[dict[str, Any]] | None:
    """0/1+2,1/0: partitions 1 and 2 of subtopology 0, and 0 of 1; none: no tasks; null: the field is null."""
    if text in (None, "null"):
        return None
    rows = [] if text == "none" else [one.partition("/") for one in str(text).split(",")]
    return [
        {"SubtopologyId": name, "Partitions": [int(one) for one in numbers.split("+")]} for name, _, numbers in rows
    ]


def _offsets(text: str | None) -> list[dict[str, Any]] | None:
    """0/1=50,0/2=7: sums of the offsets of tasks."""
    if text is None:
        return None
    rows = [one.replace("=", "/").split("/") for one in text.split(",")]
    return [{"SubtopologyId": name, "Partition": int(one), "Offset": int(offset)} for name, one, offset in rows]


@verb("streams-heartbeat")
def streams_heartbeat(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """By default the epoch is the actor's, and tasks are as last answered. Epoch 0 joins with `topology=plain`.
    `endpoints=` is the epoch of the endpoints.
    """
    epoch = stage.generation(actor, args.get("epoch"), actor.epoch)
    is_joining = epoch == 0
    sent = args.get("topology", "plain" if is_joining else "null")
    kinds = {}
    for kind in ("active", "standby", "warmup"):
        text = args.get(kind) or ("none" if is_joining else actor.settings.get(kind, "none"))
        kinds[f"{kind.capitalize()}Tasks"] = tasks(text)
    host, _, port = args.get("endpoint", "").partition(":")
    tags = [one.partition(":") for one in args["tags"].split("+")] if "tags" in args else None
    return (
        "StreamsGroupHeartbeat",
        int(args.get("v", 1)),
        {
            "GroupId": stage.group_of(args),
            "MemberId": own_member(stage, actor, args.get("member")),
            "MemberEpoch": epoch,
            "EndpointInformationEpoch": int(args.get("endpoints", 0)),
            "InstanceId": null_or(args.get("instance", actor.settings["instance"])),
            "RackId": null_or(args.get("rack")),
            "RebalanceTimeoutMs": int(args.get("rebalance", 10_000 if is_joining else -1)),
            "Topology": None if sent == "null" else topology(stage, sent),
            **kinds,
            "ProcessId": args.get("process", actor.name if is_joining else None),
            "UserEndpoint": {"Host": host, "Port": int(port)} if host else None,
            "ClientTags": None if tags is None else [{"Key": key, "Value": value} for key, _, value in tags],
            "TaskOffsets": _offsets(args.get("offsets")),
            "TaskEndOffsets": _offsets(args.get("ends")),
            "ShutdownApplication": "shutdown" in rest,
        },
    )


@verb("streams-describe")
def streams_describe(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """streams-describe g h: these groups; the story's without a name. description=yes: with the topology's text"""
    return (
        "StreamsGroupDescribe",
        int(args.get("v", 1)),
        {
            "GroupIds": stage.groups_of(rest),
            "IncludeAuthorizedOperations": False,
            "IncludeTopologyDescription": "description" in args,
        },
    )
