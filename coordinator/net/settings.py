"""The settings of the network; field names are Kafka's property names with "." -> "_"."""

from __future__ import annotations

from dataclasses import dataclass

_QUEUED_BYTES = 256 << 20
NO_LIMIT = 2_147_483_647
"""Kafka's default of limits for connections."""


@dataclass(frozen=True, slots=True)
class NetSettings:
    """Kafka's defaults. Sizes are in bytes, times in ms. A negative number means no limit, with exceptions below.

    `socket_send_buffer_bytes`, `socket_receive_buffer_bytes`: -1 and 102,400 leave the choice to the operating system.
    `socket_listen_backlog_size`: 50 means 1,024, because many clients may start at once beside one event loop.
    `queued_max_request_bytes`: how much of large requests may be in memory; -1 means 256 MB (see `request_memory`).
    `muster_queued_max_response_bytes`: how many bytes of unsent answers may be in memory.
    """

    socket_request_max_bytes: int = 104_857_600
    socket_listen_backlog_size: int = 50
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    connections_max_idle_ms: int = 600_000
    max_connections: int = NO_LIMIT
    max_connection_creation_rate: int = NO_LIMIT
    max_connections_per_ip: int = NO_LIMIT
    max_connections_per_ip_overrides: str = ""
    queued_max_request_bytes: int = -1
    muster_queued_max_response_bytes: int = 134_217_728

    @property
    def request_memory(self) -> int:
        """The limit for unfinished requests. For -1: 256 MB, or two of the largest requests if that is more."""
        if self.queued_max_request_bytes > 0:
            return self.queued_max_request_bytes
        return max(_QUEUED_BYTES, 2 * self.socket_request_max_bytes)
