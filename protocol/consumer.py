"""The protocol that consumers embed in JoinGroup metadata and SyncGroup assignments (protocol type "consumer").

The bytes start with a version (int16). As in Kafka's ConsumerProtocol, a higher version is read as the highest known
version. Bytes after the message are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final

from muster.protocol.api import MISFITS
from muster.protocol.malformed import explain
from muster.protocol.message import MalformedMessage, Message, UnrepresentableField
from muster.protocol.messages import consumer_protocol as messages
from muster.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from muster.protocol.wire import REFUSALS

PROTOCOL_TYPE: Final = "consumer"
NEWEST: Final = 3
"""The highest version of subscription and assignment."""

_SUBSCRIPTION: Final = "ConsumerProtocolSubscription"
_version = Struct(">h")


def decode_subscription(data: bytes) -> tuple[int, ConsumerProtocolSubscription]:
    """Decode a subscription: the version in its bytes, and the message. Raises MalformedMessage."""
    version, message = _decode(_SUBSCRIPTION, messages.DECODE_CONSUMER_PROTOCOL_SUBSCRIPTION, data)
    return version, message


def subscribed_topics(data: bytes) -> Sequence[str]:
    """Decode only the topics of a subscription. Raises MalformedMessage.

    Any subscription is read as version 0, since all versions begin with the fields of version 0. Some clients write
    version 1, but end after UserData (Kafka's ClassicGroup.computeSubscribedTopics).
    """
    _claimed(_SUBSCRIPTION, data)
    topics: Sequence[str] = _read(_SUBSCRIPTION, messages.DECODE_CONSUMER_PROTOCOL_SUBSCRIPTION, 0, data).topics
    return topics


def decode_assignment(data: bytes) -> tuple[int, ConsumerProtocolAssignment]:
    """Decode an assignment: the version in its bytes, and the message. Raises MalformedMessage."""
    version, message = _decode("ConsumerProtocolAssignment", messages.DECODE_CONSUMER_PROTOCOL_ASSIGNMENT, data)
    return version, message


def encode_subscription(message: ConsumerProtocolSubscription, version: int = NEWEST) -> bytes:
    """Encode a subscription. Fields that this version does not have are left out. Raises UnrepresentableField."""
    return _encode(messages.ENCODE_CONSUMER_PROTOCOL_SUBSCRIPTION, message, version)


def encode_assignment(message: ConsumerProtocolAssignment, version: int = NEWEST) -> bytes:
    """Encode an assignment. Raises UnrepresentableField."""
    return _encode(messages.ENCODE_CONSUMER_PROTOCOL_ASSIGNMENT, message, version)


def _decode(name: str, decoders: Mapping[int, Callable[[bytes, int, int], Any]], data: bytes) -> tuple[int, Any]:
    claimed = _claimed(name, data)
    if claimed < 0:
        raise MalformedMessage(name, f"negative version {claimed}")
    return claimed, _read(name, decoders, min(claimed, NEWEST), data)


def _claimed(name: str, data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage(name, f"truncated: 2 bytes needed, {len(data)} left")
    claimed: int = _version.unpack_from(data)[0]
    return claimed


def _read(name: str, decoders: Mapping[int, Callable[[bytes, int, int], Any]], version: int, data: bytes) -> Any:
    try:
        return decoders[version](data, 2, len(data))
    except REFUSALS as error:
        raise explain(messages.LAYOUTS[name], version, data, 2, len(data), error) from None


def _encode(encoders: Mapping[int, Callable[[Any], bytes]], message: Message, version: int) -> bytes:
    try:
        return _version.pack(version) + encoders[version](message)
    except KeyError:
        raise UnrepresentableField(type(message).__name__, f"has no version {version}") from None
    except MISFITS as error:
        raise UnrepresentableField(
            type(message).__name__, f"has a value that does not fit its field: {error}"
        ) from error
