"""The table of Kafka's APIs, by key: the versions that the codec knows, its functions, and the converters of messages.

The ranges of versions are known from the start. The module of an API is imported when it first decodes or encodes.
Other modules decide which versions a server offers. The generated codec fills missing fields of older versions with
Kafka's defaults. The modules of `protocol.shapes` convert all other differences. An older request is raised to the
newest shape, and a response is lowered to an older shape.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from struct import error as struct_error
from typing import Any, Final, TypeVar

from muster.protocol.message import Message, ProtocolError, UnrepresentableField
from muster.protocol.messages.table import APIS, ApiKey
from muster.protocol.wire import REFUSALS, Parts

__all__ = ["MISFITS", "Api", "ApiKey", "UnknownApi", "UnsupportedVersion", "all_apis", "api", "api_named"]

Decode = Callable[..., Any]
Encode = Callable[[Any], Any]
Convert = Callable[[int, Any], Any]
"""A converter: takes the version and the message, and returns the converted message."""
F = TypeVar("F", bound=Callable[..., Any])

# The errors that an encoder raises when a value does not fit its type, which is a bug.
MISFITS: Final = (struct_error, AttributeError, TypeError, UnicodeEncodeError)

NEVER: Final = 32767
"""A number above all versions. In `CONVERTERS` it means that every version is converted."""

CONVERTERS: Final[dict[int, tuple[int, int, str]]] = {
    ApiKey.PRODUCE: (0, 10, "produce"),
    ApiKey.FETCH: (15, 16, "fetch"),
    ApiKey.LIST_OFFSETS: (0, 4, "list_offsets"),
    ApiKey.METADATA: (1, 12, "metadata"),
    ApiKey.OFFSET_COMMIT: (0, 9, "offset_commit"),
    ApiKey.OFFSET_FETCH: (8, NEVER, "offset_fetch"),
    ApiKey.FIND_COORDINATOR: (4, 4, "find_coordinator"),
    ApiKey.JOIN_GROUP: (1, 9, "join_group"),
    ApiKey.LEAVE_GROUP: (3, 3, "leave_group"),
    ApiKey.DESCRIBE_GROUPS: (0, 6, "describe_groups"),
    ApiKey.DELETE_TOPICS: (6, 0, "delete_topics"),
    ApiKey.INIT_PRODUCER_ID: (0, 4, "producer_fenced"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (4, 4, "add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 2, "producer_fenced"),
    ApiKey.END_TXN: (0, 2, "producer_fenced"),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3, "delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3, "delegation_token"),
    ApiKey.TXN_OFFSET_COMMIT: (0, 2, "txn_offset_commit"),
}
"""For each API key: the first version that needs no raising, the first that needs no lowering, and the module."""


class UnknownApi(ProtocolError, KeyError):
    """The codec has no API with this key (or name)."""

    def __str__(self) -> str:
        return f"unknown API {self.args[0]!r}"


class UnsupportedVersion(ProtocolError):
    """The codec does not know this version of the API."""

    def __init__(self, api: Api, version: int) -> None:
        super().__init__(f"{api.name} has no version {version} (known: {api.min_version} to {api.max_version})")
        self.api = api
        self.version = version


class Api:
    """An API: its key, its name ("JoinGroup"), the versions that the codec knows, and the functions for these versions.

    `min_version` to `max_version` are Kafka's valid versions. `first_flexible` is the first version with compact types
    and tagged fields, or None. Response headers are flexible from the version `first_flexible_response_header` on,
    which may be above all versions. `request_has_parts` and `response_has_parts` mark messages that have record
    batches.
    """

    __slots__ = (
        "_module",
        "_request_decoders",
        "_request_encoders",
        "_response_decoders",
        "_response_encoders",
        "first_flexible",
        "first_flexible_response_header",
        "key",
        "max_version",
        "min_version",
        "name",
        "request_has_parts",
        "response_has_parts",
    )

    def __init__(self, key: int, name: str, module: str, first: int, last: int, flexible: int) -> None:
        self.key = key
        self.name = name
        self.min_version = first
        self.max_version = last
        self.first_flexible = flexible if flexible >= 0 else None
        self.first_flexible_response_header = 1 << 15 if flexible < 0 or key == ApiKey.API_VERSIONS else flexible
        self.request_has_parts = key == ApiKey.PRODUCE
        self.response_has_parts = key in (ApiKey.FETCH, ApiKey.SHARE_FETCH)
        self._module = module
        self._request_decoders: dict[int, Decode] = {}
        self._request_encoders: dict[int, Encode] = {}
        self._response_decoders: dict[int, Decode] = {}
        self._response_encoders: dict[int, Encode] = {}

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r}, {self.min_version}-{self.max_version})"

    def request_header_version(self, version: int) -> int:
        """The version of the request header: 2 for flexible versions, else 1."""
        return 2 if self.first_flexible is not None and version >= self.first_flexible else 1

    def response_header_version(self, version: int) -> int:
        """The version of the response header: 1 for flexible versions, else 0; always 0 for ApiVersions (KIP-511)."""
        return 1 if version >= self.first_flexible_response_header else 0

    def load(self) -> None:
        """Import the module of this API now rather than at first use."""
        module = import_module(f"muster.protocol.messages.{self._module}")
        name = self._module.upper()
        self._request_decoders.update(getattr(module, f"DECODE_{name}_REQUEST"))
        self._request_encoders.update(getattr(module, f"ENCODE_{name}_REQUEST"))
        self._response_decoders.update(getattr(module, f"DECODE_{name}_RESPONSE"))
        self._response_encoders.update(getattr(module, f"ENCODE_{name}_RESPONSE"))

    def new_response(self) -> Message:
        """Make a response whose fields have Kafka's defaults."""
        made: Message = getattr(import_module(f"muster.protocol.messages.{self._module}"), f"{self.name}Response")()
        return made

    def raising(self, version: int) -> Convert | None:
        """The converter that raises a request of this version to the newest shape. None: Kafka's defaults are enough.

        The converter returns the same object, perhaps changed, or a new message.
        """
        row = CONVERTERS.get(self.key)
        return None if row is None or version >= row[0] else _converters(row[2]).raise_request

    def lowering(self, version: int) -> Convert | None:
        """The converter that lowers a response to the shape of this version. None: the shape is the same."""
        row = CONVERTERS.get(self.key)
        return None if row is None or version >= row[1] else _converters(row[2]).lower_response

    def request_decoder(self, version: int) -> Decode:
        """The generated decoder of requests, for callers that keep it. It raises `wire.REFUSALS` for wrong bytes.

        The decoder's fourth argument is the limit of elements in all arrays. It raises TooMany when the message has
        more.
        """
        return self._request_decoders.get(version) or self._loaded(self._request_decoders, version)

    def response_encoder(self, version: int) -> Encode:
        """The generated encoder of responses, for callers that keep it. It returns bytes, or a list of parts if the
        response is large or `response_has_parts`.
        """
        return self._response_encoders.get(version) or self._loaded(self._response_encoders, version)

    def decode_request(self, version: int, data: bytes, start: int = 0, end: int | None = None) -> Any:
        """Decode the request body in data[start:end] into a message of the newest shape.

        Raises UnsupportedVersion, and MalformedMessage with the path of the field.
        """
        return self._decode("Request", self._request_decoders, version, data, start, end)

    def decode_response(self, version: int, data: bytes, start: int = 0, end: int | None = None) -> Any:
        """Decode the response body in data[start:end]. Raises the same errors as `decode_request`."""
        return self._decode("Response", self._response_decoders, version, data, start, end)

    def _decode(
        self, kind: str, decoders: dict[int, Decode], version: int, data: bytes, start: int, end: int | None
    ) -> Any:
        decode = decoders.get(version) or self._loaded(decoders, version)
        stop = len(data) if end is None else end
        try:
            return decode(data, start, stop)
        except REFUSALS as error:
            from muster.protocol.malformed import explain  # only malformed bytes need this import

            layouts = import_module(f"muster.protocol.messages.{self._module}").LAYOUTS
            raise explain(layouts[self.name + kind], version, data, start, stop, error) from None

    def encode_request(self, version: int, message: Message) -> bytes:
        """Encode a request body. Raises UnrepresentableField and UnsupportedVersion."""
        encoded = self._encode(self._request_encoders, version, message)
        return b"".join(encoded) if self.request_has_parts else encoded

    def encode_response(self, version: int, message: Message) -> bytes:
        """Encode a response body. Raises UnrepresentableField and UnsupportedVersion."""
        encoded = self._encode(self._response_encoders, version, message)
        return b"".join(encoded) if isinstance(encoded, list) else encoded

    def encode_response_parts(self, version: int, message: Message) -> Parts:
        """Encode a response body as a list of parts. Record batches and pieces of a large response are not copied."""
        encoded = self._encode(self._response_encoders, version, message)
        return encoded if isinstance(encoded, list) else [encoded]

    def _encode(self, encoders: dict[int, Encode], version: int, message: Message) -> Any:
        encode = encoders.get(version) or self._loaded(encoders, version)
        try:
            return encode(message)
        except UnrepresentableField as error:
            error.version = version
            raise
        except MISFITS as error:
            wrong = UnrepresentableField(type(message).__name__, f"has a value that does not fit its field: {error}")
            wrong.version = version
            raise wrong from error

    def _loaded(self, functions: dict[int, F], version: int) -> F:
        if not functions:
            self.load()
        if version not in functions:
            raise UnsupportedVersion(self, version)
        return functions[version]


def _converters(name: str) -> Any:
    return import_module(f"muster.protocol.shapes.{name}")


_BY_KEY: Final = {row[0]: Api(*row) for row in APIS}
_BY_NAME: Final = {a.name: a for a in _BY_KEY.values()}


def api(key: int) -> Api:
    """The API with this key. Raises UnknownApi."""
    try:
        return _BY_KEY[key]
    except KeyError:
        raise UnknownApi(key) from None


def api_named(name: str) -> Api:
    """The API with this name in Kafka's spelling ("JoinGroup"). Raises UnknownApi."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownApi(name) from None


def all_apis() -> list[Api]:
    """Every API of the codec, by ascending key."""
    return list(_BY_KEY.values())
