"""OAUTHBEARER: the exchange, and which tokens are accepted. The conformance tests ask Kafka the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.security.sasl.exchange import AuthenticationFailed
from muster.coordinator.security.sasl.jwt import BadKeys, Expected, JwkSet, JwtCheck
from muster.coordinator.security.sasl.oauthbearer import (
    BadOption,
    BearerToken,
    InvalidToken,
    OAuthBearerExchange,
    UnsecuredCheck,
    UnsecuredOptions,
)
from tests.coordinator.security.sasl.bearer_cases import (
    ANOTHER_SCHEME,
    ANYBODY,
    AUDIENCE,
    INVALID,
    ISSUER,
    MESSAGES,
    ONLY_HERE,
    REFUSED,
    TOKENS,
    UNSECURED,
    UNSECURED_WITH_OPTIONS,
    Case,
    Keys,
    Message,
)

NOW_S = 1_800_000_000
KEYS = Keys()
OPTIONS = {
    "unsecuredValidatorPrincipalClaimName": "user",
    "unsecuredValidatorScopeClaimName": " roles ",
    "unsecuredValidatorRequiredScope": "all  more",
    "unsecuredValidatorAllowableClockSkewMs": "20000",
}
Check = Callable[[str], BearerToken]


class Source:
    """A source whose keys do not change."""

    def __init__(self, text: str) -> None:
        self.keys = JwkSet(text)
        self.asked: list[str] = []

    def now(self) -> JwkSet:
        """See `KeySource`."""
        return self.keys

    def missing(self, kid: str) -> None:
        """See `KeySource`."""
        self.asked.append(kid)


SOURCE = Source(KEYS.jwks())


def now() -> int:
    return NOW_S * 1000


STRICT = JwtCheck(SOURCE, Expected(frozenset([AUDIENCE]), ISSUER), now)
OPEN = JwtCheck(SOURCE, Expected(), now)


def reported(check: Check, message: str) -> tuple[str | None, str, int | None]:
    """The answer to a client: None if it is let in; then its name, and until when."""
    why: list[str] = []
    exchange = OAuthBearerExchange(check, why.append)
    token = message.encode("latin-1")
    try:
        challenge = exchange.evaluate(token)
        if exchange.is_complete:
            assert (challenge, why) == (b"", [])
            return None, exchange.user, exchange.expires_ms
        assert len(why) == 1
        exchange.evaluate(b"\1")
    except AuthenticationFailed as failure:
        assert not exchange.is_complete
        return failure.answer or REFUSED, "", None
    raise AssertionError(challenge)


def expected_of(case: Case) -> tuple[str | None, str, int | None]:
    payload = case.payload(NOW_S)
    if case.reported is not None or isinstance(payload, bytes):
        return case.reported, "", None
    return None, case.user, int(payload["exp"]) * 1000


@pytest.mark.parametrize(
    ("check", "case"),
    [
        *((STRICT, case) for case in (*TOKENS, *ONLY_HERE)),
        *((OPEN, case) for case in ANYBODY),
        *((UnsecuredCheck(UnsecuredOptions(), now), case) for case in UNSECURED),
        *((UnsecuredCheck(UnsecuredOptions.read(OPTIONS), now), case) for case in UNSECURED_WITH_OPTIONS),
    ],
    ids=lambda one: one.name if isinstance(one, Case) else type(one).__name__,
)
def test_each_token_is_accepted_or_refused_as_expected(check: Check, case: Case) -> None:
    assert reported(check, f"n,,\1auth=Bearer {KEYS.token(case, NOW_S)}\1\1") == expected_of(case)


@pytest.mark.parametrize("message", [*MESSAGES, ANOTHER_SCHEME], ids=lambda one: one.name)
def test_each_message_is_answered_as_expected(message: Message) -> None:
    text = message.text.replace("{token}", KEYS.token(Case("good"), NOW_S))
    assert reported(STRICT, text)[0] == message.reported


def test_a_client_may_send_another_token_after_a_bad_one() -> None:
    exchange = OAuthBearerExchange(STRICT)
    assert exchange.evaluate(b"n,,\1auth=Bearer x\1\1") == b'{"status":"invalid_token"}'
    assert exchange.evaluate(f"n,,\1auth=Bearer {KEYS.token(Case('good'), NOW_S)}\1\1".encode()) == b""
    assert exchange.is_complete


def test_a_too_large_token_is_refused() -> None:
    token = KEYS.token(Case("", {"more": "x" * 40_000}), NOW_S)
    assert reported(STRICT, f"n,,\1auth=Bearer {token}\1\1")[0] is None
    token = KEYS.token(Case("", {"more": "x" * 50_000}), NOW_S)
    assert reported(STRICT, f"n,,\1auth=Bearer {token}\1\1")[0] == INVALID


def test_a_missing_key_is_requested_from_the_source() -> None:
    source = Source(KEYS.jwks("rsa", "p256", "p384"))
    check = JwtCheck(source, Expected(), now)
    for case in Case("", kid="new", signer="rsa"), Case("", kid=None, alg="ES512", signer="p256", signed_as="ES256"):
        with pytest.raises(InvalidToken, match="none of the"):
            check(KEYS.token(case, NOW_S))
    assert source.asked == ["new", ""]


def test_the_names_of_claims_can_be_configured() -> None:
    check = JwtCheck(SOURCE, Expected(frozenset([AUDIENCE]), None, "roles", "email", 0), now)
    token = KEYS.token(Case("", {"email": "a@b", "scope": "", "roles": "x", "sub": 5}), NOW_S)
    assert check(token) == BearerToken("a@b", (NOW_S + 300) * 1000)
    with pytest.raises(InvalidToken, match="a scope \\(roles\\) is empty"):
        check(KEYS.token(Case("", {"email": "a@b", "roles": ""}), NOW_S))
    with pytest.raises(InvalidToken, match="it has expired"):
        check(KEYS.token(Case("", {"email": "a@b", "iat": 5, "exp": NOW_S}), NOW_S))


def test_the_reason_of_a_refusal_contains_nothing_of_the_token() -> None:
    for case in TOKENS:
        if case.reported is not None:
            token = KEYS.token(case, NOW_S)
            with pytest.raises(InvalidToken) as caught:
                STRICT(token)
            assert not any(part and part in str(caught.value) for part in token.split("."))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", 'it has no list "keys"'),
        ('{"keys": {}}', 'it has no list "keys"'),
        ('{"keys": []}', "it has no key that signatures can be checked with"),
        ('{"keys": [5, {"kty": "other"}, {"kty": "RSA", "use": "enc"}, {"kty": "RSA", "key_ops": ["sign"]}]}',
         "it has no key that signatures can be checked with"),
        (json.dumps({"keys": [{}] * 1001}), "it has more than 1000 keys"),
    ],
)  # fmt: skip
def test_a_jwks_document_without_keys_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadKeys) as caught:
        JwkSet(text)
    assert str(caught.value) == why


def test_keys_that_cannot_be_used_refuse_tokens() -> None:
    broken = [{"kty": "RSA", "kid": "rsa", "n": "AQAB", "e": "x!"}, {"kty": "EC", "kid": "p256", "crv": "none"},
              {"kty": "oct", "kid": "oct", "k": "c2hvcnQ"}, {"kty": "RSA", "kid": "any"}]  # fmt: skip
    check = JwtCheck(Source(json.dumps({"keys": broken})), Expected(), now)
    for case in TOKENS:
        if case.kid in ("rsa", "p256", "oct", "any"):
            with pytest.raises(InvalidToken):
                check(KEYS.token(case, NOW_S))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"RequiredScope": 'a "b'}, "RequiredScope has a scope with a letter that none may have"),
        ({"AllowableClockSkewMs": "-1"}, "AllowableClockSkewMs is not a whole number of at least 0"),
        ({"AllowableClockSkewMs": "9999999999"}, "AllowableClockSkewMs is not a whole number of at least 0"),
    ],
)
def test_wrong_options_of_unsecured_tokens_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(BadOption) as caught:
        UnsecuredOptions.read({f"unsecuredValidator{name}": text for name, text in options.items()})
    assert str(caught.value) == f"unsecuredValidator{why}"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_challenged(message: bytes) -> None:
    for check in STRICT, UnsecuredCheck(UnsecuredOptions(), now):
        exchange = OAuthBearerExchange(check)
        with contextlib.suppress(AuthenticationFailed):
            exchange.evaluate(message)
        assert not exchange.is_complete


@settings(max_examples=200)
@given(st.data())
def test_a_token_with_any_changed_bit_is_refused(data: st.DataObject) -> None:
    token = KEYS.token(Case("good"), NOW_S)
    # except the last letter: some of its bits belong to no byte
    at = data.draw(st.integers(0, len(token) - 2))
    other = data.draw(st.sampled_from([letter for letter in "Ab0_-." if letter != token[at]]))
    with pytest.raises(InvalidToken):
        STRICT(token[:at] + other + token[at + 1 :])
