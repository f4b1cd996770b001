"""The server stops and starts again: committed offsets, records, topics and groups are as before."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition

from tests.e2e.aio import Member, administering, consuming, members, producing, read, send_numbered, shared_out
from tests.e2e.conftest import SERVER, create_topic
from tests.e2e.ledger import Ledger, eventually
from tests.support import wire
from tests.support.servers import ServerProcess

PARTITIONS = 8
Start = Callable[..., ServerProcess]
RETRYING = {"request_timeout_ms": 20000, "retry_backoff_ms": 50}


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_a_group_continues_after_a_restart_of_the_server(start_server: Start, how: str) -> None:
    """Clients stay, with half of the records committed. No committed record comes again, and none is lost."""
    server, topic, group, ledger = start_server(), "restarted", "restarted-group", Ledger()
    create_topic(server, topic, PARTITIONS)
    trio = [Member(name, ledger, server.bootstrap, [topic], group, **RETRYING) for name in ("a", "b", "c")]
    async with members(*trio):
        await shared_out(trio, PARTITIONS)
        await send_numbered(server.bootstrap, topic, PARTITIONS, 160)
        await eventually(lambda: len(ledger) == 160, "160 records")
        for member in trio:
            await member.commit()
        if how == "SIGTERM":
            server.stop()
        else:
            server.kill()
        server.start()
        await send_numbered(server.bootstrap, topic, PARTITIONS, 160, first=160)
        await eventually(lambda: len(ledger) == 320, "320 records")
    assert not ledger.twice
    assert ledger.offsets(topic) == {partition: list(range(40)) for partition in range(PARTITIONS)}
    async with consuming(server.bootstrap, group_id=group) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        assert [await consumer.committed(partition) for partition in partitions] == [40] * PARTITIONS


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_new_consumers_resume_at_the_committed_offsets_after_a_restart(start_server: Start, how: str) -> None:
    server, topic, group = start_server(), "resumed", "resumed-group"
    create_topic(server, topic, 2)
    values: list[bytes] = []
    for day in range(3):
        await send_numbered(
            server.bootstrap, topic, 2, 40, first=40 * day, compression_type=[None, "gzip", "zstd"][day]
        )
        async with consuming(server.bootstrap, topic, group_id=group) as consumer:
            values += [record.value for record in await read(consumer, 30)]
            await consumer.commit()
        if how == "SIGTERM":
            server.stop()
        else:
            server.kill()
        server.start()
    async with consuming(server.bootstrap, topic, group_id=group) as consumer:
        values += [record.value for record in await read(consumer, 30)]
    assert sorted(map(int, values)) == list(range(120))


async def test_topics_keep_their_ids_and_partitions_after_a_restart(start_server: Start) -> None:
    server = start_server({"auto.create.topics.enable": "false"})
    create_topic(server, "kept", 3)
    create_topic(server, "gone", 1)
    async with administering(server.bootstrap) as admin:
        await admin.delete_topics(["gone"])
    server.stop()
    server.start()
    async with administering(server.bootstrap) as admin:
        (kept, gone) = await admin.describe_topics(["kept", "gone"])
    assert len(kept["partitions"]) == 3
    assert gone["error_code"] == 3
    create_topic(server, "gone", 2)
    async with consuming(server.bootstrap, "gone") as consumer:
        partitions = [TopicPartition("gone", 0), TopicPartition("gone", 1)]
        assert await consumer.end_offsets(partitions) == dict.fromkeys(partitions, 0)


@pytest.mark.skipif(SERVER == "kafka", reason="Kafka answers no parked JoinGroup when it stops")
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_parked_join_is_answered_when_the_server_stops(start_server: Start, signal_number: int) -> None:
    server = start_server({"group.initial.rebalance.delay.ms": "60000"}, in_memory=True)
    with socket.create_connection(server.address, timeout=60) as connection:
        assert wire.read_error(wire.call(connection, wire.find_coordinator("g"))) == 0
        answer = wire.read_join_group(wire.call(connection, wire.join_group("g", "")))
        if answer.error_code == 79:  # MEMBER_ID_REQUIRED: join once more, with the id
            connection.sendall(wire.frame(wire.join_group("g", answer.member)))
        # a second connection's answer shows that the server has read the first one's request
        with socket.create_connection(server.address, timeout=60) as other:
            wire.call(other, wire.api_versions())
        out = server.stop(signal_number)
        parked = wire.read_join_group(wire.receive(connection))
        assert parked.error_code in (14, 15, 16, 25, 27)
        with pytest.raises((EOFError, ConnectionError)):
            wire.receive(connection)
    assert out == b""


async def test_an_idempotent_producer_continues_after_a_restart(start_server: Start) -> None:
    """An idempotent producer continues its sequence numbers: nothing is lost and nothing is doubled."""
    server, topic = start_server(), "ridden"
    create_topic(server, topic, 1)
    async with producing(server.bootstrap, enable_idempotence=True, **RETRYING) as producer:
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number)
        server.stop()
        waiting = [await producer.send(topic, b"%d" % number) for number in range(20, 40)]
        server.start()
        offsets = [(await future).offset for future in waiting]
    assert offsets == list(range(20, 40))
    async with consuming(server.bootstrap, topic) as consumer:
        assert [record.value for record in await read(consumer, 40)] == [b"%d" % number for number in range(40)]
