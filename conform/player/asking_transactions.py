"""What the commands about transactions and about what is in a partition ask for: text -> (api, version, body).

The actor stands for a producer. As a client does, it remembers its last transactional id, producer id and epoch. It
also remembers how many records it has sent to each partition. `id=`, `producer=`, `epoch=` and `seq=` say otherwise.
"""

from __future__ import annotations

from muster.conform.player.asking import VERBS, Asked, commit_topics, verb
from muster.conform.player.batches import Batch
from muster.conform.player.stage import Actor, Stage, by_topic, null_or
from muster.conform.player.story import Body

Args = dict[str, str]

OF_CLIENTS: dict[str, tuple[int, int]] = {
    "Produce": (11, 12),
    "EndTxn": (4, 5),
    "TxnOffsetCommit": (4, 5),
}
"""API -> the version that a client of transaction version 1 sends, and that of version 2 (`tv`)."""


def version_of(actor: Actor, api: str) -> int:
    """The version of the request, by the transaction version of the client."""
    return OF_CLIENTS[api][int(actor.settings["tv"]) - 1]


def transactional_id(stage: Stage, actor: Actor, args: Args) -> str | None:
    return stage.group(args["id"]) if "id" in args else actor.transactional_id


def producer(stage: Stage, actor: Actor, args: Args) -> tuple[int, int]:
    """Producer id and epoch of a request. `producer=` tx, none, ghost or a number. `epoch=` 3, none, or from the
    actor's own +1 or -1.
    """
    producer_id, epoch = actor.producer
    if "producer" in args:
        producer_id = stage.producer_id(args["producer"])
    if "epoch" in args:
        text = args["epoch"]
        epoch = -1 if text == "none" else epoch + int(text) if text[0] in "+-" else int(text)
    return producer_id, epoch


def _sender(stage: Stage, actor: Actor, args: Args) -> Body:
    """The producer that sends a request."""
    producer_id, epoch = producer(stage, actor, args)
    name = transactional_id(stage, actor, args)
    return {"TransactionalId": name, "ProducerId": producer_id, "ProducerEpoch": epoch}


def partitions_by_topic(stage: Stage, specs: list[str]) -> list[tuple[str, list[int]]]:
    return [(stage.topic(topic), [int(i) for i in indexes]) for topic, indexes in by_topic(specs).items()]


@verb("txn-init")
def txn_init(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """txn-init tx; again for the same id: txn-init; idempotent only: txn-init null. own=yes: show the producer id."""
    if "tv" in args:
        actor.settings["tv"] = args["tv"]
    wanted = stage.group(rest[0]) if rest else actor.transactional_id
    body: Body = {"TransactionalId": wanted, "TransactionTimeoutMs": int(args.get("timeout", 60000))}
    if args.get("own") == "yes" or "producer" in args or "epoch" in args:
        body["ProducerId"], body["ProducerEpoch"] = producer(stage, actor, args)
    return "InitProducerId", 5, body


@verb("txn-add-partitions")
def txn_add_partitions(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """txn-add-partitions o/0 o/1; from v4 on for several producers: A:o/0 B:o/0 B:o/1; verify=yes"""
    version = int(args.get("v", 3))
    if version <= 3:
        producer_id, epoch = producer(stage, actor, args)
        return (
            "AddPartitionsToTxn",
            3,
            {
                "V3AndBelowTransactionalId": transactional_id(stage, actor, args),
                "V3AndBelowProducerId": producer_id,
                "V3AndBelowProducerEpoch": epoch,
                "V3AndBelowTopics": topics_of(stage, rest),
            },
        )
    by_actor: dict[str, list[str]] = {}
    for spec in rest:
        name, colon, partition = spec.rpartition(":")
        by_actor.setdefault(name if colon else actor.name, []).append(partition)
    transactions = []
    for name, specs in by_actor.items():
        row = {"VerifyOnly": args.get("verify") == "yes", "Topics": topics_of(stage, specs)}
        transactions.append({**_sender(stage, stage.actor(name), args), **row})
    return "AddPartitionsToTxn", 3, {"Transactions": transactions}


def topics_of(stage: Stage, specs: list[str]) -> list[Body]:
    return [{"Name": name, "Partitions": indexes} for name, indexes in partitions_by_topic(stage, specs)]


@verb("txn-add-offsets")
def txn_add_offsets(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    return "AddOffsetsToTxn", 4, {**_sender(stage, actor, args), "GroupId": stage.group_of(args)}


@verb("txn-commit-offsets")
def txn_commit_offsets(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """txn-commit-offsets t1/0=5, as `commit`; member=A means: the member that A is, in A's generation"""
    return (
        "TxnOffsetCommit",
        version_of(actor, "TxnOffsetCommit"),
        {
            **_sender(stage, actor, args),
            "GroupId": stage.group_of(args),
            "GenerationIdOrMemberEpoch": stage.generation(actor, args.get("generation"), -1),
            "MemberId": stage.member(actor, args.get("member", "none")),
            "GroupInstanceId": null_or(args.get("instance")),
            "Topics": commit_topics(stage, rest),
        },
    )


@verb("txn-end")
def txn_end(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """txn-end commit, txn-end abort"""
    body = {**_sender(stage, actor, args), "Committed": rest[0] == "commit"}
    return "EndTxn", version_of(actor, "EndTxn"), body


def _repeated(text: str) -> list[str]:
    """60*a: sixty records with this value."""
    count, star, value = text.partition("*")
    return [value] * int(count) if star and count.isdigit() else [text]


@verb("produce")
def produce(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """`produce o/0=a,b o/1=60*c`: in the actor's transaction. `txn=no`: outside it, but with its producer id.

    `plain=yes`: without a producer id. `txn=yes id=null`: a transactional batch without a transactional id.
    """
    plain = args.get("plain") == "yes"
    identity = (-1, -1) if plain else producer(stage, actor, args)
    name = None if plain or args.get("txn") == "no" else transactional_id(stage, actor, args)
    is_transactional = name is not None or args.get("txn") == "yes"
    topics = []
    for topic, specs in by_topic(rest).items():
        rows = []
        for spec in specs:
            index, _, text = spec.partition("=")
            values = [value for one in text.split(",") for value in _repeated(one)]
            sequence = -1 if plain else int(args.get("seq", actor.sequences.get((topic, int(index)), 0)))
            batch = Batch(values, identity, sequence, is_transactional=is_transactional)
            rows.append({"Index": int(index), "Records": batch})
        topics.append({"Name": stage.topic(topic), "TopicId": stage.topic_id(topic), "PartitionData": rows})
    body = {"TransactionalId": name, "Acks": -1, "TimeoutMs": 30000, "TopicData": topics}
    return "Produce", version_of(actor, "Produce"), body


ISOLATION = {"uncommitted": 0, "committed": 1}


@verb("read")
def read(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """read o/0: as a consumer with isolation=committed (default) or uncommitted; from=3"""
    start = int(args.get("from", 0))
    topics = [
        {
            "Topic": stage.topic(name),
            "TopicId": stage.topic_id(name),
            "Partitions": [{"Partition": int(i), "FetchOffset": start, "PartitionMaxBytes": 1 << 20} for i in indexes],
        }
        for name, indexes in by_topic(rest).items()
    ]
    isolation = ISOLATION[args.get("isolation", "committed")]
    return "Fetch", 12, {"MaxWaitMs": 0, "MinBytes": 0, "IsolationLevel": isolation, "Topics": topics}


TIMES = {"latest": -1, "earliest": -2, "max": -3}


@verb("list-offsets")
def list_offsets(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """list-offsets o/0 at=latest (default), earliest or max; isolation= as in `read`"""
    at = TIMES[args.get("at", "latest")]
    topics = [
        {"Name": name, "Partitions": [{"PartitionIndex": i, "Timestamp": at} for i in indexes]}
        for name, indexes in partitions_by_topic(stage, rest)
    ]
    isolation = ISOLATION[args.get("isolation", "committed")]
    return "ListOffsets", 7, {"ReplicaId": -1, "IsolationLevel": isolation, "Topics": topics}


@verb("txn-describe")
def txn_describe(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    ids = [stage.group(name) for name in rest] if rest else [actor.transactional_id]
    return "DescribeTransactions", 0, {"TransactionalIds": ids}


@verb("txn-list")
def txn_list(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """txn-list states=Ongoing,Empty producers=tx,ty longer=1000 pattern=t.*"""
    return (
        "ListTransactions",
        2,
        {
            "StateFilters": [one for one in args.get("states", "").split(",") if one],
            "ProducerIdFilters": [stage.producer_id(one) for one in args.get("producers", "").split(",") if one],
            "DurationFilter": int(args.get("longer", -1)),
            "TransactionalIdPattern": stage.pattern(args["pattern"]) if "pattern" in args else None,
        },
    )


@verb("describe-producers")
def describe_producers(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    topics = [{"Name": name, "PartitionIndexes": indexes} for name, indexes in partitions_by_topic(stage, rest)]
    return "DescribeProducers", 0, {"Topics": topics}


@verb("write-markers")
def write_markers(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """write-markers abort o/0 o/1: for the actor's producer; coordinator= its epoch; tv=2 (from v2 on)"""
    producer_id, epoch = producer(stage, actor, args)
    topics = [{"Name": name, "PartitionIndexes": indexes} for name, indexes in partitions_by_topic(stage, rest[1:])]
    marker = {
        "ProducerId": producer_id,
        "ProducerEpoch": epoch,
        "TransactionResult": rest[0] == "commit",
        "Topics": topics,
        "CoordinatorEpoch": int(args.get("coordinator", 0)),
        "TransactionVersion": int(args.get("tv", 0)),
    }
    return "WriteTxnMarkers", 1, {"Markers": [marker]}


@verb("create-topic")
def create_topic(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """create-topic o:2: two partitions"""
    pairs = [one.partition(":") for one in rest]
    topics = [
        {"Name": stage.topic(name), "NumPartitions": int(count), "ReplicationFactor": 1} for name, _, count in pairs
    ]
    return "CreateTopics", 7, {"timeoutMs": 10000, "Topics": topics}


@verb("grow-topic")
def grow_topic(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    """grow-topic o:4: four partitions, more than before"""
    pairs = [one.partition(":") for one in rest]
    topics = [{"Name": stage.topic(name), "Count": int(count), "Assignments": None} for name, _, count in pairs]
    return "CreatePartitions", 3, {"TimeoutMs": 10000, "Topics": topics, "ValidateOnly": False}


@verb("delete-topic")
def delete_topic(stage: Stage, actor: Actor, args: Args, rest: list[str]) -> Asked:
    topics = [{"Name": stage.topic(name), "TopicId": stage.no_id} for name in rest]
    return "DeleteTopics", 6, {"TimeoutMs": 10000, "Topics": topics}


__all__ = ["VERBS"]
