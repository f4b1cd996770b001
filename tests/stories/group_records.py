"""The records of groups that Kafka wrote to `__consumer_offsets` while it played stories, beside those of the core in
the same story. Key and value are the same bytes, in the same order.

python -m tests.stories.group_records [--all] [STORY ...]

plays stories on Kafkas that it starts with the stories' settings, and keeps the records. By default it plays stories
that are not kept, or have changed since. Random values of a run (ids of topics and members, ends of names) are kept
with the records, and the core gets the same values. Times are not compared.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import pathlib
import secrets
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from muster.conform import catalogue
from muster.conform.player import playing, readiness, tcp
from muster.conform.player.brokers import connect
from muster.conform.player.story import Reply, Send, Story
from muster.coordinator.log.records import batches
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue
from muster.protocol.records import OFFSETS, encode_record
from tests.stories.virtual import Chance, VirtualDriver
from tests.support.servers import KafkaServer

KEPT = pathlib.Path(__file__).with_name("group-records.json.gz")
NAMES = ("consumer-group-", "migration-", "share-group-", "streams-group-")
"""The records of groups are kept for stories whose names begin so."""
NOT_KEPT = {
    "streams-group-rack-tags": "it changes the config of a group, which the core does not answer",
    "streams-group-version-off": "it changes a feature of the server, which the core does not answer",
    "streams-group-deleted-source": "a topic that the server makes is deleted, so nobody knows its id afterwards",
}
"""Other stories, and why the core cannot write their records again."""
TRIES = 3
"""How often a story is played while it differs from its file: a busy machine may be late."""
TIMES = ("assignment_timestamp", "commit_timestamp", "current_state_timestamp", "timestamp")
OF_THE_METADATA_LOG = ("version",)
"""A field of a regular expression's record: the version of the topics, which is an offset of Kafka's metadata log."""

Pair = tuple[bytes, bytes | None]


class Kept(NamedTuple):
    """A story as Kafka played it: its text, its random values, and the records."""

    text: str
    chance: Chance
    records: list[Pair]


def stories() -> list[Story]:
    """The stories whose records are kept."""
    return [one for one in catalogue.stories() if one.name.startswith(NAMES) and one.name not in NOT_KEPT]


def ours(story: Story, chance: Chance) -> list[Pair]:
    """The records of the core."""
    driver = VirtualDriver(story, chance=chance)
    driver.run()
    return [encode_record(OFFSETS, record) for record in driver.written]


def without_times(pair: Pair) -> Pair:
    """The same record, without times. Fails when our codec would write other bytes than Kafka's."""
    key, value = pair
    record_type, key_message = OFFSETS.decode_key(key)
    if value is None:
        return key, None
    version, message = OFFSETS.decode_value(record_type, value)
    assert encode_record(OFFSETS, Record(key_message, message, version)) == (key, value), (key, value)
    if isinstance(message, GroupMetadataValue):  # a classic group: Kafka writes it in the order of a hash table
        message.members = sorted(message.members, key=lambda member: member.member_id)
    for name in TIMES + OF_THE_METADATA_LOG:
        if isinstance(getattr(message, name, None), int):
            # 0, which means that none exists, is kept
            setattr(message, name, min(getattr(message, name), 1))
    return encode_record(OFFSETS, Record(key_message, message, version))


def described(pair: Pair) -> str:
    """A record as text."""
    record_type, key = OFFSETS.decode_key(pair[0])
    value = None if pair[1] is None else OFFSETS.decode_value(record_type, pair[1])[1]
    return f"{_told(key)} = {'tombstone' if value is None else _told(value)}"


def _told(message: Any) -> str:
    if isinstance(message, Message):
        return "(" + " ".join(f"{name}={_told(getattr(message, name))}" for name in message.__slots__) + ")"
    if isinstance(message, bytes):
        return message.hex() if len(message) == 16 else repr(message)
    if isinstance(message, list | tuple):
        return "[" + ", ".join(map(_told, message)) + "]"
    return repr(message)


# ---- the file


def kept() -> dict[str, Kept]:
    """The kept stories by name."""
    rows = json.loads(gzip.decompress(KEPT.read_bytes()))
    return {name: _kept(row) for name, row in rows.items()}


def _kept(row: dict[str, Any]) -> Kept:
    chance = Chance(
        row["suffix"],
        {name: [uuid.UUID(one) for one in ids] for name, ids in row["topics"].items()},
        {int(number): drawn for number, drawn in row["drawn"].items()},
    )
    records = [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in row["records"]]
    return Kept(row["text"], chance, records)


def _as_json(one: Kept) -> dict[str, Any]:
    return {
        "text": one.text,
        "suffix": one.chance.suffix,
        "topics": {name: [str(topic_id) for topic_id in ids] for name, ids in one.chance.topic_ids.items()},
        "drawn": one.chance.drawn,
        "records": [(key.hex(), None if value is None else value.hex()) for key, value in one.records],
    }


def keep(found: dict[str, Kept]) -> None:
    """Write the file."""
    text = json.dumps({name: _as_json(one) for name, one in sorted(found.items())})
    KEPT.write_bytes(gzip.compress(text.encode(), mtime=0))


# ---- from a Kafka


async def play(host: str, port: int, story: Story, topic_ids: dict[str, uuid.UUID]) -> Kept:
    """Play a story; its records are not known yet."""
    suffix = "~" + secrets.token_hex(4)
    driver = tcp.Driver(host, port)
    ids: dict[str, list[uuid.UUID]] = {}
    joins: dict[int, dict[str, Any]] = {}
    drawn: dict[int, str] = {}
    tell = driver.on_reply

    def on_reply(reply: Reply) -> None:
        if reply.api == "CreateTopics":
            for topic in reply.body["Topics"]:
                ids.setdefault(topic["Name"], []).append(topic["TopicId"])
        number = next((n for n, body in joins.items() if body is reply.request), None)
        if number is not None and not reply.request["MemberId"] and reply.body["MemberId"]:
            drawn[number] = as_uuid(reply.body["MemberId"])
        tell(reply)

    driver.on_reply = on_reply
    tail = suffix.replace("~", "-")
    own = {name + tail: count for name, count in story.own_topics.items() if count}
    if own:
        made = await driver.create_topics(own)
        ids |= {name: [made[name]] for name in own}
        topic_ids = {**topic_ids, **{name.removesuffix(tail): made[name] for name in own}}
    ids |= {name: [topic_ids[name]] for name in story.topics}
    steps = playing.play(story, suffix, topic_ids)
    answer: list[Reply] | None = None
    try:
        while True:
            action = steps.send(answer)
            if isinstance(action, Send) and action.api in ("JoinGroup", "ConsumerGroupHeartbeat"):
                joins[len(joins)] = action.body
            answer = await driver.act(action)
    except StopIteration as end:
        await _add_internal_topics(driver, tail, ids)
        return Kept(end.value, Chance(suffix, ids, drawn), [])
    finally:
        if own:
            await driver.delete_topics(own)
        await driver.close()


async def _add_internal_topics(driver: tcp.Driver, tail: str, ids: dict[str, list[uuid.UUID]]) -> None:
    """Add the ids of the topics that the server made for an application. The story does not delete them."""
    runner = await connect(driver.host, driver.port)
    found = await runner.ask("Metadata", 12, {"Topics": None, "AllowAutoTopicCreation": False})
    await runner.close()
    for topic in found["Topics"]:
        if topic["Name"].endswith(tail):
            ids.setdefault(topic["Name"], [topic["TopicId"]])


def as_uuid(member_id: str) -> str:
    """The random part of a member id: behind the client's name, or all of it in base64."""
    if len(member_id) == 22:
        return str(uuid.UUID(bytes=base64.urlsafe_b64decode(member_id + "==")))
    return member_id[-36:]


def records_of(folder: pathlib.Path) -> Iterator[tuple[str, Pair]]:
    """All records of a partition of `__consumer_offsets`: group, record."""
    for path in sorted(folder.glob("*.log")):
        for header, rows in batches.read(path.read_bytes()):
            for row in [] if header.is_control else rows:
                assert row.key is not None
                key = OFFSETS.decode_key(bytes(row.key))[1]
                group = getattr(key, "group_id", None) or getattr(key, "group", "")
                yield group, (bytes(row.key), row.value and bytes(row.value))


async def record(host: str, port: int, folder: pathlib.Path, chosen: Iterable[Story]) -> dict[str, Kept]:
    """Play stories, and read what Kafka has written; a story that differs from its file is left out."""
    runner = await connect(host, port)
    known: readiness.Ready = {}
    found: dict[str, Kept] = {}
    for story in chosen:
        for _ in range(TRIES):
            one = await play(host, port, story, await readiness.prepare(runner, known, story))
            if one.text == story.text:
                pairs = [pair for group, pair in records_of(folder) if group.endswith(one.chance.suffix)]
                found[story.name] = one._replace(records=pairs)
                break
        else:
            print(f"{story.name} went otherwise:\n{one.text}", flush=True)
    await runner.close()
    return found


def record_each(chosen: Iterable[Story]) -> dict[str, Kept]:
    """Play stories on Kafkas with their settings, one after the other."""
    found: dict[str, Kept] = {}
    by_settings: dict[tuple[tuple[str, str], ...], list[Story]] = {}
    for story in chosen:
        by_settings.setdefault(tuple(story.broker.items()), []).append(story)
    for settings, some in by_settings.items():
        of_one = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        one_each = {f"{topic}.num.partitions": "1" for topic in of_one}
        with tempfile.TemporaryDirectory() as folder:
            server = KafkaServer(pathlib.Path(folder), {**dict(settings), **one_each})
            server.start()
            try:
                (log,) = pathlib.Path(folder).rglob("__consumer_offsets-0")
                found |= asyncio.run(record(*server.address, log, some))
            finally:
                server.kill()
    return found


def main() -> None:
    """Run the command line that the module describes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stories", nargs="*", help="their names")
    parser.add_argument("--all", action="store_true", help="all of them anew")
    args = parser.parse_args()
    before = kept() if KEPT.exists() else {}
    missing = [one for one in stories() if args.all or one.name not in before or before[one.name].text != one.text]
    found = record_each([one for one in stories() if one.name in args.stories] if args.stories else missing)
    now = {**before, **found}
    keep({story.name: now[story.name] for story in stories() if story.name in now})
    print(f"{len(found)} stories, {sum(len(one.records) for one in found.values())} records")


if __name__ == "__main__":
    main()
