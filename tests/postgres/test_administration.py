"""`muster cluster init | upgrade | status`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from muster.cli import main
from muster.cli.cluster import lines
from muster.postgres import administration, schema
from muster.postgres.administration import ClusterStatus, NodeStatus, Status, warnings
from muster.postgres.postgres import PostgresStore
from muster.postgres.store import DEAD, BatchRow, Changes, LogRow, MetadataRow, SegmentRow
from tests.postgres.stores import postgres_store
from tests.support.postgres import own_database


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """A database without tables."""
    with own_database(postgres) as url:
        yield url


def test_a_cluster_is_initialized_in_an_empty_database(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "status", database]) == 0
    assert "no Muster tables: run `muster cluster init URL`" in capsys.readouterr().out
    assert main(["cluster", "upgrade", database]) == 1
    assert "run `muster cluster init URL`" in capsys.readouterr().err
    assert main(["cluster", "init", database, "--cluster-id", "mine"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("tables of version 1: ")
    assert out.splitlines()[-1] == "the cluster muster is made, with the id mine"
    assert main(["cluster", "init", database]) == 0
    assert capsys.readouterr().out == "the cluster muster is there, with the id mine\n"
    assert main(["cluster", "init", database, "--cluster-id", "yours"]) == 1
    assert "has the id mine, not yours" in capsys.readouterr().err
    assert main(["cluster", "init", database, "--name", "second"]) == 0
    capsys.readouterr()
    assert main(["cluster", "upgrade", database]) == 0
    assert capsys.readouterr().out == f"the tables are of version {schema.NEWEST}, the newest one\n"
    assert main(["cluster", "status", database]) == 0
    out = capsys.readouterr().out
    assert "cluster muster (mine): 0 partitions" in out
    assert "cluster second (" in out
    assert out.count("nobody serves") == 2
    assert main(["cluster", "status", database, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["clusters"]] == ["muster", "second"]


async def test_tables_of_a_newer_version_are_not_changed(database: str) -> None:
    import asyncpg

    await administration.init(database, "x", administration.Identity("i", "d"))
    connection = await asyncpg.connect(database)
    await connection.execute("INSERT INTO muster_schema VALUES (999, 'of tomorrow', now())")
    await connection.close()
    with pytest.raises(administration.StoreRefused, match="999"):
        await administration.upgrade(database)
    found = await administration.status(database)
    assert (found.version, found.clusters) == (999, ())
    assert "a newer Muster has made them" in "\n".join(lines(found))


async def test_a_migration_that_fails_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = schema.NEWEST
    bad = schema.Migration(newest + 1, "of tomorrow", ("CREATE TABLE muster_more (a integer)", "CREATE TABEL x"))
    await administration.init(database, "x", administration.Identity("i", "d"))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
    monkeypatch.setattr(schema, "NEWEST", newest + 1)
    with pytest.raises(administration.StoreAway):
        await administration.upgrade(database)
    assert (await administration.status(database)).version == newest
    good = schema.Migration(newest + 1, "of tomorrow", ("CREATE TABLE muster_more (a integer)",))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:-1], good))
    assert await administration.upgrade(database) == [good]
    assert (await administration.status(database)).version == newest + 1


async def test_the_metadata_log_of_version_1_is_migrated(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncpg

    migrations = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", migrations[:1])
    connection = await asyncpg.connect(database)
    await administration._migrate(connection, 0)
    for statement in (
        "INSERT INTO muster_clusters VALUES (1, 'muster', 'id', 'AAAAAAAAAAAAAAAAAAAAAQ', now())",
        "INSERT INTO muster_offices VALUES (1, 7, 3, 'x', 'x:1', now())",
        "INSERT INTO muster_logs VALUES (1, 1, '__cluster_metadata', 0, 'm', 0), (1, 2, 't', 0, 't', 0)",
        "INSERT INTO muster_segments VALUES (1, 16777216, 1, 0, 0), (1, 2, 2, 0, 0), (1, 3, 1, 0, 1)",
        "INSERT INTO muster_batches VALUES (1, 16777216, 0, 3, 7, 'a'), (1, 16777216, 3, 4, 7, 'b'), "
        "(1, 2, 0, 9, 7, 'c'), (1, 3, 0, 3, 7, 'd')",
    ):
        await connection.execute(statement)
    await connection.close()
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    assert [one.version for one in await administration.upgrade(database)] == [2, 3, 4, 5, 6]
    store = PostgresStore(database, "muster", timeout_ms=30_000)
    rows = [(row.base_offset, row.next_offset, row.data) for row in await store.metadata(0)]
    assert rows == [(0, 3, b"a"), (3, 4, b"b")]
    assert [row.topic for row in await store.logs()] == ["t"]
    assert {row.state for row in await store.segments(1)} == {DEAD}
    registration = await store.register_node("a", "a:1", None, 60_000)
    assert registration is not None
    assert registration.epoch == 8
    await store.close()


async def test_status_counts(postgres: str) -> None:
    store = await postgres_store(postgres)
    registration = await store.register_node("a", "a:9092", None, 60_000)
    other = await store.register_node("b", "b:9092", None, 60_000)
    assert registration is not None
    assert other is not None
    await store.unregister_node(other.node_id, other.epoch)
    changes = Changes(
        new_logs=[LogRow(1, "t", 0, bytes(16), 0)],
        new_segments=[SegmentRow(1, 1, 0), SegmentRow(2, 1, 3)],
        batches=[BatchRow(1, 0, 3, b"abc"), BatchRow(2, 3, 4, b"d")],
        dead=[1],
    )
    assert await store.commit(registration.node_id, registration.epoch, 1, 0, changes, 60_000)
    assert await store.write_metadata(MetadataRow(0, 5, "w", b"x"))
    cluster_id = (await store.identity()).cluster_id
    await store.close()
    found = next(one for one in (await administration.status(postgres)).clusters if one.cluster_id == cluster_id)
    assert (found.logs, found.segments, found.dead_segments, found.rows, found.bytes) == (1, 1, 1, 2, 4)
    assert found.metadata_offset == 5
    assert [(node.node_id, node.address, node.lease_ms > 0) for node in found.nodes] == [
        (1, "a:9092", True),
        (2, "b:9092", False),
    ]


def test_the_cluster_commands_print_the_status() -> None:
    nodes = (NodeStatus(1, "a:9092", 7, 8_000), NodeStatus(2, "b:9092", 8, -200))
    cluster = ClusterStatus("muster", "id", 40, 105, 107, 2, 1_000, 2_500_000, nodes)
    assert lines(Status("18.4", schema.NEWEST, (cluster,), ("careful",))) == [
        "PostgreSQL 18.4",
        "cluster muster (id): 105 partitions, 107 segments, 1000 rows, 2.5 MB; 2 segments wait for their removal",
        "  node 1, a:9092, serves; its lease has 8000 ms left",
        "  node 2, last at b:9092, is not running",
        "warning: careful",
    ]
    gone = cluster._replace(nodes=nodes[1:], dead_segments=0)
    assert lines(Status("18.4", schema.NEWEST, (gone,), ()))[-2:] == [
        "  nobody serves",
        "  node 2, last at b:9092, is not running",
    ]
    assert "muster cluster upgrade URL" in lines(Status("18.4", -1, (), ()))[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"synchronous_commit": "on", "synchronous_standby_names": "ANY 1 (*)", "fsync": "on"}, []),
        ({"synchronous_commit": "remote_apply", "synchronous_standby_names": "s"}, []),
        ({"synchronous_commit": "on", "synchronous_standby_names": ""}, ["synchronous_standby_names is empty"]),
        ({"synchronous_commit": "off", "synchronous_standby_names": "s"}, ["synchronous_commit=off"]),
        ({"synchronous_commit": "local", "synchronous_standby_names": "s"}, ["synchronous_commit=local"]),
        ({"synchronous_commit": "remote_write", "synchronous_standby_names": "s"}, ["synchronous_commit=remote_write"]),
        ({"fsync": "off", "synchronous_standby_names": "s"}, ["fsync=off"]),
        ({"full_page_writes": "off", "synchronous_standby_names": "s"}, ["full_page_writes=off"]),
        ({}, []),
    ],
)
def test_the_durability_of_the_database_settings_is_reported(settings: dict[str, str], said: list[str]) -> None:
    found = warnings(settings)
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


def test_an_unreachable_database_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "status", "postgresql://u@127.0.0.1:1/d"]) == 1
    assert capsys.readouterr().err.startswith("muster cluster: the database cannot be reached: ")


def test_the_cluster_commands_name_the_missing_asyncpg(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from muster.postgres import url

    monkeypatch.setattr(url, "find_spec", lambda _: None)
    assert main(["cluster", "status", "postgresql://x/y"]) == 1
    assert "pip install 'muster-kafka[cluster]'" in capsys.readouterr().err


def test_an_empty_cluster_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "init", "postgresql://x/y", "--name", " "]) == 1
    assert "--name is empty" in capsys.readouterr().err
