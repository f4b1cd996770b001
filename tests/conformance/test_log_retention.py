"""Retention on a real Kafka and on Muster, by the wall clock: the same stories, and the same records in the logs.

The stories of conform/stories/retention take up to 100 s each; here all stories are played at once, on both servers.
"""

from __future__ import annotations

import asyncio
import difflib
from pathlib import Path
from typing import Any

import pytest

from muster.conform import catalogue
from muster.conform.player.tcp import play_over_tcp
from muster.coordinator.log import batches
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey
from muster.protocol.records import OFFSETS
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

STORIES = catalogue.stories([catalogue.RETENTION])
BROKER = {name: value for story in STORIES for name, value in story.broker.items()}
SETTINGS = {**BROKER, "offsets.topic.num.partitions": "10", "log.cleaner.enable": "false"}
MOMENTS = frozenset({"commit_timestamp", "expire_timestamp", "current_state_timestamp"})
DRAWN = frozenset({"topic_id", "member_id", "leader", "client_host"})
"""Fields that always differ."""

Facts = tuple[int, Any] | None
Where = tuple[str, int] | tuple[()]


async def play_all(address: tuple[str, int]) -> dict[str, str]:
    """The text of each story as it went, all of them played at the same time."""
    texts = await asyncio.gather(*(play_over_tcp(*address, story) for story in STORIES))
    return {story.name: text for story, text in zip(STORIES, texts, strict=True)}


def facts(value: Any) -> Any:
    """A message as plain data, without random values and timestamps; of a time only whether it is set."""
    if isinstance(value, list):
        return sorted((facts(one) for one in value), key=str)  # Kafka's order of members is that of a hash map
    if not hasattr(value, "__slots__"):
        return value
    reported = {name: facts(getattr(value, name)) for name in value.__slots__ if name not in DRAWN}
    return {name: (one == -1 if name in MOMENTS else one) for name, one in reported.items()}


def records_of(folder: Path) -> dict[str, dict[Where, list[Facts]]]:
    """What each group's records say, for each key in their order: (value version, value), or None for a tombstone.

    Kafka's hash maps decide the order of the keys within one search for expired ones, but the group comes last.
    """
    groups: dict[str, dict[Where, list[Facts]]] = {}
    for path in sorted(folder.glob("**/__consumer_offsets-*/*.log")):
        for header, records in batches.read(path.read_bytes()):
            for record in [] if header.is_transactional else records:  # these records were never committed
                assert record.key is not None
                kind, key = OFFSETS.decode_key(bytes(record.key))
                value = None if record.value is None else OFFSETS.decode_value(kind, bytes(record.value))
                group = groups.setdefault(key.group, {})
                where = (key.topic, key.partition) if isinstance(key, OffsetCommitKey) else ()
                group.setdefault(where, []).append(value and (value[0], facts(value[1])))
                left = [key for key, said in group.items() if said[-1] is not None]
                assert not left or group.get((), [0])[-1] is not None, "the group went before its offsets"
    return groups


def as_text(groups: dict[str, dict[Where, list[Facts]]]) -> list[str]:
    """The records as text, without the names that the stories gave the groups."""
    return sorted(str(sorted(group.items())) for group in groups.values())


@pytest.mark.timeout(400)
def test_expired_offsets_and_their_records_equal_kafkas(tmp_path: Path) -> None:
    servers: list[ServerProcess] = [
        KafkaServer(tmp_path / "kafka", SETTINGS),
        MusterServer(tmp_path / "muster", SETTINGS),
    ]
    for server in servers:
        server.start()

    async def play() -> list[dict[str, str]]:
        return list(await asyncio.gather(*(play_all(server.address) for server in servers)))

    try:
        texts = asyncio.run(play())
    finally:
        for server in servers:
            server.stop()
    differences = [
        f"{server.name}:\n"
        + "\n".join(difflib.unified_diff(story.text.splitlines(), played[story.name].splitlines(), lineterm=""))
        for server, played in zip(servers, texts, strict=True)
        for story in STORIES
        if played[story.name] != story.text
    ]
    assert not differences, "\n\n".join(differences)
    written = [as_text(records_of(server.workdir)) for server in servers]
    assert written[0] == written[1]
    assert len(written[0]) >= len(STORIES)
