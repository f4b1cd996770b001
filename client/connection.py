"""A connection to one node. Each request blocks the calling thread until the answer, so no server may use it."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.config.listeners import Address, show
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode, error_message, error_name
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message, ProtocolError
from muster.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ssl import SSLContext

    from muster.client.security import ClientSecurity

VERSIONS: Final = {
    ApiKey.METADATA: (4, 13),
    ApiKey.FIND_COORDINATOR: (4, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.OFFSET_FETCH: (8, 9),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.LEAVE_GROUP: (3, 5),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    # only `muster.testing` sends the next requests
    ApiKey.PRODUCE: (3, 12),
    ApiKey.CREATE_TOPICS: (4, 7),
    ApiKey.DELETE_TOPICS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
}
"""The lowest and highest version of each request that the client sends. In these versions, topics are given by name."""


TIMEOUT_S: Final = 30.0
FIRST_TIMEOUT_S: Final = 5.0
"""How long a server may take to show that it is a broker."""
MAX_ANSWER_BYTES: Final = 100_000_000
"""No answer of Kafka is longer: this is the default of librdkafka's receive.message.max.bytes."""
CLIENT_ID: Final = "muster"
_RENEWED_AT: Final = 0.8
"""The client authenticates again after this part of a session's lifetime, before the server demands it."""
NAME_ANOTHER: Final = " (--bootstrap-server HOST:PORT)"
IS_IT_LISTENING: Final = f"; is a server listening there?{NAME_ANOTHER}"


class RequestFailed(Exception):
    """A request to the cluster has failed. The text is one sentence: what failed and, if known, what to do."""


class Connection:
    """A connection to one node."""

    def __init__(self, address: Address, security: ClientSecurity | None = None) -> None:
        """Connect. `security` may demand TLS and a login; None: neither. Raises RequestFailed."""
        self.address = show(*address)
        self._place = address
        self._security = security
        self._correlation_id = 0
        self._failed = False
        self._renew_at_ms: float | None = None
        self._was_answered = False
        """Whether the server has answered a request other than ApiVersions, as it does only for admitted clients."""
        try:
            self._socket = socket.create_connection(address, FIRST_TIMEOUT_S)
        except OSError as error:
            raise RequestFailed(
                f"{self.address} cannot be reached: {error.strerror or error}{IS_IT_LISTENING}"
            ) from error
        try:
            if security is not None and security.context is not None:
                self._establish_tls(security.context, address.host)
            self._versions = self._ask_versions()
            self._socket.settimeout(TIMEOUT_S)
            self._log_in()
        except RequestFailed:
            self.close()
            raise

    def _establish_tls(self, context: SSLContext, host: str) -> None:
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:  # all errors of ssl are OSErrors
            why = getattr(error, "verify_message", None)
            if why is not None:
                raise RequestFailed(
                    f"{self.address} is not trusted: {why.rstrip('.')}; the certificate must come from one of "
                    "ssl.truststore, and name the host (ssl.endpoint.identification.algorithm)"
                ) from error
            # this import is needed only after a failure
            from muster.client import hints

            self._socket.close()
            is_plain = hints.speaks_plainly(self._place)
            hint = hints.SPEAKS_NO_TLS if is_plain else "is it a listener of SSL or SASL_SSL?"
            raise RequestFailed(
                f"{self.address} cannot be reached with TLS: {getattr(error, 'reason', None) or error}; {hint}"
            ) from error

    def _log_in(self) -> None:
        if self._security is None or self._security.user is None:
            return
        # a client of a listener without SASL does not need this import
        from muster.client import oauth_login
        from muster.client.security import LoginFailed, login
        from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
        from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest

        user = self._security.user
        answer = self._exchange(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(user.mechanism))
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise RequestFailed(f"{self.address} has no {user.mechanism}, only {', '.join(answer.mechanisms)}")
        if answer.error_code:
            raise RequestFailed(
                f"{self.address} authenticates no client ({error_name(answer.error_code)}): give security.protocol="
                f"{self._security.protocol.removeprefix('SASL_')} in the file of --command-config"
            )
        exchange = login(user)
        try:
            token = next(exchange)
            while True:
                answer = self._exchange(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(token))
                if answer.error_code:
                    raise RequestFailed(f"{self.address} refuses {user.name}: {answer.error_message}")
                token = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            pass
        except oauth_login.NoToken as failure:
            raise RequestFailed(f"there is no token to show to {self.address}: {failure}") from None
        except LoginFailed as failure:
            raise RequestFailed(f"{self.address} cannot be trusted: {failure}") from None
        lifetime_ms = answer.session_lifetime_ms
        self._renew_at_ms = wall_now_ms() + lifetime_ms * _RENEWED_AT if lifetime_ms else None

    def close(self) -> None:
        """Close the connection."""
        self._failed = True
        self._socket.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used again: no answer is missing, and the node has not closed it."""
        if self._failed:
            return False
        self._socket.settimeout(0)
        try:
            # the plain socket's `recv` is called, because that of a TLS socket does not accept MSG_PEEK
            return socket.socket.recv(self._socket, 1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    @property
    def is_local(self) -> bool:
        """Whether the node is on this machine: both ends of the connection have the same host."""
        return bool(self._socket.getpeername()[0] == self._socket.getsockname()[0])

    def supports(self, key: int) -> bool:
        """Whether the node offers this API in one of the versions of `VERSIONS`."""
        return self._version(key) is not None

    def ask(self, key: int, request: Message, timeout_s: float = TIMEOUT_S) -> Any:
        """Send a request, and wait for its answer. Raises RequestFailed, also after `timeout_s`."""
        version = self._version(key)
        if version is None:
            own_min, own_max = VERSIONS[key]
            raise RequestFailed(
                f"{self.address} does not offer {api(key).name} in the versions {own_min} to {own_max}: "
                "Kafka 3.0 or later, or Muster, was expected"
            )
        if self._renew_at_ms is not None and wall_now_ms() >= self._renew_at_ms:
            self._socket.settimeout(TIMEOUT_S)
            self._log_in()
        self._socket.settimeout(timeout_s)
        return self._exchange(key, version, request)

    def _version(self, key: int) -> int | None:
        broker_min, broker_max = self._versions.get(key, (0, -1))
        own_min, own_max = VERSIONS[key]
        version = min(broker_max, own_max)
        return version if version >= max(broker_min, own_min) else None

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self._exchange(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        if answer.error_code:
            raise RequestFailed(f"{self.address} refuses ApiVersions: {error_name(answer.error_code)}")
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    def _exchange(self, key: int, version: int, request: Message) -> Any:
        kind = api(key)
        self._correlation_id += 1
        self._failed = True  # until the whole answer is read: bytes that are left would look like the next answer
        try:
            self._socket.sendall(request_frame(kind, version, self._correlation_id, request, CLIENT_ID))
            start = self._read(4)
            (size,) = struct.unpack(">i", start)
            if not 0 <= size <= MAX_ANSWER_BYTES:
                raise RequestFailed(
                    f"{self.address} answers {kind.name} with something that Kafka never sends{_looks_like(start)}"
                )
            data = self._read(size)
            correlation_id, body = decode_response_header(kind, version, data, 0, len(data))
            if correlation_id != self._correlation_id:
                raise RequestFailed(f"{self.address} answers a request that was not sent")
            answer = kind.decode_response(version, data, body, len(data))
            self._failed = False
            self._was_answered = self._was_answered or key != ApiKey.API_VERSIONS
            return answer
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or error
            raise RequestFailed(f"{self.address} does not answer {kind.name}: {why}; {self._hint(error)}") from error
        except ProtocolError as error:
            raise RequestFailed(
                f"{self.address} answers {kind.name} with something that cannot be read: {error}"
            ) from error

    def _hint(self, error: Exception) -> str:
        security = self._security
        protocol = "PLAINTEXT" if security is None else security.protocol
        hint = None
        # no hint for a silent server: it would take more time, and the client can try the next server
        if not self._was_answered and not isinstance(error, TimeoutError):
            # this import is needed only after a failure
            from muster.client import hints

            if getattr(error, "reason", None) in hints.WANTS_CERTIFICATE:
                return hints.SHOW_CERTIFICATE
            self._socket.close()
            hint = hints.of_silence(self._place, protocol, None if security is None else security.context)
        return hint or f"is it a Kafka listener of {protocol}? (--command-config FILE)"

    def _read(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count > 0:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise EOFError("the connection was closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _looks_like(start: bytes) -> str:
    if start[:2] == b"\x15\x03":  # these bytes begin a TLS alert
        return ": it speaks TLS; give security.protocol=SSL or SASL_SSL in the file of --command-config"
    if start == b"HTTP":
        return ": it is a server of HTTP"
    return ""


def sentence(error_code: int, message: str | None = None) -> str:
    """An error code in words: Kafka's name, and the message of the server or, without one, of Kafka."""
    return f"{error_name(error_code)} ({message or error_message(error_code)})"
