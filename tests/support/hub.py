"""Requests and responses in the newest shape, from and to the bytes of any version. This module joins frames, the
table of APIs and its converters.
"""

from __future__ import annotations

from typing import Any

from muster.protocol import frames
from muster.protocol.api import api
from muster.protocol.frames import RequestHeader
from muster.protocol.message import Message
from muster.protocol.wire import Parts


def decode_request(header: RequestHeader, data: bytes, start: int, end: int) -> Any:
    """Read the body of a request in data[start:end] and raise it to the newest shape. Raises MalformedMessage."""
    request = api(header.api_key).decode_request(header.api_version, data, start, end)
    return raise_request(header.api_key, header.api_version, request)


def encode_response(header: RequestHeader, response: Message) -> Parts:
    """Lower a response in the newest shape to the version of the request, and return the whole frame with its size.
    The lowering may change `response`. Raises UnrepresentableField.
    """
    version = header.api_version
    lowered = lower_response(header.api_key, version, response)
    return frames.response_frame(api(header.api_key), version, header.correlation_id, lowered)


def raise_request(key: int, version: int, request: Message) -> Any:
    """The request in its newest shape."""
    convert = api(key).raising(version)
    return request if convert is None else convert(version, request)


def lower_response(key: int, version: int, response: Message) -> Any:
    """The response in the shape of `version`."""
    convert = api(key).lowering(version)
    return response if convert is None else convert(version, response)
