"""Decodes and encodes the keys and values of records in Kafka's internal logs.

* __consumer_offsets, __share_group_state, __transaction_state: a key is the record type (int16) and the key message.
* A value in these three logs is a version (int16) and the value message. A record without a value is a tombstone.
* __cluster_metadata: there is no key. A value is frame version, record type, version (unsigned varints) and message.

An unknown type raises `UnknownRecord`, so that callers can keep such records unchanged. `pack_record` encodes a record
of the first three logs as in a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Any, Final

from muster.protocol.api import MISFITS
from muster.protocol.malformed import explain
from muster.protocol.message import MalformedMessage, Message, ProtocolError, UnrepresentableField
from muster.protocol.messages import records_table
from muster.protocol.wire import REFUSALS, refuse, uv, uvarint

_prefix = Struct(">h")

METADATA_FRAME: Final = 1
"""The frame version of metadata records (Kafka's MetadataRecordSerde)."""


class UnknownRecord(ProtocolError):
    """A record has an unknown type or version. `type` and `version` are None when they were not read."""

    def __init__(self, log: str, record_type: int, version: int | None) -> None:
        what = f"type {record_type}" if version is None else f"version {version} of type {record_type}"
        super().__init__(f"{log}: unknown record {what}")
        self.type = record_type
        self.version = version


class _Codec:
    """The decoders and encoders of one message, by version. An encoded message begins with its version."""

    __slots__ = ("decoders", "encoders", "layout", "name", "newest")

    def __init__(self, module: str, name: str, prefix: Callable[[int], bytes]) -> None:
        loaded = import_module(f"muster.protocol.messages.{module}")
        self.name = name
        self.layout: str = loaded.LAYOUTS[name]
        constant = _constant(name)
        self.decoders: dict[int, Any] = getattr(loaded, f"DECODE_{constant}")
        encoders: dict[int, Any] = getattr(loaded, f"ENCODE_{constant}")
        self.encoders = {version: (prefix(version), encode) for version, encode in encoders.items()}
        self.newest = max(encoders)

    def decode(self, version: int, data: bytes, start: int) -> Any:
        """Decode data[start:] as a message of this version."""
        try:
            return self.decoders[version](data, start, len(data))
        except REFUSALS as error:
            raise explain(self.layout, version, data, start, len(data), error) from None

    def encode(self, version: int, message: Message) -> bytes:
        """Encode a message in this version, with the version before it."""
        row = self.encoders.get(version)
        if row is None:
            raise UnrepresentableField(self.name, f"has no version {version}")
        prefix, encode = row
        try:
            return prefix + encode(message)  # type: ignore[no-any-return]  # encoders of records return bytes
        except UnrepresentableField as error:
            error.version = version
            raise
        except MISFITS as error:
            raise UnrepresentableField(self.name, f"has a value that does not fit its field: {error}") from error


def _constant(name: str) -> str:
    """The name of a constant in the generated tables: `OFFSET_COMMIT_KEY` for `OffsetCommitKey`."""
    return re.sub(r"(?<=[^A-Z])(?=[A-Z])", "_", name).upper()


class KeyedRecords:
    """The records of a log whose keys begin with the record type."""

    def __init__(self, log: str, table: dict[int, tuple[str, str, int, int]]) -> None:
        self._log = log
        self._table = table
        self._keys: dict[int, _Codec] = {}
        self._values: dict[int, _Codec] = {}
        self._by_message: dict[type[Message], _Codec] = {}

    def decode_key(self, data: bytes) -> tuple[int, Any]:
        """Decode a key: record type and key message. Raises UnknownRecord and MalformedMessage."""
        if len(data) < 2:
            raise MalformedMessage("record key", f"truncated: 2 bytes needed, {len(data)} left")
        record_type: int = _prefix.unpack_from(data)[0]
        codec = self._keys.get(record_type) or self._load_key(record_type)
        # the first int16 of a key is the record type, and the layout of a key has only one version
        return record_type, codec.decode(codec.newest, data, 2)

    def decode_value(self, record_type: int, data: bytes) -> tuple[int, Any]:
        """Decode a value of this record type: version and value message. Raises UnknownRecord and MalformedMessage."""
        codec = self._values.get(record_type) or self._load_value(record_type)
        if len(data) < 2:
            raise MalformedMessage(codec.name, f"truncated: 2 bytes needed, {len(data)} left")
        version: int = _prefix.unpack_from(data)[0]
        if version not in codec.decoders:
            raise UnknownRecord(self._log, record_type, version)
        return version, codec.decode(version, data, 2)

    def encode_key(self, message: Message) -> bytes:
        """Encode a key with its record type. Raises UnrepresentableField."""
        codec = self._by_message.get(type(message)) or self._codec_of(message, "Key", self._load_key)
        return codec.encode(codec.newest, message)

    def encode_value(self, message: Message, version: int) -> bytes:
        """Encode a value in this version. Raises UnrepresentableField."""
        codec = self._by_message.get(type(message)) or self._codec_of(message, "Value", self._load_value)
        return codec.encode(version, message)

    def type_name(self, record_type: int) -> str | None:
        """The name of a record type ("OffsetCommit"); None when the type is unknown."""
        row = self._table.get(record_type)
        return None if row is None else row[0]

    def _codec_of(self, message: Message, part: str, load: Callable[[int], _Codec]) -> _Codec:
        name = type(message).__name__
        for record_type, row in self._table.items():
            if name == row[0] + part:
                codec = self._by_message[type(message)] = load(record_type)
                return codec
        raise UnrepresentableField(name, f"is no record of {self._log}")

    def _load_key(self, record_type: int) -> _Codec:
        module, name = self._place(record_type)
        codec = self._keys[record_type] = _Codec(module, f"{name}Key", lambda _version: _prefix.pack(record_type))
        return codec

    def _load_value(self, record_type: int) -> _Codec:
        module, name = self._place(record_type)
        codec = self._values[record_type] = _Codec(module, f"{name}Value", _prefix.pack)
        return codec

    def _place(self, record_type: int) -> tuple[str, str]:
        row = self._table.get(record_type)
        if row is None:
            raise UnknownRecord(self._log, record_type, None)
        return row[1], row[0]


def encode_record(table: KeyedRecords, record: tuple[Message, Message | None, int]) -> tuple[bytes, bytes | None]:
    """Encode the key and the value of a record. Raises UnrepresentableField.

    The value of a tombstone is None.
    """
    key, value, version = record
    return table.encode_key(key), None if value is None else table.encode_value(value, version)


def pack_record(table: KeyedRecords, record: tuple[Message, Message | None, int]) -> bytes:
    """Encode a record without headers as in a batch, but without the length that precedes it there."""
    return pack_key_value(*encode_record(table, record))


def pack_key_value(key: bytes, value: bytes | None) -> bytes:
    """Like `pack_record`, for a record whose key and value are encoded already."""
    # lengths are encoded as zigzag varints
    if value is None:
        return b"".join((uv(2 * len(key)), key, b"\x01\0"))
    return b"".join((uv(2 * len(key)), key, uv(2 * len(value)), value, b"\0"))


OFFSETS: Final = KeyedRecords("__consumer_offsets", records_table.GROUP)
SHARE_STATE: Final = KeyedRecords("__share_group_state", records_table.SHARE)
TRANSACTION_STATE: Final = KeyedRecords("__transaction_state", records_table.TRANSACTION)

_metadata_types: Final = {row[0]: key for key, row in records_table.METADATA.items()}


@cache
def _metadata_codec(record_type: int) -> _Codec:
    name, module, _, _ = records_table.METADATA[record_type]
    return _Codec(module, name, lambda version: b"".join((uv(METADATA_FRAME), uv(record_type), uv(version))))


def decode_metadata(data: bytes) -> tuple[int, int, Any]:
    """Decode a record of __cluster_metadata: type, version and message. Raises UnknownRecord, MalformedMessage."""
    try:
        frame, p = uvarint(data, 0)
        if frame != METADATA_FRAME:
            refuse()
        record_type, p = uvarint(data, p)
        version, p = uvarint(data, p)
    except REFUSALS:
        raise MalformedMessage("metadata record", f"no frame of version {METADATA_FRAME}") from None
    if record_type not in records_table.METADATA:
        raise UnknownRecord("__cluster_metadata", record_type, None)
    codec = _metadata_codec(record_type)
    if version not in codec.decoders:
        raise UnknownRecord("__cluster_metadata", record_type, version)
    return record_type, version, codec.decode(version, data, p)


def encode_metadata(message: Message, version: int | None = None) -> bytes:
    """Encode a record of __cluster_metadata in this version (None: the newest). Raises UnrepresentableField."""
    name = type(message).__name__
    if name not in _metadata_types:
        raise UnrepresentableField(name, "is no record of __cluster_metadata")
    record_type = _metadata_types[name]
    codec = _metadata_codec(record_type)
    return codec.encode(codec.newest if version is None else version, message)
