"""What the commands about the records of share groups ask for (KIP-932): fetches, acknowledgements and configs.
Also the states that brokers keep at the share coordinator.
"""

from __future__ import annotations

from muster.conform.player.asking import Asked, verb
from muster.conform.player.asking_shares import Args, own_member
from muster.conform.player.asking_transactions import VERBS
from muster.conform.player.stage import Actor, Stage, by_topic, null_or
from muster.conform.player.story import Body

__all__ = ["VERBS"]

ACKNOWLEDGE_TYPES = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}
STATES = ("available", "acquired", "acknowledged", "archiving", "archived")
"""The states of records by number. Stories use the same words."""
MODES = {"batch": 0, "limit": 1}
TOPIC, GROUP = 2, 32
"""Kinds of resources with configs."""
DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def _acknowledgements(text: str) -> list[Body]:
    """0-4:accept,5:release,6-7:accept+reject: one type for all records, or one for each; numbers are types too."""
    found = []
    for one in text.split(","):
        offsets, _, names = one.partition(":")
        first, _, last = offsets.partition("-")
        types = [ACKNOWLEDGE_TYPES.get(name) for name in names.split("+") if name]
        numbers = [int(name) if kind is None else kind for kind, name in zip(types, names.split("+"), strict=False)]
        found.append({"FirstOffset": int(first), "LastOffset": int(last or first), "AcknowledgeTypes": numbers})
    return found


def _rows(stage: Stage, specs: list[str]) -> list[Body]:
    """Topics by id, with partitions: `o/0`, or `o/0=0-4:accept`."""
    topics = []
    for topic, its in by_topic(specs).items():
        pairs = [spec.partition("=") for spec in its]
        partitions = [
            {"PartitionIndex": int(index), "AcknowledgementBatches": _acknowledgements(acks) if acks else []}
            for index, _, acks in pairs
        ]
        topics.append({"TopicId": stage.topic_id(topic), "Partitions": partitions})
    return topics


def _session(stage: Stage, actor: Actor, args: Args) -> Body:
    return {
        "GroupId": stage.group_of(args),
        "MemberId": own_member(stage, actor, args.get("member")),
        "ShareSessionEpoch": stage.generation(actor, args.get("epoch"), actor.session),
        "IsRenewAck": args.get("renew") == "yes",
    }


@verb("share-fetch")
def share_fetch(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """`share-fetch o/0 o/1=0-4:accept wait=500`: the epoch is the next of the session."""
    forgotten = [
        {"TopicId": stage.topic_id(topic), "Partitions": [int(index) for index in its]}
        for topic, its in by_topic([one for one in args.get("forget", "").split(",") if one]).items()
    ]
    return (
        "ShareFetch",
        2,
        {
            **_session(stage, actor, args),
            "MaxWaitMs": int(args.get("wait", 0)),
            "MinBytes": int(args.get("min", 1)),
            "MaxBytes": int(args.get("bytes", 1 << 20)),
            "MaxRecords": int(args.get("records", 500)),
            "BatchSize": int(args.get("batch", 500)),
            "ShareAcquireMode": MODES.get(args.get("mode", "batch"), 9),
            "Topics": _rows(stage, rest),
            "ForgottenTopicsData": forgotten,
        },
    )


@verb("share-acknowledge")
def share_acknowledge(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """share-acknowledge o/0=0-4:accept,5:release: epoch=, renew=yes"""
    return "ShareAcknowledge", 2, {**_session(stage, actor, args), "Topics": _rows(stage, rest)}


# ---- configs, and the begin of a log


def _configs(kind: int, name: str | None, pairs: Args) -> Asked:
    configs = [{"Name": key, "ConfigOperation": 0, "Value": null_or(value)} for key, value in pairs.items()]
    resource = {"ResourceType": kind, "ResourceName": name, "Configs": configs}
    return "IncrementalAlterConfigs", 1, {"Resources": [resource], "ValidateOnly": False}


@verb("group-config")
def group_config(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """group-config share.auto.offset.reset=earliest"""
    pairs = {key: stage.topic(value) if key == DEAD_LETTERS else value for key, value in args.items()}
    return _configs(GROUP, stage.group(rest[0] if rest else stage.story.group), pairs)


@verb("topic-config")
def topic_config(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """topic-config o retention.ms=1000"""
    return _configs(TOPIC, stage.topic(rest[0]), args)


@verb("delete-records")
def delete_records(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """delete-records o/0=5: the log begins at offset 5"""
    topics = []
    for topic, specs in by_topic(rest).items():
        pairs = [spec.partition("=") for spec in specs]
        rows = [{"PartitionIndex": int(index), "Offset": int(offset)} for index, _, offset in pairs]
        topics.append({"Name": stage.topic(topic), "Partitions": rows})
    return "DeleteRecords", 2, {"Topics": topics, "TimeoutMs": 10000}


# ---- the states at the share coordinator


def _states(stage: Stage, args: Args, rest: list[str], **fields: int | list[Body]) -> Body:
    topics = [
        {"TopicId": stage.topic_id(topic), "Partitions": [{"Partition": int(index), **fields} for index in its]}
        for topic, its in by_topic(rest).items()
    ]
    return {"GroupId": stage.group_of(args), "Topics": topics}


@verb("state-initialize")
def state_initialize(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """state-initialize o/0 epoch=1 start=5"""
    fields = {"StateEpoch": int(args.get("epoch", 0)), "StartOffset": int(args.get("start", -1))}
    return "InitializeShareGroupState", 0, _states(stage, args, rest, **fields)


@verb("state-read")
def state_read(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """state-read o/0 leader=0: as a leader of this epoch"""
    return "ReadShareGroupState", 0, _states(stage, args, rest, LeaderEpoch=int(args.get("leader", 0)))


@verb("state-summary")
def state_summary(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """state-summary o/0 leader=0"""
    return "ReadShareGroupStateSummary", 1, _states(stage, args, rest, LeaderEpoch=int(args.get("leader", 0)))


@verb("state-write")
def state_write(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """state-write o/0 epoch=0 leader=0 start=5 done=2 rows=5-6:acknowledged*1,7:available*2"""
    rows: list[Body] = []
    for one in [one for one in args.get("rows", "").split(",") if one]:
        offsets, _, text = one.partition(":")
        first, _, last = offsets.partition("-")
        state, _, deliveries = text.partition("*")
        number = STATES.index(state) if state in STATES else int(state)
        row = {"FirstOffset": int(first), "LastOffset": int(last or first), "DeliveryState": number}
        rows.append({**row, "DeliveryCount": int(deliveries or 1)})
    return (
        "WriteShareGroupState",
        1,
        _states(
            stage, args, rest, StateEpoch=int(args.get("epoch", 0)), LeaderEpoch=int(args.get("leader", 0)),
            StartOffset=int(args.get("start", -1)), DeliveryCompleteCount=int(args.get("done", -1)), StateBatches=rows,
        ),
    )  # fmt: skip


@verb("state-delete")
def state_delete(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """state-delete o/0"""
    return "DeleteShareGroupState", 0, _states(stage, args, rest)
