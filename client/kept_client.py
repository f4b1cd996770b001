"""A client of a cluster for threads that ask it again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient
from muster.client.security import ClientSecurity
from muster.coordinator.config.listeners import Address


class KeptClient:
    """One client, which one thread uses at a time. It connects at the first use, and again after a failure."""

    def __init__(self, bootstrap: Sequence[Address], security: ClientSecurity | None) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._client: KafkaClient | None = None
        self._lock = threading.Lock()

    @contextmanager
    def using(self) -> Iterator[KafkaClient]:
        """The client, for the block. If the block raises RequestFailed, all connections are closed."""
        with self._lock:
            try:
                if self._client is None:
                    self._client = KafkaClient(self._bootstrap, self._security)
                yield self._client
            except RequestFailed:
                self._forget()
                raise

    def _forget(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._forget()
