"""The text of each reply in a story (body -> text), and what an actor remembers."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable

from muster.conform.player import kafka_codec as codec
from muster.conform.player import showing_share_records, showing_shares, showing_streams, showing_transactions
from muster.conform.player.fields import learn, text_of_answer
from muster.conform.player.showing_groups import by_id, epochs_text, members_text, message_text, shown_groups
from muster.conform.player.stage import RANDOM, Actor, Stage, assignment_text, bytes_text, error_name, named, repr_text
from muster.conform.player.story import Body, Reply


def bits(number: int) -> str:
    """The bits that are set, lowest first: 3,6 is 1 << 3 | 1 << 6."""
    return ",".join(str(bit) for bit in range(31) if number >> bit & 1)


def topic_rows(stage: Stage, topics: Iterable[Body], text: Callable[[Body], str]) -> list[str]:
    """A row for each partition, by the names of the topics, also where the answer has topic ids (v10)."""
    rows = [
        (stage.topic_label(topic["Name"] or "") or stage.topic_name(topic["TopicId"]), row["PartitionIndex"], text(row))
        for topic in topics
        for row in topic["Partitions"]
    ]
    return [f"{t}/{p}={x}" for t, p, x in sorted(rows)]


def plain_id(member_id: str) -> str:
    """The shape of an id."""
    if re.fullmatch("[A-Za-z0-9_-]{22}", member_id):
        return "<base64>"
    return RANDOM.sub("<uuid>", member_id)


def show_join(stage: Stage, actor: Actor, reply: Reply) -> str:
    body, request = reply.body, reply.request
    ok = body["ErrorCode"] == 0
    out = "join " + error_name(body["ErrorCode"])
    if ok or body["GenerationId"] != -1:
        out += named(generation=body["GenerationId"])
    if ok:
        out += named(protocol=repr_text(body["ProtocolName"]), leader=stage.label(body["Leader"]))
        if reply.version >= 7 and body["ProtocolType"] != request["ProtocolType"]:
            out += named(type=repr_text(body["ProtocolType"]))
    else:
        usual = None if reply.version >= 7 else ""
        if body["ProtocolName"] != usual:
            out += named(protocol=repr_text(body["ProtocolName"]))
        if body["ProtocolType"] is not None:
            out += named(type=repr_text(body["ProtocolType"]))
        if body["Leader"]:
            out += named(leader=stage.label(body["Leader"]))
    if body["SkipAssignment"]:
        out += " skip-assignment"
    if reply.new_id:
        out += named(member=stage.label(body["MemberId"]), id=plain_id(body["MemberId"]))
    elif body["MemberId"] != request["MemberId"]:
        out += named(member=stage.label(body["MemberId"]))
    if body["Members"]:
        members = []
        for m in body["Members"]:
            text = stage.label(m["MemberId"])
            if m["GroupInstanceId"] is not None:
                text += f"({m['GroupInstanceId']})"
            if m["Metadata"]:
                text += ":" + bytes_text(m["Metadata"])
            members.append(text)
        out += " members=[" + " ".join(sorted(members)) + "]"
    return out


def show_sync(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    out = "sync " + error_name(body["ErrorCode"])
    ok = body["ErrorCode"] == 0
    if ok or body["Assignment"]:
        out += named(assignment=stage.plain(assignment_text(body["Assignment"])))
    if reply.version >= 5:
        asked = (reply.request["ProtocolType"], reply.request["ProtocolName"]) if ok else (None, None)
        if body["ProtocolType"] != asked[0]:
            out += named(type=repr_text(body["ProtocolType"]))
        if body["ProtocolName"] != asked[1]:
            out += named(protocol=repr_text(body["ProtocolName"]))
    return out


def show_heartbeat(stage: Stage, actor: Actor, reply: Reply) -> str:
    return "heartbeat " + error_name(reply.body["ErrorCode"])


def show_leave(stage: Stage, actor: Actor, reply: Reply) -> str:
    out = "leave " + error_name(reply.body["ErrorCode"])
    asked = reply.request.get("Members", [])
    rows = []
    for m in reply.body["Members"] or []:
        text = stage.label(m["MemberId"]) + (f"({m['GroupInstanceId']})" if m["GroupInstanceId"] is not None else "")
        rows.append(f"{text}={error_name(m['ErrorCode'])}")
    alone = (
        len(rows) == 1
        and len(asked) == 1
        and rows[0].endswith("=ok")
        and all(reply.body["Members"][0][k] == asked[0][k] for k in ("MemberId", "GroupInstanceId"))
    )
    return out if alone else " ".join([out, *rows])


def show_commit(stage: Stage, actor: Actor, reply: Reply) -> str:
    return " ".join(["commit", *topic_rows(stage, reply.body["Topics"], lambda p: error_name(p["ErrorCode"]))])


def fetched(p: Body) -> str:
    if p["ErrorCode"]:
        return error_name(p["ErrorCode"]) + ("" if p["CommittedOffset"] == -1 else f"({p['CommittedOffset']})")
    text = str(p["CommittedOffset"])
    if p["CommittedLeaderEpoch"] != -1:
        text += f"@{p['CommittedLeaderEpoch']}"
    if p["Metadata"] is None:
        text += ":null"
    elif p["Metadata"]:
        text += ":" + bytes_text(p["Metadata"].encode())
    return text


def show_fetch(stage: Stage, actor: Actor, reply: Reply) -> str:
    if reply.version < 8:
        return " ".join(
            [
                "fetch",
                error_name(reply.body["ErrorCode"]),
                *topic_rows(stage, reply.body["Topics"], fetched),
            ]
        )
    groups = reply.body["Groups"]
    parts = []
    for g in groups:
        rows = [error_name(g["ErrorCode"]), *topic_rows(stage, g["Topics"], fetched)]
        parts.append(" ".join(rows) if len(groups) == 1 else f"{stage.group_name(g['GroupId'])}({' '.join(rows)})")
    return " ".join(["fetch", *parts])


def show_offset_delete(stage: Stage, actor: Actor, reply: Reply) -> str:
    return " ".join(
        [
            "offset-delete",
            error_name(reply.body["ErrorCode"]),
            *topic_rows(stage, reply.body["Topics"], lambda p: error_name(p["ErrorCode"])),
        ]
    )


def show_delete(stage: Stage, actor: Actor, reply: Reply) -> str:
    return " ".join(
        [
            "delete",
            *sorted(f"{stage.group_name(r['GroupId'])}={error_name(r['ErrorCode'])}" for r in reply.body["Results"]),
        ]
    )


def show_describe(stage: Stage, actor: Actor, reply: Reply) -> str:
    rows = []
    for g in sorted(reply.body["Groups"], key=lambda group: group["GroupId"]):
        out = "" if len(reply.body["Groups"]) == 1 else stage.group_name(g["GroupId"]) + ": "
        out += error_name(g["ErrorCode"]) + named(state=repr_text(g["GroupState"]))
        if g["ErrorMessage"] is not None:
            out += named(
                message=json.dumps(g["ErrorMessage"].replace(stage.suffix, "") if stage.suffix else g["ErrorMessage"])
            )
        if g["ProtocolType"]:
            out += named(type=g["ProtocolType"])
        if g["ProtocolData"]:
            out += named(protocol=g["ProtocolData"])
        members = []
        for m in g["Members"]:
            label = stage.label(m["MemberId"])
            text = label + (f"({m['GroupInstanceId']})" if m["GroupInstanceId"] is not None else "")
            if m["ClientId"] != label.partition("#")[0]:
                text += f" client={repr_text(m['ClientId'])}"
            if m["ClientHost"] != "/127.0.0.1":
                text += f" host={m['ClientHost']}"
            if m["MemberMetadata"]:
                text += " metadata=" + bytes_text(m["MemberMetadata"])
            if m["MemberAssignment"]:
                text += " assignment=" + stage.plain(assignment_text(m["MemberAssignment"]))
            members.append(text)
        if members:
            out += " members=[" + ", ".join(sorted(members)) + "]"
        if g["AuthorizedOperations"] != -(2**31):
            out += named(operations=bits(g["AuthorizedOperations"]))
        rows.append(out)
    return "describe " + "; ".join(rows)


def show_list(stage: Stage, actor: Actor, reply: Reply) -> str:
    rows = []
    for g in reply.body["Groups"]:
        if stage.suffix and not g["GroupId"].endswith(stage.suffix):
            continue
        facts = [repr_text(g["ProtocolType"])] + [g[k] for k in ("GroupState", "GroupType") if g[k]]
        rows.append(f"{stage.group_name(g['GroupId'])}({','.join(facts)})")
    return " ".join(["list", error_name(reply.body["ErrorCode"]), *sorted(rows)])


def show_find(stage: Stage, actor: Actor, reply: Reply) -> str:
    def where(row: Body) -> str:
        if row["ErrorCode"]:
            text = error_name(row["ErrorCode"])
            if (row["NodeId"], row["Host"], row["Port"]) != (-1, "", -1):
                text += f"@{row['NodeId']},{row['Host']},{row['Port']}"
            return text + ("" if not row["ErrorMessage"] else "+message")
        return "found" + ("" if not row["ErrorMessage"] else f"+message({row['ErrorMessage']})")

    if reply.version < 4:
        return "find " + where(reply.body)
    return " ".join(["find", *(f"{stage.group_name(row['Key'])}={where(row)}" for row in reply.body["Coordinators"])])


def consumer_partitions(stage: Stage, assignment: Body) -> str:
    rows = [
        f"{stage.topic_label(t.get('TopicName') or '') or stage.topic_name(t['TopicId'])}/"
        + "+".join(str(p) for p in sorted(t["Partitions"]))
        for t in assignment["TopicPartitions"]
    ]
    return "[" + " ".join(sorted(rows)) + "]"


def show_consumer_heartbeat(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    out = "consumer-heartbeat " + error_name(body["ErrorCode"])
    if body["ErrorCode"]:
        if body["MemberId"] is not None:
            out += named(member=stage.label(body["MemberId"]))
        out += named(epoch=body["MemberEpoch"]) if body["MemberEpoch"] else ""
        return out + message_text(stage, body["ErrorMessage"])
    if body["MemberId"] != reply.request["MemberId"]:
        out += named(member=stage.label(body["MemberId"]))
    out += named(epoch=body["MemberEpoch"])
    if body["Assignment"] is not None:
        out += named(assignment=consumer_partitions(stage, body["Assignment"]))
    return out


def show_consumer_describe(stage: Stage, actor: Actor, reply: Reply) -> str:
    return "consumer-describe " + shown_groups(stage, by_id(reply.body["Groups"]), _consumer_group)


def _consumer_group(stage: Stage, group: Body) -> str:
    return epochs_text(group) + members_text(stage, group, _consumer_member)


def _consumer_member(stage: Stage, member: Body) -> str:
    text = stage.label(member["MemberId"]) + (f"({member['InstanceId']})" if member["InstanceId"] is not None else "")
    text += " classic" if member["MemberType"] == 0 else ""
    text += named(rack=member["RackId"])
    topics = "+".join(sorted(map(stage.topic_label, member["SubscribedTopicNames"] or [])))
    text += f" epoch={member['MemberEpoch']} topics={topics}"
    text += named(regex=stage.plain(member["SubscribedTopicRegex"]) if member["SubscribedTopicRegex"] else None)
    text += f" assignment={consumer_partitions(stage, member['Assignment'])}"
    return text + f" target={consumer_partitions(stage, member['TargetAssignment'])}"


SHOW: dict[str, Callable[[Stage, Actor, Reply], str]] = {
    "JoinGroup": show_join,
    "SyncGroup": show_sync,
    "Heartbeat": show_heartbeat,
    "LeaveGroup": show_leave,
    "OffsetCommit": show_commit,
    "OffsetFetch": show_fetch,
    "OffsetDelete": show_offset_delete,
    "DeleteGroups": show_delete,
    "DescribeGroups": show_describe,
    "ListGroups": show_list,
    "FindCoordinator": show_find,
    "ConsumerGroupHeartbeat": show_consumer_heartbeat,
    "ConsumerGroupDescribe": show_consumer_describe,
    **showing_shares.SHOW,
    **showing_share_records.SHOW,
    **showing_streams.SHOW,
    **showing_transactions.SHOW,
}


def assignment_of(stage: Stage, raw: bytes) -> dict[str, list[int]]:
    """The partitions of a classic member's assignment; nothing when it is no consumer's assignment."""
    try:
        rows = codec.decode("ConsumerProtocolAssignment", 0, raw, 2)["AssignedPartitions"]
    except (ValueError, IndexError, struct.error):
        return {}
    return dict(sorted((stage.topic_label(row["Topic"]), sorted(row["Partitions"])) for row in rows))


def absorb(stage: Stage, reply: Reply) -> None:
    """Remember what a client would remember of a reply."""
    actor, body = stage.actor(reply.actor), reply.body
    if id(reply.request) in stage.shown_by_field:
        learn(stage, body)
    elif reply.api == "JoinGroup":
        reply.new_id = body["MemberId"] != reply.request["MemberId"] and stage.learn(actor, body["MemberId"])
        if body["ErrorCode"] in (0, 79) and body["MemberId"]:
            actor.member = body["MemberId"]
        if body["ErrorCode"] == 0:
            actor.generation, actor.protocol = body["GenerationId"], body["ProtocolName"]
    elif reply.api == "ConsumerGroupHeartbeat" and body["ErrorCode"] == 0:
        stage.learn(actor, body["MemberId"])
        actor.member = body["MemberId"] or actor.member
        actor.epoch = body["MemberEpoch"]
        if body["Assignment"] is not None:
            rows = body["Assignment"]["TopicPartitions"]
            assigned = {stage.topic_name(row["TopicId"]): sorted(row["Partitions"]) for row in rows}
            actor.assigned = dict(sorted(assigned.items()))  # rows come in the order of a hash map
    elif reply.api == "SyncGroup" and body["ErrorCode"] == 0:
        actor.assigned = assignment_of(stage, body["Assignment"])
    else:
        showing_shares.absorb(stage, actor, reply)
        showing_share_records.absorb(stage, actor, reply)
        showing_streams.absorb(stage, actor, reply)
        showing_transactions.absorb(stage, actor, reply)
    if body.get("ThrottleTimeMs"):
        raise ValueError(f"throttled: {body}")


def text_of(stage: Stage, reply: Reply) -> str:
    """The text of a reply: by its request word, or field by field."""
    if id(reply.request) in stage.shown_by_field:
        return f"{reply.api} {text_of_answer(stage, reply.api, reply.version, reply.body)}"
    return SHOW[reply.api](stage, stage.actor(reply.actor), reply)


def shown(stage: Stage, reply: Reply) -> str:
    """The outcome line of a reply, which is kept with it."""
    reply.line = f"    {reply.actor} <- {stage.without_prefix(text_of(stage, reply))}"
    return reply.line


def say(stage: Stage, replies: Iterable[Reply]) -> list[str]:
    for reply in replies:
        absorb(stage, reply)
    order = list(stage.actors)
    asked = {
        id(body): i for i, body in enumerate(stage.sent)
    }  # two replies to one actor, on two connections, may overtake each other
    lines = [
        (
            (order.index(r.actor), asked.get(id(r.request), 0)),
            shown(stage, r),
        )
        for r in replies
    ]
    return [line for _, line in sorted(lines, key=lambda pair: pair[0])]
