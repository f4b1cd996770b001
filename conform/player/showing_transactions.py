"""The texts of replies about transactions and partitions, and what a producer remembers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.conform.player.batches import Kept, batches_of
from muster.conform.player.stage import Actor, Stage, error_name, named, repr_text
from muster.conform.player.story import Body, Reply

OFFSETS = "__consumer_offsets"


def partition_rows(stage: Stage, topics: Iterable[Body], text: Callable[[Body], str], **fields: str) -> list[str]:
    """`o/0=...` for each partition. `fields`: the names of partitions and index in this API."""
    name, rows, index = fields.get("name", "Name"), fields.get("rows", "Partitions"), fields.get("index", "Partition")
    found = [(topic_of(stage, topic, name), row[index], text(row)) for topic in topics for row in topic[rows]]
    return [f"{label(t, p)}={x}" for t, p, x in sorted(found)]


def topic_of(stage: Stage, topic: Body, name: str = "Name") -> str:
    """The name of a topic. It is found by its id if the answer has only an id (Produce and Fetch from version 13)."""
    return stage.topic_label(topic[name]) if topic[name] else stage.topic_name(topic["TopicId"])


def label(topic: str, partition: int) -> str:
    """The label hides which partition of the offsets topic a group has: it depends on the suffix of the run."""
    return "offsets" if topic == OFFSETS else f"{topic}/{partition}"


def only_code(row: Body) -> str:
    return error_name(row["ErrorCode"])


# ---- transactions


def show_init(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    out = "txn-init " + error_name(body["ErrorCode"])
    if not body["ErrorCode"] or (body["ProducerId"], body["ProducerEpoch"]) != (-1, -1):
        out += named(producer=stage.producer_label(body["ProducerId"]), epoch=body["ProducerEpoch"])
    return out


def show_end(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    out = "txn-end " + error_name(body["ErrorCode"])
    if body["ProducerId"] != reply.request["ProducerId"] and body["ProducerId"] != -1:
        out += named(producer=stage.producer_label(body["ProducerId"]))
    return out + (named(epoch=body["ProducerEpoch"]) if body["ProducerEpoch"] != -1 else "")


def show_add_partitions(stage: Stage, actor: Actor, reply: Reply) -> str:
    def rows(topics: list[Body]) -> list[str]:
        return partition_rows(
            stage, topics, lambda row: error_name(row["PartitionErrorCode"]), rows="ResultsByPartition",
            index="PartitionIndex",
        )  # fmt: skip

    body, out = reply.body, ["txn-add-partitions"]
    if body["ErrorCode"]:
        out.append(error_name(body["ErrorCode"]))
    out += sorted(
        f"{stage.group_name(one['TransactionalId'])}({' '.join(rows(one['TopicResults']))})"
        for one in body["ResultsByTransaction"]
    )
    return " ".join([*out, *rows(body["ResultsByTopicV3AndBelow"])])


def show_offset_commit(stage: Stage, actor: Actor, reply: Reply) -> str:
    return " ".join(
        ["txn-commit-offsets", *partition_rows(stage, reply.body["Topics"], only_code, index="PartitionIndex")]
    )


def show_describe(stage: Stage, actor: Actor, reply: Reply) -> str:
    rows = []
    for one in sorted(reply.body["TransactionStates"], key=lambda one: str(one["TransactionalId"])):
        out = f"{stage.group_name(one['TransactionalId'])}:"
        if one["ErrorCode"]:
            rows.append(f"{out} {error_name(one['ErrorCode'])}")
            continue
        out += " " + one["TransactionState"]
        out += named(
            producer=stage.producer_label(one["ProducerId"]),
            epoch=one["ProducerEpoch"],
            timeout=one["TransactionTimeoutMs"],
        )
        if one["TransactionStartTimeMs"] != -1:
            out += " begun"
        held = {label(stage.topic_label(topic["Topic"]), i) for topic in one["Topics"] for i in topic["Partitions"]}
        rows.append(out + (f" [{' '.join(sorted(held))}]" if held else ""))
    return "txn-describe " + "; ".join(rows)


def show_list(stage: Stage, actor: Actor, reply: Reply) -> str:
    body = reply.body
    out = ["txn-list", error_name(body["ErrorCode"])]
    if body["UnknownStateFilters"]:
        out.append(f"unknown=[{' '.join(sorted(body['UnknownStateFilters']))}]")
    mine = [one for one in body["TransactionStates"] if one["TransactionalId"].endswith(stage.suffix)]
    out += sorted(
        f"{stage.group_name(one['TransactionalId'])}({one['TransactionState']},{stage.producer_label(one['ProducerId'])})"
        for one in mine
    )
    return " ".join(out)


# ---- partitions


def show_produce(stage: Stage, actor: Actor, reply: Reply) -> str:
    def row(one: Body) -> str:
        if not one["ErrorCode"]:
            return f"ok@{one['BaseOffset']}"
        return error_name(one["ErrorCode"]) + ("" if one["BaseOffset"] == -1 else f"@{one['BaseOffset']}")

    rows = partition_rows(stage, reply.body["Responses"], row, rows="PartitionResponses", index="Index")
    return " ".join(["produce", *rows])


def show_read(stage: Stage, actor: Actor, reply: Reply) -> str:
    def row(one: Body) -> str:
        if one["ErrorCode"]:
            return error_name(one["ErrorCode"])
        aborted = one["AbortedTransactions"]
        out = f"[{' '.join(records(stage, batches_of(one['Records']), aborted or []))}]"
        if aborted is not None:
            pairs = (f"{stage.producer_label(two['ProducerId'])}@{two['FirstOffset']}" for two in aborted)
            out += f" aborted=[{' '.join(pairs)}]"
        out += named(lso=one["LastStableOffset"], hw=one["HighWatermark"])
        return out + (named(start=one["LogStartOffset"]) if one["LogStartOffset"] > 0 else "")

    body = reply.body
    first = [] if not body["ErrorCode"] else [error_name(body["ErrorCode"])]
    rows = partition_rows(stage, body["Responses"], row, name="Topic", index="PartitionIndex")
    return " ".join(["read", *first, *rows])


def records(stage: Stage, batches: list[Kept], aborted: list[Body]) -> list[str]:
    """Offset and value of each record. Brackets mark records that a consumer drops because of aborted transactions."""
    waiting = sorted(aborted, key=lambda one: int(one["FirstOffset"]))
    dropping: set[int] = set()
    out = []
    for batch in batches:
        while waiting and waiting[0]["FirstOffset"] <= batch.last_offset:
            dropping.add(waiting.pop(0)["ProducerId"])
        if batch.is_control:
            is_commit = (batch.records[0][1] or b"")[2:4] == b"\0\1"
            word = "commit" if is_commit else "abort"
            out.append(f"{batch.base_offset}:{word}({stage.producer_label(batch.producer_id)},{batch.producer_epoch})")
            if not is_commit:
                dropping.discard(batch.producer_id)
            continue
        dropped = batch.is_transactional and batch.producer_id in dropping
        for offset, _, value in batch.records:
            text = f"{offset}:{(value or b'').decode()}"
            out.append(f"({text})" if dropped else text)
    return out


def show_list_offsets(stage: Stage, actor: Actor, reply: Reply) -> str:
    def row(one: Body) -> str:
        return error_name(one["ErrorCode"]) if one["ErrorCode"] else str(one["Offset"])

    return " ".join(["list-offsets", *partition_rows(stage, reply.body["Topics"], row, index="PartitionIndex")])


def show_producers(stage: Stage, actor: Actor, reply: Reply) -> str:
    def one_producer(one: Body) -> str:
        out = stage.producer_label(one["ProducerId"]) + named(epoch=one["ProducerEpoch"], seq=one["LastSequence"])
        if one["CoordinatorEpoch"] != -1:
            out += named(coordinator=one["CoordinatorEpoch"])
        return out + (named(open=one["CurrentTxnStartOffset"]) if one["CurrentTxnStartOffset"] != -1 else "")

    def row(one: Body) -> str:
        if one["ErrorCode"]:
            return error_name(one["ErrorCode"])
        return f"[{', '.join(sorted(map(one_producer, one['ActiveProducers'])))}]"

    rows = partition_rows(stage, reply.body["Topics"], row, index="PartitionIndex")
    return " ".join(["describe-producers", *rows])


def show_markers(stage: Stage, actor: Actor, reply: Reply) -> str:
    rows = [
        row for one in reply.body["Markers"]
        for row in partition_rows(stage, one["Topics"], only_code, index="PartitionIndex")
    ]  # fmt: skip
    return " ".join(["write-markers", *rows])


def show_topics(word: str) -> Callable[[Stage, Actor, Reply], str]:
    def show(stage: Stage, actor: Actor, reply: Reply) -> str:
        rows = next(reply.body[name] for name in ("Topics", "Responses", "Results") if name in reply.body)
        found = sorted(f"{repr_text(stage.topic_label(row['Name']))}={only_code(row)}" for row in rows)
        return " ".join([word, *found])

    return show


SHOW: dict[str, Callable[[Stage, Actor, Reply], str]] = {
    "InitProducerId": show_init,
    "AddPartitionsToTxn": show_add_partitions,
    "AddOffsetsToTxn": lambda s, a, r: "txn-add-offsets " + error_name(r.body["ErrorCode"]),
    "TxnOffsetCommit": show_offset_commit,
    "EndTxn": show_end,
    "DescribeTransactions": show_describe,
    "ListTransactions": show_list,
    "Produce": show_produce,
    "Fetch": show_read,
    "ListOffsets": show_list_offsets,
    "DescribeProducers": show_producers,
    "WriteTxnMarkers": show_markers,
    "CreateTopics": show_topics("create-topic"),
    "CreatePartitions": show_topics("grow-topic"),
    "DeleteTopics": show_topics("delete-topic"),
}


def absorb(stage: Stage, actor: Actor, reply: Reply) -> None:
    """What a producer remembers: its id and epoch, and its next sequence number of each partition."""
    body = reply.body
    if reply.api in ("InitProducerId", "EndTxn") and not body["ErrorCode"] and body["ProducerId"] != -1:
        stage.learn_producer(actor, reply.request["TransactionalId"], body["ProducerId"])
        now = (body["ProducerId"], body["ProducerEpoch"])
        if id(reply.request) in stage.unheard:
            return
        if reply.api == "InitProducerId":
            actor.transactional_id = reply.request["TransactionalId"]
        if reply.api == "InitProducerId" or now != actor.producer:
            actor.producer = now
            actor.sequences.clear()
    elif reply.api == "Produce" and id(reply.request) not in stage.unheard:
        sent = {
            (topic_of(stage, topic), row["Index"]): row["Records"]
            for topic in reply.request["TopicData"]
            for row in topic["PartitionData"]
        }
        for topic in body["Responses"]:
            for row in topic["PartitionResponses"]:
                batch = sent.get((topic_of(stage, topic), row["Index"]))
                if batch is None:
                    continue  # the topic id is unknown
                if not row["ErrorCode"] and batch.producer == actor.producer:
                    end = batch.sequence + len(batch.values) & 0x7FFFFFFF  # 0 follows the highest number
                    actor.sequences[topic_of(stage, topic), row["Index"]] = end
    elif reply.api == "CreateTopics":
        for topic in body["Topics"]:
            if not topic["ErrorCode"]:
                stage.topic_ids[stage.topic_label(topic["Name"])] = topic["TopicId"]
