"""Fetches one document by HTTP, by GET, or by sending a form or bytes, with limits of size and time.

Use a thread for this.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from muster.coordinator.system.clock import mono_ms

TIMEOUT_S: Final = 20
"""The timeout of connecting, and of each read, as in jose4j."""
MAX_MS: Final = 60_000
"""The time limit for the whole document."""
MAX_ANSWER_BYTES: Final = 1 << 20
"""The most bytes of an answer to what was sent."""
_PIECE: Final = 16 << 10


def http_get(
    url: str, context: ssl.SSLContext | None, max_bytes: int, headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Fetch the document. Raises OSError. Another URL, to which the answer may lead, does not get `headers`."""
    request = _request(url)
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    return _exchanged(request, _SameProtocol(), context, max_bytes)


def http_post(
    url: str, form: Mapping[str, str], headers: Mapping[str, str], context: ssl.SSLContext | None, max_bytes: int
) -> bytes:
    """Send a form, and return the answer. Raises OSError, also for a redirection: the form may be secret."""
    request = _request(url)
    request.data = urllib.parse.urlencode(form).encode()
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    return _exchanged(request, None, context, max_bytes)


def http_send(url: str, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext | None) -> None:
    """Send bytes by POST. Raises OSError, also for a redirection: `body` and `headers` may be secret."""
    request = _request(url)
    request.data = body
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    _exchanged(request, None, context, MAX_ANSWER_BYTES)


def _request(url: str) -> urllib.request.Request:
    return urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "muster"})


def _exchanged(
    request: urllib.request.Request, redirects: Any, context: ssl.SSLContext | None, max_bytes: int
) -> bytes:
    until_ms = mono_ms() + MAX_MS
    # proxies from the environment and other protocols are not used
    opener = urllib.request.OpenerDirector()
    handlers: list[Any] = [
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        *([] if redirects is None else [redirects]),
    ]
    for handler in handlers:
        opener.add_handler(handler)
    pieces: list[bytes] = []
    size = 0
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise OSError(f"the answer has more than {max_bytes} bytes")
            if mono_ms() > until_ms:
                raise OSError(f"the answer takes more than {MAX_MS // 1000} s")
    return b"".join(pieces)


class _SameProtocol(urllib.request.HTTPRedirectHandler):
    """As in Java, a request by https is not redirected to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.request.Request(newurl).type != req.type:
            raise urllib.error.URLError("the answer leads to another protocol")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
