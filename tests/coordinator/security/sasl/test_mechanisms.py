"""PLAIN and SCRAM, token by token; the vectors are those of RFC 7677 and of Kafka's own client."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.security.sasl.exchange import AuthenticationFailed, PlainExchange, PlainUsers
from muster.coordinator.security.sasl.scram import (
    MAX_MESSAGE_BYTES,
    MECHANISMS,
    Credentials,
    ScramCredential,
    ScramExchange,
)

USERS = PlainUsers({"user_alice": "a secret", "user_bob": "b", "username": "admin", "user_é": "ü"})
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


@pytest.mark.parametrize(
    ("token", "user"),
    [("\0alice\0a secret", "alice"), ("alice\0alice\0a secret", "alice"), ("\0bob\0b", "bob"), ("\0é\0ü", "é")],
)
def test_plain_authenticates_users(token: str, user: str) -> None:
    exchange = PlainExchange(USERS)
    assert exchange.evaluate(token.encode()) == b""
    assert (exchange.is_complete, exchange.user) == (True, user)


@pytest.mark.parametrize(
    ("token", "report"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0a secret", "Authentication failed: Invalid username or password"),
        (b"\0name\0admin", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"bob\0alice\0a secret",
         "Authentication failed: Client requested an authorization id that is different from username"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0a secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0a secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0a secret\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\xff\0\xff\0\xff", "Authentication failed: Invalid username or password"),
    ],
)  # fmt: skip
def test_plain_refuses_wrong_tokens(token: bytes, report: str) -> None:
    exchange = PlainExchange(USERS)
    with pytest.raises(AuthenticationFailed) as caught:
        exchange.evaluate(token)
    assert caught.value.answer == report
    assert not exchange.is_complete


class Client:
    """The client's side of SCRAM, written from the RFC."""

    def __init__(self, name: str, user: str, password: str, nonce: str = "abc", extension: str = "") -> None:
        self.mechanism = MECHANISMS[name]
        self.password = password
        quoted = user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={quoted},r={nonce}{extension}"
        self.verifier = b""

    def first(self, authorization_id: str = "") -> bytes:
        return f"n,{authorization_id},{self.bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        algorithm = self.mechanism.algorithm
        salted = hashlib.pbkdf2_hmac(algorithm, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        stored_key = hashlib.new(algorithm, client_key).digest()
        without_proof = f"c=biws,r={parts['r']}"
        signed = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(stored_key, signed, algorithm)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        server_key = hmac.digest(salted, b"Server Key", algorithm)
        self.verifier = b"v=" + base64.b64encode(hmac.digest(server_key, signed, algorithm))
        return f"{without_proof},p={proof}".encode()


def credential(name: str, password: str, iterations: int = 4096) -> ScramCredential:
    mechanism = MECHANISMS[name]
    return mechanism.credential(SALT, mechanism.salted(password, SALT, iterations), iterations)


def exchange(
    name: str, users: dict[str, ScramCredential], nonce: str = RFC_NONCE, secret: bytes = b"s"
) -> ScramExchange:
    return ScramExchange(Credentials(MECHANISMS[name], users.get, lambda: nonce, secret))


def test_scram_gives_the_messages_of_the_rfc() -> None:
    server = exchange("SCRAM-SHA-256", {"user": credential("SCRAM-SHA-256", "pencil")})
    challenge = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert not server.is_complete
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.evaluate(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (server.is_complete, server.user) == (True, "user")
    with pytest.raises(AuthenticationFailed):
        server.evaluate(final)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "x y"])
@pytest.mark.parametrize("extension", ["", ",tokenauth=false,other=x"])
def test_scram_authenticates_users(name: str, user: str, extension: str) -> None:
    server, client = exchange(name, {user: credential(name, "päss")}), Client(name, user, "päss", extension=extension)
    assert server.evaluate(client.final(server.evaluate(client.first()))) == client.verifier
    assert (server.is_complete, server.user) == (True, user)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_wrong_password_and_a_wrong_user_look_the_same(name: str) -> None:
    reported = []
    for user in "alice", "nobody":
        server, client = exchange(name, {"alice": credential(name, "right")}), Client(name, user, "wrong")
        challenge = server.evaluate(client.first())
        assert challenge.endswith(b",i=4096")
        with pytest.raises(AuthenticationFailed) as caught:
            server.evaluate(client.final(challenge))
        reported.append(caught.value.answer)
        assert not server.is_complete
    assert reported == [None, None]


def test_the_salt_of_an_unknown_user_is_always_the_same() -> None:
    def salt(user: str, secret: bytes) -> bytes:
        return (
            exchange("SCRAM-SHA-256", {}, secret=secret)
            .evaluate(Client("SCRAM-SHA-256", user, "").first())
            .split(b",")[1]
        )

    assert salt("a", b"1") == salt("a", b"1")
    assert len({salt("a", b"1"), salt("b", b"1"), salt("a", b"2")}) == 3


@pytest.mark.parametrize(
    ("first", "report"),
    [
        (b"", None), (b"y,,n=alice,r=x", None), (b"p=tls-unique,,n=alice,r=x", None), (b"n,,n=alice", None),
        (b"n,,n=,r=x", None), (b"n,,n=a=b,r=x", None), (b"n,,n=alice,r=", None), (b"n,,n=alice,r=a b", None),
        (b"n,,n=alice,r=x,", None), (b"\xff", None), (b"n,,n=al\xc3\xa9,r=x", None),
        (b"n,a=bob,n=alice,r=x",
         "Authentication failed: Client requested an authorization id that is different from username"),
        (b"n,a=bob,n=nobody,r=x",
         "Authentication failed: Client requested an authorization id that is different from username"),
    ],
)  # fmt: skip
def test_malformed_first_scram_messages_are_refused(first: bytes, report: str | None) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        exchange("SCRAM-SHA-256", {"alice": credential("SCRAM-SHA-256", "p")}).evaluate(first)
    assert caught.value.answer == report


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"", lambda final: final[:-4], lambda final: final.replace(b"r=abc", b"r=abd"),
        lambda final: final.replace(b"c=biws", b"c=eSws"), lambda final: final.replace(b",p=", b",p=AAAA"),
        lambda final: final.partition(b",p=")[0] + b",p=", lambda final: final + b",x=y",
        lambda final: final.partition(b",p=")[0] + b",p=AAAA",
    ],
)  # fmt: skip
def test_wrong_final_scram_messages_are_refused(change: object) -> None:
    name = "SCRAM-SHA-512"
    server, client = exchange(name, {"a": credential(name, "p")}), Client(name, "a", "p")
    final = client.final(server.evaluate(client.first()))
    with pytest.raises(AuthenticationFailed):
        server.evaluate(change(final))
    with pytest.raises(AuthenticationFailed):
        server.evaluate(final)
    assert not server.is_complete


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_random_messages_are_refused_without_other_errors(tokens: list[bytes]) -> None:
    for one in (PlainExchange(USERS), exchange("SCRAM-SHA-256", {"a": credential("SCRAM-SHA-256", "p")})):
        for token in tokens:
            try:
                one.evaluate(token)
            except AuthenticationFailed:
                break
        assert not one.is_complete


@pytest.mark.parametrize("head", [b"n,,n=", b"n,,n=ann,r="])
def test_too_long_scram_messages_are_refused(head: bytes) -> None:
    """A user name of 512 KB once took 68 ms."""
    rest = b",r=abc" if head.endswith(b"n=") else b""
    name = b"a" * (MAX_MESSAGE_BYTES - len(head) - len(rest))
    assert exchange("SCRAM-SHA-256", {}).evaluate(head + name + rest)
    with pytest.raises(AuthenticationFailed):
        exchange("SCRAM-SHA-256", {}).evaluate(head + name + b"a" + rest)


def test_credentials_are_not_printed() -> None:
    assert "hidden" in repr(credential("SCRAM-SHA-256", "p"))
