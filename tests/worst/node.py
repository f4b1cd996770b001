"""A node in virtual time, as the generator needs it. Everybody may do everything, by access control entries and not as
a super user. All requests go over one authenticated connection, and each answer is waited for.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from muster.protocol.message import Message
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from muster.virtual.machine import PORT
from tests.support.virtual_node import Link, VirtualNode
from tests.worst.meter import CuttingClock, Meter

REST_MS: Final = 100
"""The time after an answer in which its events and log lines are written."""
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "listeners": f"SASL_PLAINTEXT://127.0.0.1:{PORT}",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="pw";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "secret",
}


class WorstNode(VirtualNode):
    """The node of this module."""

    def __init__(self, meter: Meter, **properties: str) -> None:
        """`properties`: their names have underscores in place of dots."""
        self.meter = meter
        super().__init__(PROPERTIES | {name.replace("_", "."): value for name, value in properties.items()})
        job_queue = self.process.server.job_queue
        job_queue._clock = CuttingClock(job_queue._clock, meter)
        self._link: Link | None = None

    @property
    def link(self) -> Link:
        """The authenticated connection."""
        if self._link is None or self._link.is_closed:
            self._link = self.connect()
        return self._link

    def connect(self, port: int = PORT, *, logs_in: bool = True) -> Link:
        """Another connection."""
        link = super().connect(port)
        if logs_in:
            assert link.ask(SaslHandshakeRequest("PLAIN")).error_code == 0
            assert link.ask(SaslAuthenticateRequest(b"\0alice\0pw")).error_code == 0
        return link

    def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer to a request over `link`."""
        return self.link.ask(request, version)

    def measure(self, requests: Iterable[tuple[Message, int]], link: Link | None = None) -> int:
        """The longest piece of work of these requests and of all work that follows them, in instructions."""
        link = link or self.link
        asked = list(requests)
        self.meter.reset()
        with self.meter.measuring():
            for request, version in asked:
                if not link.is_closed:
                    link.ask(request, version)
            self.rest(REST_MS)
        return self.meter.worst


@contextmanager
def without_collections() -> Iterator[None]:
    """The test's own garbage must not be collected meanwhile: that is no work of the node, and takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
