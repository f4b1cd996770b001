"""`muster groups list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from muster.cli.groups.offline import offline_partitions
from muster.cli.output import say
from muster.cli.table import print_json, print_table
from muster.client.connection import AskingFailed, sentence
from muster.client.kafka_client import Cluster
from muster.protocol.api import ApiKey
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest


def list_groups(cluster: Cluster, states: Sequence[str], types: Sequence[str], *, as_json: bool) -> int:
    """Print all groups, by name; exit status 1 when the groups of some partition are missing."""
    groups = all_groups(cluster, states, types)
    missing = offline_partitions(cluster)
    if as_json:
        for one in groups:
            print_json({"group": one.group_id, "type": one.group_type, "state": one.group_state,
                        "protocol_type": one.protocol_type})  # fmt: skip
    elif groups:
        rows = [(one.group_id, one.group_type, one.group_state, one.protocol_type) for one in groups]
        print_table(("GROUP", "TYPE", "STATE", "PROTOCOL TYPE"), rows)
    else:
        kind = " of that kind" if states or types else ""
        say(f"no groups{kind} can be seen: not all partitions are online" if missing else f"there are no groups{kind}")
    for partition, why in missing:
        told = f"partition {partition} of __consumer_offsets is offline, its groups are not listed"
        say(f"muster groups list: {told}: {why}", sys.stderr)
    return 1 if missing else 0


def all_groups(cluster: Cluster, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """The groups of every node, by name. Raises AskingFailed."""
    found: list[ListedGroup] = []
    for node in cluster.every_node():
        try:
            answer = node.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(list(states), list(types)))
        except UnrepresentableField as error:
            raise AskingFailed(f"{node.address} cannot list groups by state or type: it is too old") from error
        if answer.error_code:
            raise AskingFailed(f"{node.address} does not list its groups: {sentence(answer.error_code)}")
        found.extend(answer.groups)
    return sorted(found, key=lambda one: one.group_id)
