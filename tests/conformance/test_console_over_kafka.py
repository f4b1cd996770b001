"""`muster console`, `top` and `exporter` over a Kafka 4.4 with 200 groups of all types, and with ACLs."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from muster.cli.top.cells import group_cells, member_cells, offset_cells
from muster.cli.top.reader import ClusterReader
from muster.coordinator.config.listeners import parse_addresses
from tests.conformance.browser import browsing, chromium
from tests.conformance.many_groups import LASTING, fill, leave, names
from tests.conformance.test_console import (
    HOSTILE,
    axe,
    fetched,
    follow_events,
    row_of,
    type_and_confirm,
    walk_through,
)
from tests.e2e.aio import consuming, producing
from tests.support.servers import KafkaServer, MusterServer, free_ports

__all__ = ["axe"]
OF_EACH_TYPE = 50
KINDS = ("classic", "consumer", "share", "streams")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROPERTIES = {
    **LASTING,
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "6",
    "offsets.topic.num.partitions": "10",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_reader="secret";',
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
MAY = (
    (ResourceType.GROUP, "consumer-", ResourcePatternType.PREFIXED, AclOperation.DESCRIBE),
    (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
)
"""What the user "reader" may do."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaServer, str]]:
    """A Kafka with 200 groups, and the address for users with a password."""
    folder, first = tmp_path_factory.mktemp("kafka"), free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{first},SASL_PLAINTEXT://127.0.0.1:{first + 2}"
    server = KafkaServer(folder, {**PROPERTIES, "advertised.listeners": listeners,
                                  "listeners": f"{listeners},CONTROLLER://127.0.0.1:{first + 1}"})  # fmt: skip
    server.bootstrap = f"127.0.0.1:{first}"
    server.start()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("orders", 6)])["orders"].result()
    rows = [AclBinding(*one[:3], "User:reader", "*", one[3], AclPermissionType.ALLOW) for one in MAY]
    for done in admin.create_acls(rows).values():
        done.result()

    async def fill_it() -> None:
        async with producing(server.bootstrap) as producer:
            for number in range(60):
                await producer.send_and_wait("orders", b"x", partition=number % 6)
        # the groups `checkout` and `HOSTILE` are classic ones too
        await fill(server.address, "orders", {**dict.fromkeys(KINDS, OF_EACH_TYPE), "classic": OF_EACH_TYPE - 2})

    asyncio.run(fill_it())
    yield server, f"127.0.0.1:{first + 2}"
    server.stop()


@asynccontextmanager
async def program_over(workdir: Path, bootstrap: str, *words: str) -> AsyncIterator[str]:
    """The address that `muster console` or `exporter` over a cluster prints."""
    process = await asyncio.create_subprocess_exec(
        MusterServer(workdir).executable, *words, "--bootstrap-server", bootstrap, "--http", "127.0.0.1:0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    try:
        yield line.split()[-1].rstrip("/")
    finally:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
async def test_a_console_over_a_kafka_with_200_groups(kafka: tuple[KafkaServer, str], tmp_path: Path, axe: str) -> None:
    server, _ = kafka
    async with AsyncExitStack() as clients:
        first = await clients.enter_async_context(
            consuming(server.bootstrap, "orders", group_id="checkout", client_id="one")
        )
        await clients.enter_async_context(consuming(server.bootstrap, "orders", group_id=HOSTILE, client_id=HOSTILE))
        base = await clients.enter_async_context(program_over(tmp_path, server.bootstrap, "console"))
        page = await clients.enter_async_context(browsing())
        await page.open(f"{base}/#/?order=members")
        await page.until(f"{row_of('checkout')} && {row_of(HOSTILE)}")
        about = await fetched(f"{base}/console/about")
        assert (about["types"], about["inferred"]) == (dict.fromkeys(KINDS, OF_EACH_TYPE), True)
        await page.until("document.querySelector('caption').textContent.includes('200 in all')")
        for kind in KINDS:  # each type has its list, and each group its lag
            found = (await fetched(f"{base}/console/groups?type={kind}&order=name&limit=100"))["groups"]
            idle = {row["group"]: row for row in found if row["group"].startswith(f"{kind}-")}
            assert sorted(idle) == names(kind, len(idle))
            assert {row["lag"] for row in idle.values()} == set(range(1, 11)), kind
            assert {row["members"] for row in idle.values()} == {0 if kind == "classic" else 1}
            if kind != "classic":
                events = (await fetched(f"{base}/console/groups/{kind}-000/history"))["events"]
                assert {"member_joined", "epoch_reconciled"} <= {one["kind"] for one in events}, kind
        await page.open(f"{base}/#/groups/checkout")
        await page.until("document.querySelector('#events li')")
        second = await clients.enter_async_context(
            consuming(server.bootstrap, "orders", group_id="checkout", client_id="two")
        )
        await asyncio.gather(first.getmany(timeout_ms=500), second.getmany(timeout_ms=500))
        await page.until("document.querySelectorAll('#chart .hold').length >= 2")
        kinds = await follow_events(page, base, "checkout")
        assert kinds.count("rebalance_completed") == 2
        await leave(server.address, "share-009")
        share = f"{base}/console/groups/share-009"
        for action, offsets in (
            ({"action": "reset_offsets", "to": 4}, [4, 4, 4, 4, 4, 4]),
            ({"action": "delete_offsets"}, []),
        ):
            done = await fetched(f"{share}/actions", {**action, "topic": "orders", "confirm": "share-009"})
            assert "done" in done
            assert [one["offset"] for one in (await fetched(f"{share}/offsets"))["offsets"]] == offsets
        pages = ("", "topics/orders", "cluster", "groups/checkout", *(f"groups/{kind}-000" for kind in KINDS))
        await walk_through(page, base, axe, "kafka", pages)


@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
async def test_a_console_shows_and_changes_what_its_user_may(
    kafka: tuple[KafkaServer, str], tmp_path: Path, axe: str
) -> None:
    config = tmp_path / "reader.properties"
    login = f'{PLAIN} username="reader" password="secret";'
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n", encoding="utf-8"
    )
    words = ("console", "--command-config", str(config))
    async with program_over(tmp_path, kafka[1], *words) as base, browsing() as page:
        await page.open(f"{base}/")
        await page.until(row_of("consumer-007"))
        assert (await fetched(f"{base}/console/about"))["types"] == {"consumer": OF_EACH_TYPE}
        # it says why it has no events
        await page.until("document.querySelector('main .problem').textContent.includes('TOPIC_AUTHORIZATION_FAILED')")
        await page.open(f"{base}/#/groups/consumer-007")
        await page.until("document.querySelector('.now').textContent.includes('1 member has 6 partitions')")
        await page.until("document.body.textContent.includes('events are inferred from __consumer_offsets, but')")
        page.errors.clear()  # the browser notes each refused request
        for button in ("Delete the group", "Reset offsets", "Delete offsets"):
            text = await type_and_confirm(page, button, "consumer-007")
            assert "Nothing was changed" in text
            assert "GROUP_AUTHORIZATION_FAILED" in text or button == "Reset offsets"
        await page.open(f"{base}/#/groups/share-007")
        await page.until("document.getElementById('problem').textContent.includes('may not see group share-007')")
        await page.open(f"{base}/#/cluster")
        await page.until("document.querySelector('table')")
        page.errors.clear()
        await walk_through(page, base, axe, "acls", ("cluster", "topics", "topics/orders"))


def test_top_shows_groups_of_all_types(kafka: tuple[KafkaServer, str]) -> None:
    reader = ClusterReader(parse_addresses(kafka[0].bootstrap, "bootstrap"), None)
    try:
        reader.read()
        for kind in KINDS:
            name = f"{kind}-003"
            row = group_cells(reader.groups.groups[name])
            assert row[:2] == (name, kind)
            assert row[3:5] == ("0" if kind == "classic" else "1", "7")
            now = reader.read_group(name)
            assert now.found is not None
            (place,) = [cells[:5] for cells in offset_cells(now.offsets, now.found)]
            assert place == ("orders", "0", "3", "10", "7")
            if kind != "classic":
                (member,) = member_cells(now.found)
                assert (member[0], member[3]) == (f"{name}-member", "6")
    finally:
        reader.close()


async def test_the_exporter_has_groups_of_all_types(kafka: tuple[KafkaServer, str], tmp_path: Path) -> None:
    async with program_over(tmp_path, kafka[0].bootstrap, "exporter") as address:

        def scraped() -> str:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                return str(answer.read().decode())

        text = await asyncio.to_thread(scraped)
    for kind in KINDS:
        labels = f'{{consumergroup="{kind}-003",partition="0",topic="orders"}}'
        assert f"kafka_consumergroup_lag{labels} 7\n" in text, kind
        assert f'_group_count{{protocol="{kind}"}} ' in text
