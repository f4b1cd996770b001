"""Opens connections with TLS and a login, by the client's security of the other commands."""

from __future__ import annotations

import asyncio
import struct

from muster.client import oauth_login
from muster.client.connection import RequestFailed
from muster.client.security import ClientSecurity, LoginFailed, login
from muster.conform.player import kafka_codec as codec
from muster.conform.player.connection import Open
from muster.conform.player.stage import error_name
from muster.conform.player.story import Body

CLIENT_ID = "muster-conform"
CONNECT_S = 10.0
"""How long a broker may take to accept a connection, and for each answer of a login."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def opener(security: ClientSecurity | None) -> Open:
    """What opens connections with this security; None: without TLS and without a login."""

    async def opened(host: str, port: int) -> Streams:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await _opened(host, port, security)
        except TimeoutError:
            raise RequestFailed(f"{host}:{port} does not answer") from None
        except OSError as error:
            raise RequestFailed(f"{host}:{port} cannot be reached: {error.strerror or error}") from error

    return opened


async def _opened(host: str, port: int, security: ClientSecurity | None) -> Streams:
    if security is None:
        return await asyncio.open_connection(host, port)
    streams = await asyncio.open_connection(host, port, ssl=security.context)
    if security.user is None:
        return streams
    try:
        await _log_in(streams, f"{host}:{port}", security)
    except RequestFailed:
        streams[1].close()
        raise
    return streams


async def _log_in(streams: Streams, address: str, security: ClientSecurity) -> None:
    assert security.user is not None
    handshake = await _asked(streams, "SaslHandshake", {"Mechanism": security.user.mechanism})
    if handshake["ErrorCode"]:
        why = f"{error_name(handshake['ErrorCode'])}, it has {', '.join(handshake['Mechanisms'])}"
        raise RequestFailed(f"{address} does not accept {security.user.mechanism}: {why}")
    exchange = login(security.user)
    try:
        token = next(exchange)
        while True:
            answer = await _asked(streams, "SaslAuthenticate", {"AuthBytes": token})
            if answer["ErrorCode"]:
                raise RequestFailed(f"{address} refuses {security.user.name}: {answer['ErrorMessage']}")
            token = exchange.send(bytes(answer["AuthBytes"]))
    except StopIteration:
        return
    except (oauth_login.NoToken, LoginFailed) as failure:
        raise RequestFailed(f"the login at {address} fails: {failure}") from None


async def _asked(streams: Streams, api: str, body: Body) -> Body:
    """The answer to version 1 of a request of a login."""
    reader, writer = streams
    frame = codec.encode_request(api, 1, 0, CLIENT_ID, body)
    writer.write(struct.pack(">i", len(frame)) + frame)
    try:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return codec.decode_response(api, 1, await reader.readexactly(size))[1]
    except asyncio.IncompleteReadError:
        raise RequestFailed(f"the broker closes the connection at {api}") from None
