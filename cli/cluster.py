"""`muster cluster` makes, upgrades and shows the tables in PostgreSQL that the nodes of a cluster share."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Final

from muster.cli.output import fail
from muster.coordinator.log.checkpoints import encode_uuid
from muster.coordinator.system import uuids
from muster.postgres import schema
from muster.postgres.store import Identity, StoreAway, StoreRefused
from muster.postgres.url import MissingExtra, check

if TYPE_CHECKING:
    from muster.postgres.administration import ClusterStatus, Status


COMMAND: Final = "muster cluster"


def run(options: argparse.Namespace) -> int:
    """Run the command. Exit status 1: the database refused or did not answer; 2: the URL is wrong."""
    url = getattr(options, "url", None)
    wrong = None if url is None else wrong_url(url)
    if wrong is not None:
        return fail(COMMAND, wrong, 2)
    try:
        check()
    except MissingExtra as error:
        return fail(COMMAND, error)
    try:
        return asyncio.run(_ACTIONS[options.action](options))
    except StoreRefused as error:
        return fail(COMMAND, error)
    except StoreAway as error:
        return fail(COMMAND, f"the database cannot be reached: {_why(error)}; is PostgreSQL running there?")


def wrong_url(url: str) -> str | None:
    """The fault in the URL of a database; None when the URL looks right. The result shows no password."""
    if url.startswith(("postgresql://", "postgres://")):
        return None
    scheme, separator, _ = url.partition("://")
    given = f"begins with {scheme}://" if separator else "is no URL of PostgreSQL"
    return f"the address of the database {given}; postgresql://USER@HOST/DATABASE was expected"


def _why(error: Exception) -> str:
    """The operating system's words for an error. asyncio has replaced them by a text of its own."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(error)


async def _init(options: argparse.Namespace) -> int:
    from muster.postgres import administration

    if not options.name.strip():
        return fail(COMMAND, "--name is empty; give the cluster a name, or none for the default one")
    cluster_id = options.cluster_id or encode_uuid(uuids.draw_uuid())
    identity = Identity(cluster_id, encode_uuid(uuids.draw_uuid()))
    done, found, is_new = await administration.init(options.url, options.name, identity)
    for migration in done:
        print(f"tables of version {migration.version}: {migration.about}")
    if options.cluster_id is not None and found != options.cluster_id:
        return fail(COMMAND, f"the cluster {options.name} exists, and has the id {found}, not {options.cluster_id}")
    print(f"the cluster {options.name} is {'made' if is_new else 'there'}, with the id {found}")
    return 0


async def _upgrade(options: argparse.Namespace) -> int:
    from muster.postgres import administration

    done = await administration.upgrade(options.url)
    for migration in done:
        print(f"tables of version {migration.version}: {migration.about}")
    if not done:
        print(f"the tables are of version {schema.NEWEST}, the newest one")
    return 0


async def _status(options: argparse.Namespace) -> int:
    from muster.postgres import administration

    found = await administration.status(options.url)
    if options.json:
        print(json.dumps(_plain(found), indent=2))
    else:
        for line in lines(found):
            print(line)
    return 0


def _plain(status: Status) -> dict[str, Any]:
    clusters = [
        {**one._asdict(), "nodes": [node._asdict() for node in one.nodes]} for one in status.clusters
    ]  # fmt: skip
    return {**status._asdict(), "clusters": clusters, "warnings": list(status.warnings)}


def lines(status: Status) -> list[str]:
    """The lines that `muster cluster status` prints."""
    found = [f"PostgreSQL {status.server}"]
    if status.version == 0:
        found.append("the database has no Muster tables: run `muster cluster init URL`")
    elif status.version < schema.NEWEST:
        found.append(f"the tables are of version {status.version}: run `muster cluster upgrade URL`")
    elif status.version > schema.NEWEST:
        found.append(f"the tables are of version {status.version}: a newer Muster has made them")
    for cluster in status.clusters:
        found += _lines_of(cluster)
    return found + [f"warning: {warning}" for warning in status.warnings]


def _lines_of(cluster: ClusterStatus) -> list[str]:
    found = [
        f"cluster {cluster.name} ({cluster.cluster_id}): {cluster.logs} partitions, {cluster.segments} segments, "
        f"{cluster.rows} rows, {cluster.bytes / 1_000_000:.1f} MB"
        + (f"; {cluster.dead_segments} segments wait for their removal" if cluster.dead_segments else "")
    ]
    if not any(node.lease_ms > 0 for node in cluster.nodes):
        found.append("  nobody serves")
    for node in cluster.nodes:
        if node.lease_ms > 0:
            found.append(f"  node {node.node_id}, {node.address}, serves; its lease has {node.lease_ms} ms left")
        else:
            found.append(f"  node {node.node_id}, last at {node.address}, is not running")
    return found


_ACTIONS = {"init": _init, "status": _status, "upgrade": _upgrade}
