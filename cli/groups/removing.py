"""`muster groups delete`, `remove-member` and `offsets delete`: shown, or done with `--execute`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from muster.cli.groups import committed
from muster.cli.groups.changing import INACTIVE, consumer_groups, members, of_consumers, say_nothing_changed
from muster.cli.groups.described import Description, Member, NoGroup
from muster.cli.groups.describing import find_group
from muster.cli.groups.plans import Chosen
from muster.cli.groups.resetting import all_partitions
from muster.cli.output import say
from muster.cli.table import print_json, print_table
from muster.client.connection import AskingFailed, sentence
from muster.client.kafka_client import Cluster
from muster.protocol.api import ApiKey
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

REASON: Final = "member was removed by muster groups remove-member"
MEMBERS_AT_ONCE: Final = 1_000


def delete_groups(cluster: Cluster, group_ids: Sequence[str] | None, *, execute: bool, as_json: bool) -> int:
    """Delete groups without members, and their offsets; None: all groups of consumers. Exit status 1 when one was
    refused.
    """
    names = consumer_groups(cluster) if group_ids is None else group_ids
    status = 0
    rows: list[tuple[str, str, str, bool]] = []
    for name in dict.fromkeys(names):
        try:
            found = find_group(cluster, name)
            if found is None:
                raise NoGroup(name)
            if found.state not in INACTIVE:
                raise AskingFailed(f"group {name} is not empty: its state is {found.state}; stop its {members(found)}")
            if execute:
                _delete(cluster, name)
        except AskingFailed as failure:
            say(f"muster groups delete: {failure}", sys.stderr)
            status = 1
            continue
        rows.append((name, found.type, found.state, execute))
    _print(("GROUP", "TYPE", "STATE", "DELETED"), rows, as_json=as_json)
    if rows and not execute:
        say_nothing_changed("muster groups delete")
    return status


def _delete(cluster: Cluster, name: str) -> None:
    """Raises AskingFailed."""
    _, answer = cluster.ask_coordinator(
        name,
        ApiKey.DELETE_GROUPS,
        DeleteGroupsRequest([name]),
        lambda answer: [one.error_code for one in answer.results],
    )
    (result,) = answer.results
    if result.error_code:
        raise AskingFailed(f"group {name} cannot be deleted: {sentence(result.error_code)}")


def delete_offsets(
    cluster: Cluster, group_id: str, chosen: Sequence[Chosen] | None, *, execute: bool, as_json: bool
) -> int:
    """Delete committed offsets of a group, of topics without a subscribed member; None: of all topics."""
    command = "muster groups offsets delete"
    if of_consumers(cluster, group_id, "changed") is None:
        raise NoGroup(group_id)
    there = committed.fetch_committed(cluster, group_id)
    wanted = _committed_in(cluster, there, chosen)
    if not wanted:
        raise AskingFailed(f"group {group_id} has no committed offset there")
    refused = committed.delete(cluster, group_id, wanted) if execute else {}
    committed.say_refused(command, group_id, "deleted", refused)
    rows = [(group_id, *one, there[one].offset, execute) for one in wanted if one not in refused]
    _print(("GROUP", "TOPIC", "PARTITION", "OFFSET", "DELETED"), rows, as_json=as_json)
    if not execute:
        say_nothing_changed(command)
    return 1 if refused else 0


def _committed_in(cluster: Cluster, there: Any, chosen: Sequence[Chosen] | None) -> list[tuple[str, int]]:
    """The committed partitions of these topics, also of a topic that no longer exists."""
    if chosen is None:
        return list(there)
    gone = {topic for topic, _ in there} - set(cluster.topics(sorted({one.topic for one in chosen})))
    named = {
        place
        for place in there
        for one in chosen
        if one.topic in gone and place[0] == one.topic and (one.partitions is None or place[1] in one.partitions)
    }
    named |= set(all_partitions(cluster, [one for one in chosen if one.topic not in gone]))
    return [place for place in there if place in named]


def remove_members(
    cluster: Cluster,
    group_id: str,
    ids: Sequence[str],
    instances: Sequence[str],
    *,
    everyone: bool,
    reason: str | None,
    execute: bool,
    as_json: bool,
) -> int:
    """Remove members from a group, so that it rebalances without them; exit status 1 when one was refused."""
    command = "muster groups remove-member"
    found = of_consumers(cluster, group_id, "changed")
    if found is None:
        raise NoGroup(group_id)
    chosen = _chosen(found, ids, instances, everyone=everyone)
    refused: dict[str, str] = {}
    for start in range(0, len(chosen) if execute else 0, MEMBERS_AT_ONCE):
        some = chosen[start : start + MEMBERS_AT_ONCE]
        # a static member is removed by its instance id, as the admin clients do: it may have joined again meanwhile
        rows = [MemberIdentity("" if one.instance else one.member, one.instance, reason or REASON) for one in some]
        request = LeaveGroupRequest(group_id, members=rows)
        _, answer = cluster.ask_coordinator(group_id, ApiKey.LEAVE_GROUP, request, lambda answer: [answer.error_code])
        if answer.error_code:
            raise AskingFailed(f"no member of {group_id} can be removed: {sentence(answer.error_code)}")
        for one, row in zip(some, answer.members, strict=True):
            if row.error_code:
                refused[one.member] = sentence(row.error_code)
    for name, why in refused.items():
        say(f"{command}: member {name} of {group_id} was not removed: {why}", sys.stderr)
    table = [
        (group_id, one.member, one.instance, one.client_id, execute) for one in chosen if one.member not in refused
    ]
    _print(("GROUP", "MEMBER", "INSTANCE", "CLIENT", "REMOVED"), table, as_json=as_json)
    if not execute:
        say_nothing_changed(command)
    return 1 if refused else 0


def _chosen(found: Description, ids: Sequence[str], instances: Sequence[str], *, everyone: bool) -> list[Member]:
    """The named members. Raises AskingFailed for a name that no member has."""
    if everyone and not found.members:
        raise AskingFailed(f"group {found.group} has no members")
    by_id = {one.member: one for one in found.members}
    by_instance = {one.instance: one for one in found.members if one.instance}
    for kind, name, known in (
        *(("member", name, by_id) for name in ids),
        *(("group.instance.id", name, by_instance) for name in instances),
    ):
        if name not in known:
            raise AskingFailed(f"group {found.group} has no {kind} {name}: muster groups describe shows its members")
    named = {by_id[name].member for name in ids} | {by_instance[name].member for name in instances}
    return [one for one in sorted(found.members, key=lambda one: one.member) if everyone or one.member in named]


def _print(head: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool) -> None:
    if as_json:
        names = [one.lower() for one in head]
        for row in rows:
            print_json(dict(zip(names, row, strict=True)))
    elif rows:
        print_table(head, [(*row[:-1], "yes" if row[-1] else "no") for row in rows])
