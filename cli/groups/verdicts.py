"""Episodes and a verdict of a group, from the events in `__group_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.cli.output import say_sentence
from muster.cli.table import print_json
from muster.client.connection import AskingFailed
from muster.client.event_reader import OF_GROUPS, Events
from muster.client.kafka_client import Cluster
from muster.coordinator.system.clock import read_wall
from muster.pipeline.episodes.from_events import Told, told
from muster.pipeline.episodes.verdict import describe

if TYPE_CHECKING:
    from muster.pipeline.episodes.verdict import Verdict

NEWEST: Final = 20_000
"""The most events of a group's partition that are read."""


def verdict_of(cluster: Cluster, group_id: str) -> Verdict | None:
    """One sentence about a group; None: the cluster keeps no events, or none of this group."""
    if cluster.topics([OF_GROUPS.topic]).get(OF_GROUPS.topic) is None:
        return None
    return _told(cluster, group_id).verdict


def print_episodes(cluster: Cluster, group_id: str, *, as_json: bool) -> int:
    """Print the history of a group in episodes, and the verdict. Raises AskingFailed when nothing is known of it."""
    found = _told(cluster, group_id)
    if found.verdict is None:
        raise AskingFailed(f"no rebalance of a group {group_id} is among the last {NEWEST:,} events of its partition")
    now_ms = read_wall("now")
    for one in found.episodes:
        if as_json:
            print_json(
                {"kind": one.kind, "from": one.from_ms, "until": one.until_ms, "members": one.members,
                 "rebalances": one.rebalances, "cost_ms": one.cost_ms, "confidence": one.confidence}
            )  # fmt: skip
        else:
            say_sentence(describe(one, now_ms))
    if as_json:
        print_json({"verdict": found.verdict.text, "level": found.verdict.level})
    else:
        say_sentence(f"verdict: {found.verdict.text}")
    return 0


def _told(cluster: Cluster, group_id: str) -> Told:
    return told(Events(cluster).newest(group_id, NEWEST), read_wall("now"))
