"""A client of a whole cluster, which chooses the node for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from muster.client.connection import FIRST_TIMEOUT_S, IS_IT_LISTENING, TIMEOUT_S, Connection, RequestFailed, sentence
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
"""The key type in FindCoordinator for a transactional id."""
_KINDS: Final = {GROUP: "group", TRANSACTIONAL_ID: "transactional id"}
_TOPICS: Final = {GROUP: "__consumer_offsets", TRANSACTIONAL_ID: "__transaction_state"}
_NOT_READY: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
_NOT_ALLOWED: Final = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
NO_TOPIC: Final = "there is no such topic"
TRIES: Final = 100
PAUSE_S: Final = 0.1
"""The pause before a request to a coordinator that is not ready is sent again."""
TRIES_OF_A_TOPIC: Final = 3
"""How often FindCoordinator is sent once the topic exists: a partition of the topic may stay offline."""
Partition = tuple[str, int]


class KafkaClient:
    """A client of all nodes of a cluster. Connections are opened when needed, and again after a node closed one."""

    def __init__(self, bootstrap: Address | Sequence[Address], security: ClientSecurity | None = None) -> None:
        """Connect to the first bootstrap address that answers, and learn the nodes. Raises RequestFailed."""
        given = [bootstrap] if isinstance(bootstrap, Address) else list(bootstrap)
        self._addresses: dict[Address, None] = dict.fromkeys(given)
        self._security = security
        self._connections: dict[int, Connection] = {}
        self.nodes: dict[int, Address] = {}
        self.cluster_id = ""
        self._bootstrap: Connection | None = None
        self._last_address = show(*given[0])
        self._connect()

    @property
    def address(self) -> str:
        """HOST:PORT of the node that the client connected to last. This node may have stopped since."""
        return self._last_address

    @property
    def bootstrap(self) -> Connection:
        """An open connection to some node; a new one if the last was closed. Raises RequestFailed."""
        if self._bootstrap is None or not self._bootstrap.is_open:
            self._connect()
        assert self._bootstrap is not None
        return self._bootstrap

    def _connect(self) -> None:
        """Connect to the first node that answers. The node of the last connection is tried last."""
        is_again = self._bootstrap is not None
        self._disconnect()
        failures: list[RequestFailed] = []
        for address in sorted(self._addresses, key=lambda one: is_again and show(*one) == self._last_address):
            try:
                self._connect_to(address)
                return
            except RequestFailed as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        reasons = "; ".join(str(one).removesuffix(IS_IT_LISTENING) for one in failures)
        raise RequestFailed(f"none of {len(failures)} servers answers: {reasons} (--bootstrap-server)")

    def _connect_to(self, address: Address) -> None:
        connection = Connection(address, self._security)
        try:
            answer = connection.ask(ApiKey.METADATA, MetadataRequest([], allow_auto_topic_creation=False))
        except RequestFailed:
            connection.close()
            raise
        self._bootstrap, self._last_address = connection, connection.address
        self._update_nodes(answer)

    def _disconnect(self) -> None:
        bootstrap, self._bootstrap = self._bootstrap, None
        if bootstrap is not None:
            bootstrap.close()

    def reconnect(self) -> None:
        """Close all connections, and connect again. Raises RequestFailed."""
        self.close()
        self._connections.clear()
        self._connect()

    def close(self) -> None:
        """Close all connections."""
        self._disconnect()
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_any(self, key: int, request: Message) -> Any:
        """Send the request to any node; if that node does not answer, to the next node. Raises RequestFailed."""
        # one try for each node, and one more: the first node may have started again meanwhile
        for left in range(len(self._addresses), -1, -1):
            connection = self.bootstrap
            try:
                return connection.ask(key, request, FIRST_TIMEOUT_S if left else TIMEOUT_S)
            except RequestFailed:
                if not left or connection.is_open:
                    raise
        raise AssertionError("the last one answers or raises")

    def node(self, node_id: int) -> Connection:
        """A connection to a node. Raises RequestFailed."""
        address = self.nodes.get(node_id)
        if address is None:
            raise RequestFailed(f"{self.bootstrap.address} names a node {node_id} that it does not know")
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
        """A connection to the coordinator of a group, or of a transactional id. Raises RequestFailed."""
        found = self._find_coordinator(name, kind)
        if found.error_code in _NOT_ALLOWED:
            raise RequestFailed(f"this user may not see {_KINDS[kind]} {name}: {sentence(found.error_code)}")
        if found.error_code:
            raise RequestFailed(f"{_KINDS[kind]} {name} has no coordinator: {sentence(found.error_code)}")
        self.nodes[found.node_id] = Address(found.host, found.port)
        return self.node(found.node_id)

    def _find_coordinator(self, name: str, kind: int) -> Any:
        """Send FindCoordinator, also several times: Kafka may first have to create the coordinators' topic."""
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
        """Ask the coordinator of `name`; return its connection and its answer. Raises RequestFailed.

        `errors`: the error codes in an answer. While the coordinator loads or moves, the request is repeated for some
        seconds, as by Kafka's admin clients.
        """
        for _ in range(TRIES):
            node = self.coordinator(name, kind)
            answer = node.ask(key, request)
            if not any(code in _NOT_READY for code in errors(answer)):
                break
            Event().wait(PAUSE_S)
        return node, answer

    def topics(self, names: Sequence[str] | None) -> dict[str, MetadataResponseTopic]:
        """The metadata of these topics (None: of all topics), by name. Topics that do not exist are left out."""
        rows = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self._ask_any(ApiKey.METADATA, MetadataRequest(rows, allow_auto_topic_creation=False))
        self._update_nodes(answer)
        return {one.name: one for one in answer.topics if one.error_code == ErrorCode.NONE}

    def topic_error(self, name: str) -> str:
        """A sentence that says why a topic is missing in the result of `topics`."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (row,) = self._ask_any(ApiKey.METADATA, request).topics
        if row.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return NO_TOPIC
        return f"nothing is known of the topic: {sentence(row.error_code)}"

    def _update_nodes(self, answer: Any) -> None:
        """Learn the live nodes. Addresses of nodes that have stopped are kept, because such a node may start again."""
        self.nodes = {one.node_id: Address(one.host, one.port) for one in answer.brokers}
        self.cluster_id = answer.cluster_id or ""
        self._addresses.update(dict.fromkeys(self.nodes.values()))

    def refresh_nodes(self) -> None:
        """Ask the cluster again which nodes are live. Raises RequestFailed."""
        self._update_nodes(self._ask_any(ApiKey.METADATA, MetadataRequest([], allow_auto_topic_creation=False)))


def read_command_config(file: Path | None) -> ClientSecurity | None:
    """Read the client's security from the file of `--command-config`. Raises ConfigError."""
    if file is None:
        return None
    # importing ssl takes longer than the rest of a command
    from muster.client.security import read

    return read(file)
