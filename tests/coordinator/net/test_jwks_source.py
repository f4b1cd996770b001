"""Keys for tokens from files and URLs: they are read again, kept when the new keys are bad, and not fetched too
often.
"""

from __future__ import annotations

import http.server
import json
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.net import http_get as http_get_module
from muster.coordinator.net.fetch_thread import FetchThread
from muster.coordinator.net.http_get import http_get
from muster.coordinator.net.jwks_source import MAX_BYTES, JwksFile, JwksUrl, RefreshIntervals
from muster.coordinator.net.tls.context import client_context
from muster.coordinator.net.tls.settings import TlsSettings
from muster.coordinator.security.sasl.jwt import BadKeys
from muster.coordinator.security.sasl.oauthbearer import InvalidToken
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import AtOnce
from tests.support.certificates import Authority

PACE = RefreshIntervals(refresh_ms=3_600_000, backoff_ms=100, max_backoff_ms=1_000)


def document(*kids: str) -> bytes:
    return json.dumps({"keys": [{"kty": "oct", "kid": kid, "k": "c2VjcmV0"} for kid in kids]}).encode()


def kids(source: JwksFile | JwksUrl) -> list[str | None]:
    return [key.kid for key in source.now().keys]


def test_a_key_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document("a"))
    source = JwksFile(str(path))
    assert kids(source) == ["a"]
    for number, (data, found) in enumerate(
        [(document("b", "c"), ["b", "c"]), (b"bad", ["b", "c"]), (document("d"), ["d"])]
    ):
        path.write_bytes(data)
        os.utime(path, (number, number))
        with capture_logs() as lines:
            assert kids(source) == kids(source) == found
        assert len(lines) == 1  # one fetch for the change, none for the repeated question
    path.unlink()
    assert kids(source) == ["d"]
    source.missing("e")
    source.stop()


@pytest.mark.parametrize(("data", "why"), [(b"{}", "it has no list"), (b" " * (MAX_BYTES + 1), "it has more than")])
def test_a_key_file_without_keys_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(BadKeys, match="No such file"):
        JwksFile(str(path))
    path.write_bytes(data)
    with pytest.raises(BadKeys, match=why):
        JwksFile(str(path))


class Endpoint:
    """The content of a URL; counts its requests."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self) -> bytes:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_key_url_is_fetched_regularly() -> None:
    clock, endpoint = ManualClock(), Endpoint(document("a"), document("b"))
    source = JwksUrl("u", endpoint, PACE, clock, AtOnce())
    assert kids(source) == ["a"]
    clock.advance(PACE.refresh_ms - 1)
    assert (kids(source), endpoint.asked) == (["a"], 1)
    clock.advance(1)
    assert (kids(source), endpoint.asked) == (["b"], 2)
    source.stop()
    clock.advance(10 * PACE.refresh_ms)
    assert endpoint.asked == 2


def test_after_a_failed_fetch_the_old_keys_stay_valid() -> None:
    clock, endpoint = ManualClock(), Endpoint(document("a"), OSError("no route"))
    source = JwksUrl("u", endpoint, PACE, clock, AtOnce())
    with capture_logs() as lines:
        clock.advance(PACE.refresh_ms)
        # after 100, 200, 400 ms, and when the allowed time ends
        for ms, asked in (99, 2), (1, 3), (199, 3), (1, 4), (400, 5), (299, 5), (1, 6), (PACE.refresh_ms - 1, 6):
            clock.advance(ms)
            assert endpoint.asked == asked
    assert kids(source) == ["a"]
    assert {(line["why"], line["instead"]) for line in lines} == {("no route", "the previous keys are used")}
    endpoint.answers = [document("b")]
    clock.advance(1)
    assert kids(source) == ["b"]
    source.stop()


def test_without_keys_tokens_are_refused_and_fetching_continues() -> None:
    clock, endpoint = ManualClock(), Endpoint(OSError("down"))
    source = JwksUrl("u", endpoint, PACE, clock, AtOnce())
    clock.advance(60_000)
    assert 10 < endpoint.asked < 100
    with pytest.raises(InvalidToken, match="could not be fetched yet"):
        source.now()
    endpoint.answers = [document("a")]
    clock.advance(6_000)
    assert kids(source) == ["a"]
    source.stop()


def test_fetches_for_missing_keys_are_limited() -> None:
    clock, endpoint = ManualClock(), Endpoint(document("a"), document("a", "b"))
    source = JwksUrl("u", endpoint, PACE, clock, AtOnce())
    source.missing("x" * 1_001)
    assert endpoint.asked == 1
    source.missing("b")
    assert (kids(source), endpoint.asked) == (["a", "b"], 2)
    for number in range(1_000):
        source.missing(f"made up {number}")
    assert endpoint.asked == 2
    clock.advance(5_000)
    source.missing("c")
    clock.advance(5_000)
    source.missing("c")
    assert endpoint.asked == 3
    for number in range(20):
        source.missing(f"other {number}")
        clock.advance(5_000)
    assert endpoint.asked == 23
    assert len(source._missing) == 16
    # asked for again, because it is no longer remembered
    source.missing("c")
    assert endpoint.asked == 24
    source.stop()


def test_no_second_fetch_begins_during_a_fetch() -> None:
    waiting: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], object]]] = []

    class Slow(AtOnce):
        def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
            waiting.append((work, done))

    clock = ManualClock()
    source = JwksUrl("u", Endpoint(document("a")), PACE, clock, Slow())
    source.missing("a")
    clock.advance(PACE.refresh_ms)
    ((work, done),) = waiting
    done(work(), None)
    assert kids(source) == ["a"]
    source.stop()


@pytest.fixture
def site() -> Iterator[Callable[..., str]]:
    """Serve answers by path over HTTP or TLS; gives the URL."""
    servers: list[http.server.HTTPServer] = []

    def start(answers: dict[str, tuple[int, bytes, dict[str, str]]], context: ssl.SSLContext | None = None) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = answers[self.path]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"{'http' if context is None else 'https'}://localhost:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_keys_are_fetched_over_http(site: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not fetched
    answers = {
        "/keys": (200, b"the keys", {}), "/there": (302, b"", {"Location": "/keys"}), "/gone": (404, b"", {}),
        "/file": (302, b"", {"Location": "file:///etc/hostname"}), "/tls": (302, b"", {"Location": "https://x/"}),
        "/large": (200, b"x" * 101, {}),
    }  # fmt: skip
    url = site(answers)
    assert http_get(f"{url}/keys", None, 100) == http_get(f"{url}/there", None, 100) == b"the keys"
    for path, why in {
        "/gone": "404",
        "/file": "protocol|not allowed",
        "/tls": "protocol",
        "/large": "more than 100",
    }.items():
        with pytest.raises(OSError, match=why):
            http_get(url + path, None, 100)
    monkeypatch.setattr(http_get_module, "MAX_MS", -1)
    with pytest.raises(OSError, match="takes more than"):
        http_get(f"{url}/keys", None, 100)


def test_keys_are_fetched_over_https(site: Callable[..., str], tmp_path: Path) -> None:
    authority = Authority()
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.signed("CN=idp", host="localhost").pem(tmp_path / "k.pem"))
    url = site({"/": (200, b"ok", {})}, context)
    trusting = TlsSettings(ssl_truststore_type="PEM", ssl_truststore_location=str(ca))
    assert http_get(f"{url}/", client_context(trusting), 100) == b"ok"
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        http_get(f"{url}/", client_context(TlsSettings()), 100)


def test_a_fetch_result_after_the_stop_is_ignored() -> None:
    posted: list[Callable[[], object]] = []
    came = threading.Event()

    def post(callback: Callable[[], object]) -> None:
        posted.append(callback)
        came.set()

    worker, results = FetchThread(post), []
    worker.run(lambda: 5, lambda *result: results.append(result))
    assert came.wait(30)
    posted.pop()()
    assert results == [(5, None)]
    worker.close()
    done = threading.Event()
    worker.run(partial(done.set), lambda *result: results.append(result))
    assert done.wait(30)
    assert posted == []
