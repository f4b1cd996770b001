"""The topics of an application of Kafka Streams, as `muster groups describe` shows them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from muster.client.kafka_client import KafkaClient
from muster.coordinator.history.words import subtopologies
from muster.coordinator.http.described_groups import NOT_READY, Description, Subtopology


def topology_lines(client: KafkaClient, found: Description) -> list[str]:
    """A line for each subtopology of a group. A group that is not ready also has a sentence that says why."""
    parts = found.subtopologies
    if not parts:
        return []
    lines = [_line(one) for one in parts]
    if found.state != NOT_READY:
        return lines
    names = sorted({name for one in parts for name in (*one.reads, *one.changelogs)})
    return [*lines, _why(parts, sorted(set(names) - client.topics(names).keys()))]


def _line(one: Subtopology) -> str:
    changelogs = f"; changelogs: {', '.join(one.changelogs)}" if one.changelogs else ""
    return f"subtopology {one.subtopology} reads {', '.join(one.reads) or 'no topic'}{changelogs}"


def _why(parts: Sequence[Subtopology], missing: Collection[str]) -> str:
    if not missing:
        return "the group is not ready, and all its topics exist: their numbers of partitions do not fit together"
    needed = [one.subtopology for one in parts if not {*one.reads, *one.changelogs}.isdisjoint(missing)]
    verb, them = ("is", "it") if len(missing) == 1 else ("are", "them")
    without = f"{subtopologies(needed)} cannot run without {them}"
    return f"the group is not ready: {', '.join(missing)} {verb} missing, and {without}"
