"""Checks that the commands share which change groups: the existing groups, and whether one may be changed now. Nothing
is changed without `--execute`.
"""

from __future__ import annotations

import sys
from typing import Final

from muster.cli.groups.described import Description
from muster.cli.groups.describing import find_group
from muster.cli.groups.listing import all_groups
from muster.cli.output import say
from muster.client.connection import AskingFailed
from muster.client.kafka_client import Cluster

OF_CONSUMERS: Final = ("classic", "consumer", "")
"""The types of groups that consumers form. An old server does not report the type of a group."""
TOOLS: Final = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
"""Kafka's tools for other types of groups."""
INACTIVE: Final = ("Empty", "Dead")


def consumer_groups(cluster: Cluster) -> list[str]:
    """The groups of consumers, by name: what Kafka's consumer group tool takes for all groups. Raises AskingFailed."""
    return [
        one.group_id
        for one in all_groups(cluster)
        if one.group_type.lower() in OF_CONSUMERS and one.protocol_type in ("consumer", "")
    ]


def of_consumers(cluster: Cluster, group_id: str, verb: str) -> Description | None:
    """The group; None if it does not exist. Raises AskingFailed when it is not a group of consumers."""
    found = find_group(cluster, group_id)
    if found is None:
        return None
    if found.type not in OF_CONSUMERS:
        tool = TOOLS.get(found.type)
        advice = f"; {tool} of Apache Kafka is for them" if tool else ""
        raise AskingFailed(f"{group_id} is a {found.type} group: only groups of consumers can be {verb}{advice}")
    if found.protocol_type not in ("consumer", ""):
        raise AskingFailed(
            f"{group_id} is a group of the protocol type {found.protocol_type}: only groups of consumers can be {verb}"
        )
    return found


def inactive(cluster: Cluster, group_id: str, verb: str) -> None:
    """Raises AskingFailed when the group has members, as Kafka's tool refuses to reset the offsets of such a group."""
    found = of_consumers(cluster, group_id, verb)
    if found is None:
        what = f"there is no group {group_id} yet: its first members will find these offsets"
        say(f"muster groups offsets {verb}: {what}", sys.stderr)
    elif found.state not in INACTIVE:
        raise AskingFailed(
            f"the offsets of group {group_id} can be {verb} only while it is inactive, and its state is {found.state}: "
            f"stop its {members(found)} first"
        )


def members(found: Description) -> str:
    """The number of members, in words."""
    count = len(found.members)
    return f"{count} member{'' if count == 1 else 's'}"


def say_nothing_changed(command: str) -> None:
    """Print that this was a dry run."""
    say(f"{command}: nothing was changed; give --execute to do it", sys.stderr)
