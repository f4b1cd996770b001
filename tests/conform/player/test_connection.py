"""Connections of the player."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import pytest

from muster.conform.player.connection import Connection
from muster.conform.probes.link import Link
from tests.support.certificates import Authority


@pytest.mark.parametrize("kind", ["story", "probe"])
async def test_a_broker_that_does_not_read_holds_up_no_close(tmp_path: Path, kind: str) -> None:
    """Kafka reads nothing, and so does not end TLS, while a request of the connection waits."""
    authority, is_over = Authority(), threading.Event()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(authority.signed("CN=server", host="localhost").pem(tmp_path / "key.pem"))
    (tmp_path / "ca.pem").write_text(authority.pem)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    def serve(listener: socket.socket) -> None:
        with serving.wrap_socket(listener.accept()[0], server_side=True):
            is_over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            streams = await asyncio.open_connection(*listener.getsockname(), ssl=trusting)
            link = Connection(*streams, on_reply=lambda _: None) if kind == "story" else Link(*streams)
            async with asyncio.timeout(20):  # a wait for the broker lasts 30 s
                await link.close()
                await link.close()
        finally:
            is_over.set()
            thread.join()
