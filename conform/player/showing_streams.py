"""The outcome lines of the commands about streams groups (KIP-1071)."""

from __future__ import annotations

import json
from collections.abc import Callable

from muster.conform.player.showing_groups import by_id, epochs_text, error_text, members_text, shown_groups
from muster.conform.player.stage import Actor, Stage, named
from muster.conform.player.story import Body, Reply

KINDS = ("Active", "Standby", "Warmup")
USUAL = {"HeartbeatIntervalMs": 5_000, "TaskOffsetIntervalMs": 60_000, "AcceptableRecoveryLag": 10_000}


def absorb(stage: Stage, actor: Actor, reply: Reply) -> None:
    """Remember the epoch and the tasks of a member."""
    if reply.api != "StreamsGroupHeartbeat" or reply.body["ErrorCode"]:
        return
    actor.member = reply.body["MemberId"] or actor.member
    actor.epoch = reply.body["MemberEpoch"]
    for kind in KINDS:
        rows = reply.body[f"{kind}Tasks"]
        if rows is not None:
            actor.settings[kind.lower()] = tasks(rows) or "none"


def tasks(rows: list[Body]) -> str:
    """0/1+2,1/0: partitions 1 and 2 of subtopology 0, and 0 of 1."""
    return ",".join(f"{row['SubtopologyId']}/{'+'.join(map(str, row['Partitions']))}" for row in rows)


def _kinds(body: Body) -> str:
    """The tasks of each kind, and nothing of kinds without tasks."""
    return named(**{kind.lower(): tasks(body[f"{kind}Tasks"]) or None for kind in KINDS if body[f"{kind}Tasks"]})


def show_heartbeat(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    if body["ErrorCode"]:
        return "streams-heartbeat " + error_text(stage, body)
    out = "streams-heartbeat ok" + named(epoch=body["MemberEpoch"])
    if reply.request["MemberEpoch"] >= 0:
        for name, usual in USUAL.items():
            if body.get(name, usual) != usual:
                out += named(**{name: body[name]})
    if body["ActiveTasks"] is not None:
        out += " tasks" + (_kinds(body) or " none")
    if body.get("EndpointInformationEpoch"):
        out += named(endpoints=body["EndpointInformationEpoch"])
    if body["PartitionsByUserEndpoint"] is not None:
        out += " [" + " ".join(sorted(_endpoint(stage, one) for one in body["PartitionsByUserEndpoint"])) + "]"
    for one in body["Status"] or ():
        out += f" status={one['StatusCode']}:" + json.dumps(_detail(stage.plain(one["StatusDetail"])))
    return out


def _detail(text: str) -> str:
    """The sentence of a status. Topics that are missing are sorted, as their hashes decide their order."""
    head, missing, names = text.partition("Internal topics are missing: ")
    return head + missing + ", ".join(sorted(names.split(", "))) if missing else text


def _endpoint(stage: Stage, row: Body) -> str:
    text = f"{row['UserEndpoint']['Host']}:{row['UserEndpoint']['Port']}"
    for kind in ("Active", "Standby"):
        partitions = sorted(
            f"{stage.plain(one['Topic'])}/{'+'.join(map(str, one['Partitions']))}" for one in row[f"{kind}Partitions"]
        )
        text += f",{kind.lower()}={'+'.join(partitions)}" if partitions else ""
    return text


def show_describe(stage: Stage, actor: Actor, reply: Reply) -> str:
    return "streams-describe " + shown_groups(stage, by_id(reply.body["Groups"]), _group)


def _group(stage: Stage, group: Body) -> str:
    topology = named(
        topology=_topology(stage, group["Topology"]), description=group.get("TopologyDescriptionStatus") or None
    )
    return epochs_text(group) + topology + members_text(stage, group, _member)


def _topology(stage: Stage, body: Body | None) -> str:
    if body is None:
        return "none"
    rows = []
    for row in body["Subtopologies"] or ():
        text = f"{row['SubtopologyId']}:{','.join(map(stage.topic_label, row['SourceTopics']))}"
        text += "".join(f">{stage.plain(name)}" for name in row["RepartitionSinkTopics"])
        text += "".join(f"<{_internal(stage, one)}" for one in row["RepartitionSourceTopics"])
        text += "".join(f"%{_internal(stage, one)}" for one in row["StateChangelogTopics"])
        rows.append(text)
    return f"{body['Epoch']}({' '.join(rows)})"


def _internal(stage: Stage, one: Body) -> str:
    configs = ",".join(f"{row['Key']}:{row['Value']}" for row in one["TopicConfigs"])
    text = f"{stage.plain(one['Name'])}={one['Partitions']}"
    return (
        text
        + (f"x{one['ReplicationFactor']}" if one["ReplicationFactor"] else "")
        + (f"({configs})" if configs else "")
    )


def _member(stage: Stage, member: Body) -> str:
    text = stage.label(member["MemberId"])
    text += named(instance=member["InstanceId"], rack=member["RackId"], process=member["ProcessId"])
    endpoint = member["UserEndpoint"]
    text += named(endpoint=None if endpoint is None else f"{endpoint['Host']}:{endpoint['Port']}")
    tags = "+".join(sorted(f"{one['Key']}:{one['Value']}" for one in member["ClientTags"]))
    text += named(tags=tags or None, epoch=member["MemberEpoch"], topology=member["TopologyEpoch"])
    text += (_kinds(member["Assignment"]) or " none") + " target" + (_kinds(member["TargetAssignment"]) or " none")
    for name in ("TaskOffsets", "TaskEndOffsets"):
        offsets = ",".join(f"{one['SubtopologyId']}/{one['Partition']}={one['Offset']}" for one in member[name])
        text += named(**{name: offsets or None})
    return text


SHOW: dict[str, Callable[[Stage, Actor, Reply], str]] = {
    "StreamsGroupHeartbeat": show_heartbeat,
    "StreamsGroupDescribe": show_describe,
}
