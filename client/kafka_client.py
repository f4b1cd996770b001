"""The client of `muster groups`, `muster transactions` and `muster.testing`: the nodes of a cluster, and which of them
is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from muster.client.connection import (
    FIRST_TIMEOUT_S,
    IS_IT_THERE,
    TIMEOUT_S,
    AskingFailed,
    Connection,
    sentence,
)
from muster.coordinator.config.listeners import Address, show
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

if TYPE_CHECKING:
    from pathlib import Path

    from muster.client.security import ClientSecurity

GROUP: Final = 0
TRANSACTIONAL_ID: Final = 1
"""FindCoordinator's kinds of keys."""
_KINDS: Final = {GROUP: "group", TRANSACTIONAL_ID: "transactional id"}
_TOPICS: Final = {GROUP: "__consumer_offsets", TRANSACTIONAL_ID: "__transaction_state"}
_NOT_READY: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
_NOT_ALLOWED: Final = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
NO_TOPIC: Final = "there is no such topic"
TRIES: Final = 100
PAUSE_S: Final = 0.1
"""How often a coordinator is asked that is not ready, and the pause between."""
TRIES_OF_A_TOPIC: Final = 3
"""How often a coordinator is asked for whose topic is there: a partition of it may be offline."""


class Cluster:
    """All nodes behind some bootstrap addresses. Connections are made when they are needed, and made again when a node
    has hung up. What any node can answer is asked of another one then.
    """

    def __init__(self, bootstrap: Address | Sequence[Address], security: ClientSecurity | None = None) -> None:
        """Connects to the first of the bootstrap addresses that answers, and learns the nodes. Raises AskingFailed."""
        given = [bootstrap] if isinstance(bootstrap, Address) else list(bootstrap)
        self._addresses: dict[Address, None] = dict.fromkeys(given)
        self._security = security
        self._connections: dict[int, Connection] = {}
        self.nodes: dict[int, Address] = {}
        self._bootstrap: Connection | None = None
        self._asked = show(*given[0])
        self._connect()

    @property
    def address(self) -> str:
        """Of the node that was asked last, HOST:PORT; it need not be there any more."""
        return self._asked

    @property
    def bootstrap(self) -> Connection:
        """A connection to a node that answers: that of before, or one to another node. Raises AskingFailed."""
        if self._bootstrap is None or not self._bootstrap.is_open:
            self._connect()
        assert self._bootstrap is not None
        return self._bootstrap

    def _connect(self) -> None:
        """Connect to some node that answers; one that has hung up is tried last."""
        is_again = self._bootstrap is not None
        self._hang_up()
        failures: list[AskingFailed] = []
        for address in sorted(self._addresses, key=lambda one: is_again and show(*one) == self._asked):
            try:
                self._connect_to(address)
                return
            except AskingFailed as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        told = "; ".join(str(one).removesuffix(IS_IT_THERE) for one in failures)
        raise AskingFailed(f"none of {len(failures)} servers answers: {told} (--bootstrap-server)")

    def _connect_to(self, address: Address) -> None:
        connection = Connection(address, self._security)
        try:
            answer = connection.ask(ApiKey.METADATA, MetadataRequest([], allow_auto_topic_creation=False))
        except AskingFailed:
            connection.close()
            raise
        self._bootstrap, self._asked = connection, connection.address
        self._learn(answer)

    def _hang_up(self) -> None:
        bootstrap, self._bootstrap = self._bootstrap, None
        if bootstrap is not None:
            bootstrap.close()

    def reconnect(self) -> None:
        """Hang up, and connect anew. Raises AskingFailed."""
        self.close()
        self._connections.clear()
        self._connect()

    def close(self) -> None:
        """Hang up."""
        self._hang_up()
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_any(self, key: int, request: Message) -> Any:
        """Ask any node; after one that hangs up, or is silent for a while, the next one. Raises AskingFailed."""
        # every node once, and one of them again: it may have been started anew meanwhile
        for left in range(len(self._addresses), -1, -1):
            connection = self.bootstrap
            try:
                return connection.ask(key, request, FIRST_TIMEOUT_S if left else TIMEOUT_S)
            except AskingFailed:
                if not left or connection.is_open:
                    raise
        raise AssertionError("the last one answers or raises")

    def node(self, node_id: int) -> Connection:
        """A connection to a node. Raises AskingFailed."""
        address = self.nodes.get(node_id)
        if address is None:
            raise AskingFailed(f"{self.bootstrap.address} names a node {node_id} that it does not know")
        connection = self._connections.get(node_id)
        if connection is None or connection.address != show(*address) or not connection.is_open:
            if connection is not None:
                connection.close()
            connection = self._connections[node_id] = Connection(address, self._security)
        return connection

    def every_node(self) -> list[Connection]:
        """A connection to each node."""
        return [self.node(node_id) for node_id in sorted(self.nodes)]

    def coordinator(self, name: str, kind: int = GROUP) -> Connection:
        """A connection to the coordinator of a group, or of a transactional id. Raises AskingFailed."""
        found = self._find_coordinator(name, kind)
        if found.error_code in _NOT_ALLOWED:
            raise AskingFailed(f"this user may not see {_KINDS[kind]} {name}: {sentence(found.error_code)}")
        if found.error_code:
            raise AskingFailed(f"{_KINDS[kind]} {name} has no coordinator: {sentence(found.error_code)}")
        self.nodes[found.node_id] = Address(found.host, found.port)
        return self.node(found.node_id)

    def _find_coordinator(self, name: str, kind: int) -> Any:
        """Kafka makes the topic of its coordinators when it is first asked for one: that is waited for."""
        seen = 0
        for _ in range(TRIES):
            (found,) = self._ask_any(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", kind, [name])).coordinators
            if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE or seen == TRIES_OF_A_TOPIC:
                break
            seen += bool(self.topics([_TOPICS[kind]]))
            Event().wait(PAUSE_S)
        return found

    def ask_coordinator(
        self, name: str, key: int, request: Message, errors: Callable[[Any], Iterable[int]], kind: int = GROUP
    ) -> tuple[Connection, Any]:
        """The coordinator of a group or a transactional id, and its answer, whose error codes are `errors(answer)`. A
        coordinator that loads, or that moves, is asked again for some seconds, as Kafka's admin clients do. Raises
        AskingFailed.
        """
        for _ in range(TRIES):
            node = self.coordinator(name, kind)
            answer = node.ask(key, request)
            if not any(code in _NOT_READY for code in errors(answer)):
                break
            Event().wait(PAUSE_S)
        return node, answer

    def topics(self, names: Sequence[str] | None) -> dict[str, MetadataResponseTopic]:
        """What the cluster says of these topics (None: of all), by name; those that do not exist are left out."""
        rows = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self._ask_any(ApiKey.METADATA, MetadataRequest(rows, allow_auto_topic_creation=False))
        self._learn(answer)
        return {one.name: one for one in answer.topics if one.error_code == ErrorCode.NONE}

    def why_no_topic(self, name: str) -> str:
        """What to say of a topic that is not among `topics`."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (row,) = self._ask_any(ApiKey.METADATA, request).topics
        if row.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return NO_TOPIC
        return f"nothing is known of the topic: {sentence(row.error_code)}"

    def _learn(self, answer: Any) -> None:
        """The nodes that live now; where the others were is remembered, for they may return."""
        self.nodes = {one.node_id: Address(one.host, one.port) for one in answer.brokers}
        self._addresses.update(dict.fromkeys(self.nodes.values()))

    def look_again(self) -> None:
        """Ask which nodes live now. Raises AskingFailed."""
        self._learn(self._ask_any(ApiKey.METADATA, MetadataRequest([], allow_auto_topic_creation=False)))


def read_command_config(file: Path | None) -> ClientSecurity | None:
    """The security that `--command-config` asks for. Raises ConfigError."""
    if file is None:
        return None
    # imported here: what it needs of TLS takes longer than the rest of a command
    from muster.client.security import read

    return read(file)
