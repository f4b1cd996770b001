"""A client of an HTTP door, in the test's own event loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from muster.coordinator.http.door import Door


async def ask(door: Door, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """The status and the answer, which is read as JSON if it is JSON."""
    reader, writer = await asyncio.open_connection(door.http.host, door.http.port)
    lines = {"Host": "localhost", "Connection": "close", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
    head_bytes, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    is_json = b"application/json" in head_bytes
    return int(head_bytes.split()[1]), json.loads(body) if is_json and body else body.decode()
