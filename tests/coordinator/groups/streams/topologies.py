"""Topologies for tests, in the short form of conform/player/asking_streams.py."""

from __future__ import annotations

from muster.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)


def sent(text: str, epoch: int = 0) -> Topology:
    """A topology as a member sends it. "0:t>words 1:<words=5%counts&t,words": `>` a repartition topic that is written,
    `<` one that is read, `%` a changelog, `&` a copartition group.
    """
    return Topology(epoch, [_subtopology(one) for one in text.split()])


def _subtopology(text: str) -> Subtopology:
    number, _, rest = text.partition(":")
    rest, *copartitioned = rest.split("&")
    rest, *changelogs = rest.split("%")
    rest, *sinks = rest.split(">")
    names = [name for name in rest.split(",") if name]
    sources = [name for name in names if name[0] != "<"]
    repartitions = [
        TopicInfo(name, int(count or 0))
        for name, _, count in (one[1:].partition("=") for one in names if one[0] == "<")
    ]
    groups = [
        CopartitionGroup(
            [place for place, one in enumerate(sources) if one in group.split(",")],
            [],
            [place for place, one in enumerate(repartitions) if one.name in group.split(",")],
        )
        for group in copartitioned
    ]
    compact = [KeyValue("cleanup.policy", "compact")]
    stores = [TopicInfo(name, 0, 0, compact) for name in changelogs]
    return Subtopology(number, sources, [], stores, sinks, repartitions, groups)
