"""Rich legal requests about groups and their offsets."""

from __future__ import annotations

import uuid

from muster.conform.player.stage import subscription
from muster.conform.probes.place import Ask, Body, MakeBody, Place, Script

TIMEOUT_MS = 10_000


def _join(group: str, place: Place) -> Body:
    metadata = subscription([place.topic], {}, 0)
    return {
        "GroupId": group,
        "SessionTimeoutMs": TIMEOUT_MS,
        "RebalanceTimeoutMs": TIMEOUT_MS,
        "GroupInstanceId": "i",
        "ProtocolType": "consumer",
        "Protocols": [{"Name": name, "Metadata": metadata} for name in ("range", "roundrobin")],
        "Reason": "muster conform",
    }


def _joins(group: str, place: Place) -> Ask:
    return Ask(_join(group, place), "JoinGroup")


def _generation(group: str, joined: Body) -> Body:
    """The member that has joined, as SyncGroup and Heartbeat name it."""
    return {
        "GroupId": group,
        "GenerationId": joined["GenerationId"],
        "MemberId": joined["MemberId"],
        "GroupInstanceId": "i",
    }


def _leaves(group: str, member: str, instance: str | None = "i") -> Ask:
    return Ask({"GroupId": group, "Members": [{"MemberId": member, "GroupInstanceId": instance}]}, "LeaveGroup")


def join_group(place: Place, version: int) -> Script:
    """A static member joins, which is answered with a whole generation."""
    group = place.name("join", version)
    answer = yield Ask(_join(group, place))
    if answer["MemberId"]:
        yield _leaves(group, answer["MemberId"], "i" if version >= 5 else None)


def sync_group(place: Place, version: int) -> Script:
    """The leader of a group of one syncs."""
    group = place.name("sync", version)
    joined = yield _joins(group, place)
    yield Ask(
        {
            **_generation(group, joined),
            "ProtocolType": "consumer",
            "ProtocolName": "range",
            "Assignments": [{"MemberId": joined["MemberId"], "Assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        }
    )
    yield _leaves(group, joined["MemberId"])


def heartbeat(place: Place, version: int) -> Script:
    """A member sends a heartbeat."""
    group = place.name("heartbeat", version)
    joined = yield _joins(group, place)
    yield Ask(_generation(group, joined))
    yield _leaves(group, joined["MemberId"])


def leave_group(place: Place, version: int) -> Script:
    """A member leaves, and with it somebody whom the group does not know."""
    group = place.name("leave", version)
    joined = yield _joins(group, place)
    rows = [
        {"MemberId": joined["MemberId"], "GroupInstanceId": "i", "Reason": "muster conform"},
        {"MemberId": "nobody", "GroupInstanceId": None, "Reason": None},
    ]
    yield Ask({"GroupId": group, "MemberId": joined["MemberId"], "Members": rows})


def describe_groups(place: Place, version: int) -> Script:
    """A group with a member, and one that does not exist."""
    group = place.name("describe", version)
    joined = yield _joins(group, place)
    yield Ask({"Groups": [group, place.name("no-group")], "IncludeAuthorizedOperations": True})
    yield _leaves(group, joined["MemberId"])


def list_groups(_: Place, version: int) -> Body:
    """Filters that match nothing, in versions that have them."""
    return {"StatesFilter": ["Empty", "Stable"], "TypesFilter": ["classic"]} if version >= 4 else {}


def delete_groups(place: Place, version: int) -> Script:
    """A group with offsets, and one that does not exist."""
    group = place.name("delete", version)
    yield Ask(_commit(group, place, 9), "OffsetCommit")
    yield Ask({"GroupsNames": [group, place.name("no-group")]})


def _commit(group: str, place: Place, version: int) -> Body:
    rows = [{"PartitionIndex": 0, "CommittedOffset": 2, "CommittedLeaderEpoch": 0, "CommittedMetadata": "conform"}]
    topics = [
        {"Name": place.topic, "TopicId": place.topic_id, "Partitions": rows},
        {"Name": place.no_topic, "TopicId": place.no_topic_id, "Partitions": rows},
    ]
    return {"GroupId": group, "Topics": topics if version < 10 or place.topic_id.int else []}


def offset_commit(place: Place, version: int) -> Body:
    """An offset of a topic that exists, and one of a topic that does not."""
    return _commit(place.group, place, version)


def offset_fetch(place: Place, version: int) -> Body:
    """The offsets of a group that has some, and of one that does not exist."""
    row = {"Name": place.topic, "TopicId": place.topic_id, "PartitionIndexes": [0, 1]}
    if version < 8:
        return {
            "GroupId": place.group,
            "Topics": [{"Name": place.topic, "PartitionIndexes": [0, 1]}],
            "RequireStable": version >= 7,
        }
    groups = [{"GroupId": place.group, "Topics": [row]}, {"GroupId": place.name("no-group"), "Topics": [row]}]
    return {"Groups": groups, "RequireStable": True}


def offset_delete(place: Place, version: int) -> Script:
    """An offset that the group has, and one of a topic that does not exist."""
    group = place.name("offset-delete", version)
    yield Ask(_commit(group, place, 9), "OffsetCommit")
    rows = [{"PartitionIndex": 0}]
    yield Ask(
        {
            "GroupId": group,
            "Topics": [{"Name": place.topic, "Partitions": rows}, {"Name": place.no_topic, "Partitions": rows}],
        }
    )
    yield Ask({"GroupsNames": [group]}, "DeleteGroups")


def find_coordinator(place: Place, version: int) -> Body:
    """The coordinators of groups."""
    if version < 4:
        return {"Key": place.group}
    return {"CoordinatorKeys": [place.group, place.name("no-group")]}


def member_of(place: Place, what: str, version: int) -> Body:
    """A member of one of the newer groups, which belongs to one probe alone."""
    group = place.name(what, version)
    return {"GroupId": group, "MemberId": str(uuid.uuid5(uuid.NAMESPACE_URL, group))}


def leaves(member: Body, api: str) -> Ask:
    """The last heartbeat of a member of one of the newer groups."""
    return Ask({**member, "MemberEpoch": -1}, api)


def _described(member: Body, place: Place) -> Body:
    """Asks for a group with a member, for one of another type, and for one that does not exist."""
    groups = [member["GroupId"], place.group, place.name("no-group")]
    return {"GroupIds": groups, "IncludeAuthorizedOperations": True}


def consumer_group_heartbeat(place: Place, version: int) -> Script:
    """A member joins with everything that it may say, and leaves."""
    member = member_of(place, "consumer", version)
    yield Ask(
        {
            **member,
            "RackId": "rack",
            "RebalanceTimeoutMs": TIMEOUT_MS,
            "SubscribedTopicNames": [place.topic, place.no_topic],
            "ServerAssignor": "uniform",
            "TopicPartitions": [],
        }
    )
    yield leaves(member, "ConsumerGroupHeartbeat")


def consumer_group_describe(place: Place, version: int) -> Script:
    """A group with a member, one of another type, and one that does not exist."""
    member = member_of(place, "consumer-describe", version)
    body = {
        **member,
        "RebalanceTimeoutMs": TIMEOUT_MS,
        "SubscribedTopicNames": [place.topic],
        "TopicPartitions": [],
    }
    yield Ask(body, "ConsumerGroupHeartbeat")
    yield Ask(_described(member, place))
    yield leaves(member, "ConsumerGroupHeartbeat")


def share_group_heartbeat(place: Place, version: int) -> Script:
    """A member joins and leaves."""
    member = member_of(place, "share", version)
    yield Ask({**member, "RackId": "rack", "SubscribedTopicNames": [place.topic]})
    yield leaves(member, "ShareGroupHeartbeat")


def share_group_describe(place: Place, version: int) -> Script:
    """A group with a member, one of another type, and one that does not exist."""
    member = member_of(place, "share-describe", version)
    yield joins_share_group(member, place)
    yield Ask(_described(member, place))
    yield leaves(member, "ShareGroupHeartbeat")


def joins_share_group(member: Body, place: Place) -> Ask:
    """The first heartbeat of a member of a share group."""
    return Ask({**member, "SubscribedTopicNames": [place.topic]}, "ShareGroupHeartbeat")


def _topology(place: Place) -> Body:
    return {
        "Epoch": 1,
        "Subtopologies": [
            {
                "SubtopologyId": "0",
                "SourceTopics": [place.topic],
                "StateChangelogTopics": [
                    {
                        "Name": place.name("changelog"),
                        "Partitions": 0,
                        "TopicConfigs": [{"Key": "cleanup.policy", "Value": "compact"}],
                    }
                ],
                "CopartitionGroups": [{"SourceTopics": [0]}],
            }
        ],
    }


def _joins_application(member: Body, place: Place) -> Body:
    return {
        **member,
        "RackId": "rack",
        "RebalanceTimeoutMs": TIMEOUT_MS,
        "Topology": _topology(place),
        "ActiveTasks": [],
        "StandbyTasks": [],
        "WarmupTasks": [],
        "ProcessId": "process",
        "UserEndpoint": {"Host": "localhost", "Port": 9999},
        "ClientTags": [{"Key": "zone", "Value": "a"}],
        "TaskOffsets": [{"SubtopologyId": "0", "Partition": 0, "Offset": 1}],
        "TaskEndOffsets": [{"SubtopologyId": "0", "Partition": 0, "Offset": 3}],
    }


def streams_group_heartbeat(place: Place, version: int) -> Script:
    """A member of an application with a state store joins, and leaves."""
    member = member_of(place, "streams", version)
    yield Ask(_joins_application(member, place))
    yield leaves(member, "StreamsGroupHeartbeat")


def streams_group_describe(place: Place, version: int) -> Script:
    """An application with a member, a group of another type, and one that does not exist."""
    member = member_of(place, "streams-describe", version)
    yield Ask(_joins_application(member, place), "StreamsGroupHeartbeat")
    yield Ask({**_described(member, place), "IncludeTopologyDescription": version >= 1})
    yield leaves(member, "StreamsGroupHeartbeat")


def streams_topology(place: Place, _: int) -> Body:
    """The description of a topology, for a group that does not exist."""
    nodes = [
        {"Name": "source", "NodeType": 0, "SourceTopics": [place.topic], "Successors": ["sink"]},
        {"Name": "sink", "NodeType": 2, "SinkTopic": place.no_topic},
    ]
    return {
        "GroupId": place.name("no-group"),
        "MemberId": "nobody",
        "TopologyEpoch": 1,
        "TopologyDescription": {"Subtopologies": [{"SubtopologyId": "0", "Nodes": nodes}], "GlobalStores": []},
    }


RICH: dict[str, MakeBody] = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
    "DescribeGroups": describe_groups,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "OffsetDelete": offset_delete,
    "FindCoordinator": find_coordinator,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "ConsumerGroupDescribe": consumer_group_describe,
    "ShareGroupHeartbeat": share_group_heartbeat,
    "ShareGroupDescribe": share_group_describe,
    "StreamsGroupHeartbeat": streams_group_heartbeat,
    "StreamsGroupDescribe": streams_group_describe,
    "StreamsGroupTopologyDescriptionUpdate": streams_topology,
}
