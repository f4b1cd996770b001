"""What probes need at the target: a topic with records, and a group with an offset. Also their removal."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
import uuid

from muster.conform.player.batches import Batch
from muster.conform.player.stage import ERRORS
from muster.conform.probes.asking import AGAIN_S, TRIES, Asker, Gone, Unprepared
from muster.conform.probes.link import Closed, Link, Silent
from muster.conform.probes.place import Body, Owner, Place

TIMEOUT_MS = 10_000
GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC, NOT_COORDINATOR = 69, 3, 16
SAMPLE = 24
"""This many groups of a cluster show which broker this is."""
BATCHES_FROM = 4
"""From this version on, FindCoordinator takes several groups."""


async def prepare(asker: Asker, prefix: str | None = None) -> tuple[Place, str]:
    """Make the topic and the group; and why that failed, or an empty text."""
    prefix = prefix or f"muster-conform-{secrets.token_hex(4)}"
    place = Place(prefix, f"{prefix}-topic", uuid.UUID(int=0), batch=batch())
    link: Link | None = None
    try:
        link = await asker.open()
        found = await asker.ask(link, "Metadata", {"Topics": []})
        if found["Brokers"]:
            place = dataclasses.replace(place, node_id=found["Brokers"][0]["NodeId"])
        await _coordinators(asker, link, place)
        if len(found["Brokers"]) > 1:
            owner = await _owner(asker, link, place)
            place = dataclasses.replace(place, owner=owner, node_id=owner.node_id)
        place = dataclasses.replace(place, topic_id=await _topic(asker, link, place))
        named = {"Name": place.topic, "TopicId": place.topic_id}
        rows = [{**named, "PartitionData": [{"Index": 0, "Records": batch(3)}]}]
        await asker.ask(link, "Produce", {"Acks": -1, "TimeoutMs": TIMEOUT_MS, "TopicData": rows})
        offset = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": "conform"}
        rows = [{**named, "Partitions": [offset]}]
        await asker.ask(link, "OffsetCommit", {"GroupId": place.group, "Topics": rows})
    except (Unprepared, Gone) as error:
        return place, str(error)
    finally:
        if link is not None:
            await link.close()
    return place, ""


async def _coordinators(asker: Asker, link: Link, place: Place) -> None:
    """Ask for the coordinators: then a target makes their topics, if it has none yet."""
    version = asker.version("FindCoordinator")
    for kind, needs in enumerate(("OffsetCommit", "InitProducerId")):
        if version is not None and asker.version(needs) is not None:
            names: Body = {"CoordinatorKeys": [place.group]} if version >= 4 else {"Key": place.group}
            await asker.ask(link, "FindCoordinator", {"KeyType": kind, **names})


async def _owner(asker: Asker, link: Link, place: Place) -> Owner:
    """Which broker of a cluster this is, and which coordinators it has. Raises Unprepared."""
    names = [place.name(f"whose-{number}") for number in range(SAMPLE)]
    body = {"Groups": names}
    version = asker.version("DescribeGroups")
    if version is None or (asker.version("FindCoordinator") or 0) < BATCHES_FROM:
        raise Unprepared("the target is a cluster, and does not say which broker has which group")
    # an error of a single group is an answer here: ask() would wait until it is gone
    described = (await asker.exchange(link, "DescribeGroups", version, body)).body or {"Groups": []}
    mine = {row["GroupId"] for row in described["Groups"] if row["ErrorCode"] != NOT_COORDINATOR}
    found = await asker.ask(link, "FindCoordinator", {"KeyType": 0, "CoordinatorKeys": names})
    nodes = {row["NodeId"] for row in found["Coordinators"] if row["Key"] in mine}
    if len(nodes) != 1:
        raise Unprepared(f"the target is a cluster, and its broker says that it is {sorted(nodes)}")
    leaders = [await _leaders(asker, link, topic) for topic in ("__consumer_offsets", "__transaction_state")]
    return Owner(nodes.pop(), *leaders)


async def _leaders(asker: Asker, link: Link, topic: str) -> tuple[int, ...]:
    """The leader of each partition. Empty: there is no such topic."""
    body = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
    (row,) = (await asker.ask(link, "Metadata", body))["Topics"]
    partitions = sorted(row["Partitions"], key=lambda one: one["PartitionIndex"])
    return tuple(one["LeaderId"] for one in partitions)


async def _topic(asker: Asker, link: Link, place: Place) -> uuid.UUID:
    """Make the topic on the broker that gets the probes, and wait for its leaders; its id."""
    name = place.topic
    made: Body = {"Name": name, "NumPartitions": 2, "ReplicationFactor": 1}
    if place.owner is not None:
        rows = [{"PartitionIndex": number, "BrokerIds": [place.node_id]} for number in (0, 1)]
        made |= {"NumPartitions": -1, "ReplicationFactor": -1, "Assignments": rows}
    answer = await asker.ask(link, "CreateTopics", {"Topics": [made], "timeoutMs": TIMEOUT_MS})
    error = answer["Topics"][0]["ErrorCode"]
    if error:
        raise Unprepared(f"CreateTopics was answered {ERRORS.get(error, error)}")
    asked = {"Topics": [{"Name": name}], "AllowAutoTopicCreation": False}
    for _ in range(TRIES):
        topic = (await asker.ask(link, "Metadata", asked))["Topics"][0]
        if not topic["ErrorCode"] and all(one["LeaderId"] >= 0 for one in topic["Partitions"]):
            found: uuid.UUID = topic["TopicId"]
            return found
        await asyncio.sleep(AGAIN_S)
    raise Unprepared(f"the topic {name} has no leaders")


def batch(count: int = 1) -> bytes:
    """A record batch."""
    made = Batch([f"conform-{number}" for number in range(count)], (-1, -1), -1, is_transactional=False)
    made.timestamp_ms = int(time.time() * 1000)
    return bytes(made)


async def clean(asker: Asker, place: Place) -> list[str]:
    """Delete what the probes have made; what is left, in words."""
    link: Link | None = None
    try:
        link = await asker.open()
        return [*await _clean_groups(asker, link, place), *await _clean_topics(asker, link, place)]
    except (Unprepared, Closed, Silent, Gone) as error:
        return [f"names that begin with {place.prefix}: {error}"]
    finally:
        if link is not None:
            await link.close()


async def _clean_groups(asker: Asker, link: Link, place: Place) -> list[str]:
    if asker.version("ListGroups") is None:
        return []
    listed = await asker.ask(link, "ListGroups", {})
    mine = [one["GroupId"] for one in listed["Groups"] if one["GroupId"].startswith(place.prefix)]
    if not mine:
        return []
    rows = (await asker.ask(link, "DeleteGroups", {"GroupsNames": mine}))["Results"]
    bad = [one for one in rows if one["ErrorCode"] not in (0, GROUP_ID_NOT_FOUND)]
    return [f"group {one['GroupId']}: {ERRORS.get(one['ErrorCode'])}" for one in bad]


async def _clean_topics(asker: Asker, link: Link, place: Place) -> list[str]:
    version = asker.version("DeleteTopics")
    if version is None:
        return []
    found = await asker.ask(link, "Metadata", {"Topics": None if asker.version("Metadata") else []})
    mine = [one["Name"] for one in found["Topics"] if (one["Name"] or "").startswith(place.prefix)]
    if not mine:
        return []
    rows = [{"Name": name, "TopicId": uuid.UUID(int=0)} for name in mine]
    body: Body = {"Topics": rows} if version >= 6 else {"TopicNames": mine}
    answer = await asker.ask(link, "DeleteTopics", {**body, "TimeoutMs": TIMEOUT_MS})
    bad = [one for one in answer["Responses"] if one["ErrorCode"] not in (0, UNKNOWN_TOPIC)]
    return [f"topic {one['Name']}: {ERRORS.get(one['ErrorCode'])}" for one in bad]
