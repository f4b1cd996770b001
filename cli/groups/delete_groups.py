"""Removes groups, members and offsets; checks which groups a command may change. Only `--execute` changes anything."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.cli.groups import offsets
from muster.cli.groups.option_values import Chosen, check_group, check_groups, group_names, wanted_topics
from muster.cli.groups.read_groups import NoGroup, all_groups, find_group
from muster.cli.output import print_rows, say
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed, sentence
from muster.client.kafka_client import KafkaClient, Partition
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.http.described_groups import Description, Member
from muster.protocol.api import ApiKey
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

OF_CONSUMERS: Final = ("classic", "consumer", "")
"""The types of groups of consumers, as servers report them. An old server reports an empty type."""
TOOLS: Final = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
"""Kafka's tools for the other types of groups."""
INACTIVE: Final = ("Empty", "Dead")
REASON: Final = "member was removed by muster groups remove-member"
MEMBERS_AT_ONCE: Final = 1_000


def consumer_groups(client: KafkaClient) -> list[str]:
    """The names of all groups of consumers, as Kafka's `--all-groups` chooses them. Raises RequestFailed."""
    return [
        one.group_id
        for one in all_groups(client)
        if one.group_type.lower() in OF_CONSUMERS and one.protocol_type in ("consumer", "")
    ]


def find_consumer_group(client: KafkaClient, group_id: str, verb: str) -> Description | None:
    """Describe a group of consumers; None if it does not exist. Raises RequestFailed for a group of another type.

    `verb`: what cannot be done to such a group, for the error.
    """
    found = find_group(client, group_id)
    if found is None:
        return None
    if found.type not in OF_CONSUMERS:
        tool = TOOLS.get(found.type)
        advice = f"; {tool} of Apache Kafka is for them" if tool else ""
        raise RequestFailed(f"{group_id} is a {found.type} group: only groups of consumers can be {verb}{advice}")
    if found.protocol_type not in ("consumer", ""):
        raise RequestFailed(
            f"{group_id} is a group of the protocol type {found.protocol_type}: only groups of consumers can be {verb}"
        )
    return found


def check_inactive(client: KafkaClient, group_id: str) -> None:
    """Raise RequestFailed when the group has members: only offsets of inactive groups are reset, as in Kafka's tool."""
    found = find_consumer_group(client, group_id, "reset")
    if found is None:
        what = f"there is no group {group_id} yet: its first members will find these offsets"
        say(f"muster groups offsets reset: {what}", sys.stderr)
    elif found.state not in INACTIVE:
        raise RequestFailed(
            f"the offsets of group {group_id} can be reset only while it is inactive, and its state is {found.state}: "
            f"stop its {members(found)} first"
        )


def members(found: Description) -> str:
    """The number of a group's members, as words for a sentence."""
    count = len(found.members)
    return f"{count} member{'' if count == 1 else 's'}"


def say_nothing_changed(command: str) -> None:
    """Print that this was a dry run."""
    say(f"{command}: nothing was changed; give --execute to do it", sys.stderr)


def all_partitions(client: KafkaClient, chosen: Iterable[Chosen]) -> list[Partition]:
    """The partitions that `--topic` names. Raises RequestFailed when a topic or partition does not exist."""
    wanted = list(chosen)
    found: dict[Partition, None] = {}
    known = client.topics(sorted({one.topic for one in wanted}))
    for topic, partitions in wanted:
        if topic not in known:
            raise RequestFailed(f"--topic {topic}: {client.topic_error(topic)}")
        there = sorted(one.partition_index for one in known[topic].partitions)
        for number in there if partitions is None else partitions:
            if number not in there:
                raise RequestFailed(f"--topic {topic}:{number}: the partitions of {topic} are 0 to {len(there) - 1}")
            found[topic, number] = None
    return sorted(found)


@with_client(check_groups)
def run_delete_groups(client: KafkaClient, options: argparse.Namespace) -> int:
    """Delete the groups that the options name. A group with members is refused. Exit status 1: a group was refused."""
    group_ids, execute = group_names(options), options.execute
    names = consumer_groups(client) if group_ids is None else group_ids
    status = 0
    rows: list[tuple[str, str, str, bool]] = []
    for name in dict.fromkeys(names):
        try:
            found = find_group(client, name)
            if found is None:
                raise NoGroup(name)
            if found.state not in INACTIVE:
                raise RequestFailed(f"group {name} is not empty: its state is {found.state}; stop its {members(found)}")
            if execute:
                _delete(client, name)
        except RequestFailed as failure:
            say(f"muster groups delete: {failure}", sys.stderr)
            status = 1
            continue
        rows.append((name, found.type, found.state, execute))
    _print(("GROUP", "TYPE", "STATE", "DELETED"), rows, as_json=options.json)
    if rows and not execute:
        say_nothing_changed("muster groups delete")
    return status


def _delete(client: KafkaClient, name: str) -> None:
    _, answer = client.ask_coordinator(
        name,
        ApiKey.DELETE_GROUPS,
        DeleteGroupsRequest([name]),
        lambda answer: [one.error_code for one in answer.results],
    )
    (result,) = answer.results
    if result.error_code:
        raise RequestFailed(f"group {name} cannot be deleted: {sentence(result.error_code)}")


@with_client(check_group, wanted_topics)
def run_delete_offsets(client: KafkaClient, options: argparse.Namespace) -> int:
    """Delete a group's offsets in named topics, or in all. Brokers refuse topics that a member subscribes to."""
    command = "muster groups offsets delete"
    group_id, execute = options.group, options.execute
    if find_consumer_group(client, group_id, "changed") is None:
        raise NoGroup(group_id)
    there = offsets.fetch_committed(client, group_id)
    wanted = _committed_in(client, there, wanted_topics(options))
    if not wanted:
        raise RequestFailed(f"group {group_id} has no committed offset there")
    refused = offsets.delete(client, group_id, wanted) if execute else {}
    offsets.say_refused(command, group_id, "deleted", refused)
    rows = [(group_id, *one, there[one].offset, execute) for one in wanted if one not in refused]
    _print(("GROUP", "TOPIC", "PARTITION", "OFFSET", "DELETED"), rows, as_json=options.json)
    if not execute:
        say_nothing_changed(command)
    return 1 if refused else 0


def _committed_in(client: KafkaClient, there: Any, chosen: Sequence[Chosen] | None) -> list[tuple[str, int]]:
    if chosen is None:
        return list(there)
    gone = {topic for topic, _ in there} - set(client.topics(sorted({one.topic for one in chosen})))
    named = {
        place
        for place in there
        for one in chosen
        if one.topic in gone and place[0] == one.topic and (one.partitions is None or place[1] in one.partitions)
    }
    named |= set(all_partitions(client, [one for one in chosen if one.topic not in gone]))
    return [place for place in there if place in named]


def _check_members(options: argparse.Namespace) -> None:
    if bool(options.member_id or options.instance_id) == options.all_members:
        raise ConfigError("--member-id ID, --instance-id ID or --all-members was expected")


@with_client(check_group, _check_members)
def run_remove_members(client: KafkaClient, options: argparse.Namespace) -> int:
    """Remove members from a group, which then rebalances without them. Exit status 1: a removal was refused."""
    command = "muster groups remove-member"
    group_id, execute = options.group, options.execute
    found = find_consumer_group(client, group_id, "changed")
    if found is None:
        raise NoGroup(group_id)
    chosen = _chosen(found, options.member_id, options.instance_id, everyone=options.all_members)
    refused: dict[str, str] = {}
    for start in range(0, len(chosen) if execute else 0, MEMBERS_AT_ONCE):
        some = chosen[start : start + MEMBERS_AT_ONCE]
        # a static member may have a new member id by now, so it is removed by its instance id
        rows = [
            MemberIdentity("" if one.instance else one.member, one.instance, options.reason or REASON) for one in some
        ]
        request = LeaveGroupRequest(group_id, members=rows)
        _, answer = client.ask_coordinator(group_id, ApiKey.LEAVE_GROUP, request, lambda answer: [answer.error_code])
        if answer.error_code:
            raise RequestFailed(f"no member of {group_id} can be removed: {sentence(answer.error_code)}")
        for one, row in zip(some, answer.members, strict=True):
            if row.error_code:
                refused[one.member] = sentence(row.error_code)
    for name, why in refused.items():
        say(f"{command}: member {name} of {group_id} was not removed: {why}", sys.stderr)
    table = [
        (group_id, one.member, one.instance, one.client_id, execute) for one in chosen if one.member not in refused
    ]
    _print(("GROUP", "MEMBER", "INSTANCE", "CLIENT", "REMOVED"), table, as_json=options.json)
    if not execute:
        say_nothing_changed(command)
    return 1 if refused else 0


def _chosen(found: Description, ids: Sequence[str], instances: Sequence[str], *, everyone: bool) -> list[Member]:
    """The members with these member ids or instance ids. Raises RequestFailed for a name that no member has."""
    if everyone and not found.members:
        raise RequestFailed(f"group {found.group} has no members")
    by_id = {one.member: one for one in found.members}
    by_instance = {one.instance: one for one in found.members if one.instance}
    for kind, name, known in (
        *(("member", name, by_id) for name in ids),
        *(("group.instance.id", name, by_instance) for name in instances),
    ):
        if name not in known:
            raise RequestFailed(f"group {found.group} has no {kind} {name}: muster groups describe shows its members")
    named = {by_id[name].member for name in ids} | {by_instance[name].member for name in instances}
    return [one for one in sorted(found.members, key=lambda one: one.member) if everyone or one.member in named]


def _print(head: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool) -> None:
    """Print rows. The last cell of a row says whether the change was made."""
    cells = rows if as_json else [(*row[:-1], "yes" if row[-1] else "no") for row in rows]
    print_rows(head, cells, as_json=as_json)
