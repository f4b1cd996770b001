"""The settings of the network; field names are Kafka's property names with "." -> "_"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetSettings:
    """Kafka's defaults. Sizes in bytes, times in ms.

    `socket_send_buffer_bytes`, `socket_receive_buffer_bytes`: -1 and Kafka's default of 102,400 leave the choice to the
    operating system, which grows its buffers with the connection's speed. `socket_listen_backlog_size`: Kafka's default
    of 50 is too short for a fleet that starts at once beside one event loop (a connection dropped there comes back a
    second later) and stands for 1,024. `queued_max_request_bytes`: how much of
    unfinished requests may lie in memory before further ones are left in their sockets; -1 is no limit.
    `connections_max_idle_ms`: negative is no limit.
    """

    socket_request_max_bytes: int = 104_857_600
    socket_listen_backlog_size: int = 50
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    connections_max_idle_ms: int = 600_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: str = ""
    queued_max_request_bytes: int = -1
