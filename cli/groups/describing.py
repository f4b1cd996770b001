"""`muster groups describe`: groups of the classic and of the consumer protocol (KIP-848)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from muster.cli.groups.described import Description, Member, NoGroup
from muster.cli.groups.listing import all_groups
from muster.cli.output import say, say_sentence, terminal_width
from muster.cli.table import print_json, print_table, ranges, table_width
from muster.client.connection import AskingFailed, Connection, sentence
from muster.client.kafka_client import Cluster
from muster.coordinator.history.words import short
from muster.protocol.api import ApiKey
from muster.protocol.consumer import decode_assignment
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest

PROTOCOLS: Final = {0: "classic", 1: "consumer"}
"""The names of the member types in ConsumerGroupDescribe."""
AWAY: Final = -2
SAME: Final = "="
"""In the column of targets: the member has its target assignment."""


def describe(cluster: Cluster, group_ids: Sequence[str] | None, *, as_json: bool) -> int:
    """Print each group, None: every group; exit status 1 when one of them does not exist."""
    # imported here: other commands describe groups without a verdict
    from muster.cli.groups.verdicts import verdict_of

    names = [one.group_id for one in all_groups(cluster)] if group_ids is None else group_ids
    status = 0
    if not names:
        say("there are no groups", sys.stderr)
    for number, group_id in enumerate(dict.fromkeys(names)):
        try:
            found = describe_group(cluster, group_id)
        except AskingFailed as failure:
            say(f"muster groups describe: {failure}", sys.stderr)
            status = 1
            continue
        judged = verdict_of(cluster, group_id)
        if as_json:
            told = None if judged is None else {"level": judged.level, "text": judged.text}
            print_json(found._asdict() | {"members": [one._asdict() for one in found.members], "verdict": told})
        else:
            if number:
                say("")
            print_group(found, None if judged is None else judged.text)
    return status


def describe_group(cluster: Cluster, group_id: str) -> Description:
    """The description of one group. Raises AskingFailed, also when the group does not exist."""
    found = find_group(cluster, group_id)
    if found is None:
        raise NoGroup(group_id)
    return found


def find_group(cluster: Cluster, group_id: str) -> Description | None:
    """The description of one group of any type; None if it does not exist. Raises AskingFailed."""
    request = DescribeGroupsRequest([group_id])
    node, answer = cluster.ask_coordinator(
        group_id, ApiKey.DESCRIBE_GROUPS, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not row.error_code and row.group_state == "Dead"):
        return _of_another_type(node, group_id, row)
    if row.error_code:
        raise AskingFailed(f"group {group_id} cannot be described: {sentence(row.error_code, row.error_message)}")
    members = [
        Member(one.member_id, one.group_instance_id, one.client_id, one.client_host,
               _assignment(row.protocol_type, one.member_assignment))
        for one in row.members
    ]  # fmt: skip
    return Description(group_id, "classic", row.group_state, row.protocol_type, row.protocol_data, None, None, members)


def _of_another_type(node: Connection, group_id: str, classic: Any) -> Description | None:
    """A group that DescribeGroups does not know, with the answer `classic`; None if it does not exist. Raises
    AskingFailed.
    """
    if node.speaks(ApiKey.CONSUMER_GROUP_DESCRIBE):
        found = _consumer_group(node, group_id)
        if found is not None:
            return found
    if node.speaks(ApiKey.SHARE_GROUP_DESCRIBE) or node.speaks(ApiKey.STREAMS_GROUP_DESCRIBE):
        # imported here: few clusters have such groups
        from muster.cli.groups.other_types import share_group, streams_group

        found = share_group(node, group_id) or streams_group(node, group_id)
        if found is not None:
            return found
    if classic.error_message and "not a classic group" in classic.error_message:
        raise AskingFailed(f"{classic.error_message.rstrip('.')}: muster groups list shows its type and state")
    return None


def _consumer_group(node: Connection, group_id: str) -> Description | None:
    (row,) = node.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group_id])).groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if row.error_code:
        raise AskingFailed(f"group {group_id} cannot be described: {sentence(row.error_code, row.error_message)}")
    members = [
        Member(one.member_id, one.instance_id, one.client_id, one.client_host, _by_topic(one.assignment),
               PROTOCOLS.get(one.member_type), one.member_epoch, _by_topic(one.target_assignment),
               list(one.subscribed_topic_names), one.subscribed_topic_regex)
        for one in row.members
    ]  # fmt: skip
    return Description(group_id, "consumer", row.group_state, "consumer", row.assignor_name, row.group_epoch,
                       row.assignment_epoch, members)  # fmt: skip


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    return {topic.topic_name: sorted(topic.partitions) for topic in assignment.topic_partitions}


def _assignment(protocol_type: str, data: bytes) -> dict[str, list[int]] | None:
    if protocol_type != "consumer" or not data:
        return None if data else {}
    try:
        return {one.topic: list(one.partitions) for one in decode_assignment(data)[1].assigned_partitions}
    except MalformedMessage:
        return None


def print_group(found: Description, verdict: str | None) -> None:
    """Print one group, with the verdict before the members. On a terminal, lines are made to fit if possible."""
    about: list[Any] = [f"type {found.type}", f"protocol type {found.protocol_type}" if found.protocol_type else "",
                        found.protocol, f"epoch {found.epoch}" if found.epoch is not None else ""]  # fmt: skip
    known = ", ".join(one for one in about if one)
    count = len(found.members)
    say(f"group {found.group}: {found.state}, {count} member{'' if count == 1 else 's'} ({known})")
    if verdict is not None:
        say_sentence(f"verdict: {verdict}")
    if not found.members:
        return
    head, rows = _members_table(found)
    wide = terminal_width()
    if wide is not None and table_width(head, rows) > wide:
        rows = [(short(str(row[0])), *row[1:]) for row in rows]
    print_table(head, rows)
    for line in what_is_awaited(found):
        say_sentence(line)


def _members_table(found: Description) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """The heads of the table, and a row for each member."""
    members = sorted(found.members, key=lambda one: one.member)
    rows: list[tuple[object, ...]] = [
        (one.member, one.instance, one.client_id, one.host.lstrip("/"), _partitions(one.assignment)) for one in members
    ]
    head: tuple[str, ...] = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
    if found.epoch is None:
        return head, rows
    for number, one in enumerate(members):
        target = SAME if one.target == one.assignment else None if one.target is None else _partitions(one.target)
        rows[number] = (*rows[number][:4], one.protocol, one.epoch, rows[number][4], target)
    # the members of a Streams application have tasks: SUBTOPOLOGY:PARTITION
    has = "TASKS" if found.type == "streams" else "PARTITIONS"
    return (*head[:4], "PROTOCOL", "EPOCH", has, "TARGET"), rows


def what_is_awaited(found: Description) -> list[str]:
    """Why a consumer group is not Stable, in sentences: which member has partitions that another member is to have."""
    if found.epoch is None or found.assignment_epoch is None:
        return []
    told = []
    if found.assignment_epoch < found.epoch:
        heartbeat = f"{found.type.capitalize()}GroupHeartbeat"
        when = f"the next {heartbeat} brings them, or one a second later"
        told.append(f"the targets of epoch {found.epoch} are not there yet: {when}")
    members = sorted(found.members, key=lambda one: one.member)
    holders = {
        (topic, number): one
        for one in members
        for topic, numbers in (one.assignment or {}).items()
        for number in numbers
    }
    for one in members:
        if one.epoch == AWAY:
            kept = _partitions(one.assignment) or "nothing"
            told.append(f"{one.member} says that it will be back: it keeps {kept} until its session is over")
        waits: dict[str, dict[str, list[int]]] = {}
        for topic, numbers in (one.target or {}).items():
            for number in numbers:
                holder = holders.get((topic, number))
                if holder is not one:
                    name = "" if holder is None else holder.member
                    waits.setdefault(name, {}).setdefault(topic, []).append(number)
        for name, partitions in sorted(waits.items()):
            what = _partitions(partitions)
            if not name:
                told.append(f"{one.member} gets {what} with its next heartbeat")
            elif next(holder.epoch for holder in members if holder.member == name) == AWAY:
                told.append(f"{one.member} waits for {what} of {name}, which is away")
            else:
                told.append(f"{one.member} waits for {what} of {name}, which is to give it up")
    return told


def _partitions(assignment: dict[str, list[int]] | None) -> str:
    if assignment is None:
        return "(not partitions)"
    return " ".join(f"{topic}:{ranges(assignment[topic])}" for topic in sorted(assignment))
