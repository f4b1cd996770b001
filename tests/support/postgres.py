"""A PostgreSQL for the tests, the same as in `muster cluster try`. It starts with the first test that needs it, and is
removed at the end.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.cli.local_cluster.embedded_postgres import EmbeddedPostgres


@contextmanager
def running_postgres(fsync: bool = False) -> Iterator[str]:
    """The URL of an empty database. The server does not sync to the disk, unless `fsync` is given."""
    place = Path(tempfile.mkdtemp(prefix="muster-pg-", dir="/tmp"))
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", {"fsync": "on" if fsync else "off"})
    loop = asyncio.new_event_loop()
    try:
        yield loop.run_until_complete(server.start())
    finally:
        loop.run_until_complete(server.stop())
        loop.close()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def own_database(url: str) -> Iterator[str]:
    """The URL of another empty database on the server of `url`."""
    import asyncpg

    name = f"own_{secrets.token_hex(4)}"

    async def run(statement: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run(f"CREATE DATABASE {name}"))
    yield url.replace("/postgres?", f"/{name}?")
    asyncio.run(run(f"DROP DATABASE {name} WITH (FORCE)"))
