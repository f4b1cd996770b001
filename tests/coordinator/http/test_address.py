"""Where the HTTP door is, by options and properties, and who is admitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.config import ConfigError, load
from muster.coordinator.http.address import DoorAddress, configured
from muster.coordinator.http.admission import admit
from muster.coordinator.http.failure import Failure
from tests.support.certificates import Authority


def test_the_door_is_closed_unless_it_is_configured(tmp_path: Path) -> None:
    assert configured(load(in_memory=True)) is None
    token = tmp_path / "token"
    token.write_text("secret\n")
    config = load(
        in_memory=True, overrides=["muster.http.listener=http://0.0.0.0:1", f"muster.http.token.file={token}"]
    )
    assert configured(config) == DoorAddress("0.0.0.0", 1, "secret", option="muster.http.listener")
    assert configured(config, "[::1]:0") == DoorAddress("::1", 0, "secret")
    assert configured(load(in_memory=True), "localhost:2", "--control") == DoorAddress(
        "localhost", 2, option="--control"
    )
    assert not config.unused()


def test_a_door_off_loopback_has_tls_unless_its_address_says_http(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with pytest.raises(ConfigError, match=r"^--http: .*; http://HOST:PORT is without TLS$"):
        configured(load(in_memory=True), "0.0.0.0:0", token_file=token)
    pair = Authority().signed("CN=door").pem(tmp_path / "door.pem")
    config = load(
        in_memory=True,
        overrides=["ssl.keystore.type=PEM", f"ssl.keystore.location={pair}"],
    )
    for text in ("0.0.0.0:0", "https://127.0.0.1:0"):
        found = configured(config, text, token_file=token)
        assert found is not None
        assert found.tls is not None
        assert found.tls.ssl_keystore_location == pair
    without = configured(config, "0.0.0.0:0", "--control", token)
    assert without is not None
    assert without.tls is None


@pytest.mark.parametrize(
    ("text", "token", "words"),
    [
        ("0.0.0.0:0", None, "--http 0.0.0.0:0 can be reached from other machines: that needs --http-token FILE"),
        ("ftp://localhost:0", None, "--http 'ftp://localhost:0': the scheme is to be http or https"),
        ("here", None, "--http 'here' is not HOST:PORT; as in localhost:9092"),
        ("localhost:0", "none", "--http-token none: No such file or directory"),
        ("localhost:0", "/dev/null", "--http-token /dev/null: the file is empty"),
    ],
)
def test_wrong_addresses_of_the_door_are_refused(text: str, token: str | None, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(load(in_memory=True), text, token_file=None if token is None else Path(token))
    assert str(refused.value) == words


LOCAL = DoorAddress("127.0.0.1", 80)
SECRET = DoorAddress("0.0.0.0", 80, "secret")
FIGURES = DoorAddress("0.0.0.0", 80, figures_only=True)


@pytest.mark.parametrize(
    ("door", "path", "headers", "code"),
    [
        (LOCAL, "/metrics", {}, None),
        (LOCAL, "/metrics", {"host": "[::1]:80", "origin": "http://[::1]:80"}, None),
        (LOCAL, "/metrics", {"host": "rebound.example:80"}, "unauthorized"),
        (LOCAL, "/metrics", {"host": "localhost:80", "origin": "http://other.example"}, "unauthorized"),
        (LOCAL, "/metrics", {"host": "localhost:80", "origin": "null"}, "unauthorized"),
        (LOCAL, "/metrics", {"host": "localhost:x"}, "bad-request"),
        (LOCAL, "/healthz", {"host": "10.0.0.7:80"}, None),
        (SECRET, "/metrics", {"host": "any.example"}, "unauthorized"),
        (SECRET, "/metrics", {"authorization": "Bearer secret", "host": "any.example"}, None),
        (SECRET, "/metrics", {"authorization": "Bearer secre\u00e9"}, "unauthorized"),
        (SECRET, "/metrics", {"authorization": "Bearer secret", "origin": "http://other.example"}, "unauthorized"),
        (SECRET, "/readyz", {}, None),
        (FIGURES, "/metrics", {"host": "any.example"}, None),
    ],
)
def test_a_request_is_admitted_by_its_headers(
    door: DoorAddress, path: str, headers: dict[str, Any], code: str | None
) -> None:
    if code is None:
        admit(door, "http", path, headers)
        return
    with pytest.raises(Failure) as refused:
        admit(door, "http", path, headers)
    assert refused.value.code == code
