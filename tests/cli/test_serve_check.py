"""`muster serve --check`, and settings that a server cannot use."""
# ruff: noqa: E501  # a table is read by its rows

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.coordinator.config import ConfigError, load
from tests.cli.command_harness import Command
from tests.support.certificates import Authority


def test_check_reports_who_may_connect_to_each_listener(here: Command, tmp_path: Path) -> None:
    authority = Authority()
    key = authority.signed("CN=server,O=Muster").pem(tmp_path / "key.pem")
    os.chmod(key, 0o644)
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:1,OUT://:2,SSL://[::1]:3\nadvertised.listeners=OUT://b.example:4\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT,SSL:SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={key}\nssl.client.auth=required\n"
    )
    file.chmod(0o644)  # the output has no passwords
    said = here("serve", "--check", "--config", str(file))
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "Listener PLAINTEXT is at 127.0.0.1:1 and speaks PLAINTEXT. Clients get the address 127.0.0.1:1.",
        "  It is not encrypted, and clients are not known: each is User:ANONYMOUS.",
        "Listener OUT is at :2 (every address of this machine) and speaks PLAINTEXT. Clients get the address b.example:4.",
        "  It is not encrypted, and clients are not known: each is User:ANONYMOUS.",
        "Listener SSL is at [::1]:3 and speaks SSL. Clients get the address [::1]:3.",
        "  It is encrypted (TLSv1.2 to TLSv1.3); its certificate is that of CN=server,O=Muster.",
        "  Clients need a certificate, which names them.",
        "Every connected client may do everything: there is no authorizer.class.name.",
        "warning: listener OUT: everyone who reaches it may connect, and others on the network can read all that clients send; use TLS, or "
        "listen on 127.0.0.1",
        "warning: listener SSL: without ssl.truststore, clients with a certificate of any authority of the system are "
        "trusted",
        f"warning: {key} has the server's key and can be read by every user of this machine; chmod o-r {key}",
    ]


def test_check_warns_of_passwords_readable_by_all(
    here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the current folder may have the data of a `make serve`, which causes another warning
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:1\nsasl.enabled.mechanisms=PLAIN\n"
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="hush";\n'
    )
    file.chmod(0o644)
    warning = f"warning: {file} has passwords and can be read by every user of this machine; chmod o-r {file}"
    said = here("serve", "--check", "--config", str(file))
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == warning
    file.chmod(0o600)
    assert warning not in here("serve", "--check", "--config", str(file)).stdout


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["ssl.keystore.location=no.jks", "ssl.keystore.password=hush"], "ssl.keystore.location no.jks cannot be read: No such file or directory"),
        (["ssl.keystore.type=PEM", "ssl.keystore.key=hush"], "ssl.keystore.key is given without ssl.keystore.certificate.chain; give both"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [[], ["--check"]])
def test_unusable_tls_settings_are_refused_in_one_sentence(
    here: Command, tmp_path: Path, overrides: list[str], sentence: str, more: list[str]
) -> None:
    words = [word for one in ["listeners=SSL://127.0.0.1:0", *overrides] for word in ("--override", one)]
    said = here("serve", *words, *more)
    assert (said.returncode, said.stdout, said.stderr) == (2, "", f"muster serve: listener SSL: {sentence}\n")
    assert not (tmp_path / "muster-data").exists()


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("hush", "--user takes NAME:PASSWORD, or NAME:@FILE for a password in a file"),
        ("bob:@no", "--user: the file of the password of bob cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_user_option_is_refused_in_one_sentence(here: Command, user: str, sentence: str) -> None:
    said = here("serve", "--user", user)
    assert (said.returncode, said.stderr) == (2, f"muster serve: {sentence}\n")


def test_check_reports_who_can_log_in(here: Command) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    overrides = [
        "listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", "connections.max.reauth.ms=5",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required user_bob="hush";',
    ]  # fmt: skip
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    assert said.stdout.splitlines()[1:] == [
        "  It is not encrypted.",
        "  Clients say who they are by PLAIN, SCRAM-SHA-512.",
        "  PLAIN knows 1 user.",
        "  They say so again after 5 ms at most.",
        "Every connected client may do everything: there is no authorizer.class.name.",
    ]
    # such a server starts, as Kafka does; a client that asks gets the mistake in the answer
    assert (said.returncode, said.stderr) == (
        2,
        "muster serve: listener SASL_PLAINTEXT at :1: the passwords of PLAIN would be sent in the clear; use SASL_SSL, "
        "or listen on 127.0.0.1\n",
    )


def test_check_warns_of_records_sent_without_encryption(here: Command) -> None:
    overrides = ["listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=SCRAM-SHA-512"]
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == (
        "warning: listener SASL_PLAINTEXT: others on the network can read all that clients send; use TLS, or listen on 127.0.0.1"
    )


BEARER = "org.apache.kafka.common.security.oauthbearer"


HANDLER = "listener.name.s.oauthbearer.sasl.server.callback.handler.class"


JWKS = "sasl.oauthbearer.jwks.endpoint.url"


UNSIGNED = f"{BEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([], f"{JWKS} is missing, so no token could be checked; for tokens that nobody has signed, as in tests, say "
             f"{HANDLER}={UNSIGNED}"),
        ([f"{HANDLER}=org.example.Checks"],
         f"{HANDLER}=org.example.Checks is a class of Java, which cannot run here; expected "
         f"{BEARER}.OAuthBearerValidatorCallbackHandler, or {UNSIGNED} for tokens that nobody has signed"),
        ([f"{JWKS}=file:///none.json"], f"{JWKS}=file:///none.json cannot be used: No such file or directory"),
        ([f"{JWKS}=keys.json"], f"{JWKS} is no URL of a file, http or https; expected https://HOST/PATH or file:///PATH"),
        ([f"{JWKS}=ftp://u:hush@h/"], f"{JWKS} is no URL of a file, http or https; expected https://HOST/PATH or "
                                      "file:///PATH"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwt.validator.class=org.example.Checks"],
         "sasl.oauthbearer.jwt.validator.class=org.example.Checks cannot run here; leave it out"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwks.endpoint.refresh.ms=0"],
         "sasl.oauthbearer.jwks.endpoint.refresh.ms=0 is not valid; expected at least 1"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.sub.claim.name= "],
         "sasl.oauthbearer.sub.claim.name is empty; leave it out, or name a claim"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=50000"],
         "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms is less than …retry.backoff.ms"),
        ([f"{JWKS}=https://h", f"listener.name.s.oauthbearer.sasl.jaas.config={BEARER}.OAuthBearerLoginModule required "
          'ssl.truststore.type="PEM" ssl.truststore.location="/none.pem";'],
         f"for {JWKS}: ssl.truststore.location /none.pem cannot be read: No such file or directory"),
        ([f"{HANDLER}={UNSIGNED}", f"listener.name.s.oauthbearer.sasl.jaas.config={BEARER}.OAuthBearerLoginModule "
          'required unsecuredValidatorAllowableClockSkewMs="x";'],
         "unsecuredValidatorAllowableClockSkewMs is not a whole number of at least 0"),
    ],
)  # fmt: skip
def test_unusable_token_settings_are_refused_in_one_sentence(overrides: list[str], sentence: str) -> None:
    listener = ["listeners=S://127.0.0.1:0", "listener.security.protocol.map=S:SASL_PLAINTEXT"]
    with pytest.raises(ConfigError) as caught:
        load(overrides=[*listener, "sasl.enabled.mechanisms=OAUTHBEARER", *overrides], in_memory=True)
    assert str(caught.value).removeprefix("listener S: ").removeprefix("listener S, ") == sentence
    assert "hush" not in str(caught.value)


def test_check_reports_whose_tokens_are_accepted(here: Command) -> None:
    overrides = [
        "listeners=S://127.0.0.1:1,T://127.0.0.1:2", "sasl.enabled.mechanisms=OAUTHBEARER",
        "listener.security.protocol.map=S:SASL_PLAINTEXT,T:SASL_PLAINTEXT", f"{HANDLER}={UNSIGNED}",
        f"listener.name.t.{JWKS}=http://idp.example/keys",
        "listener.name.t.oauthbearer.sasl.oauthbearer.expected.audience=a,b", "delegation.token.secret.key=hush",
    ]  # fmt: skip
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    lines = said.stdout.splitlines()
    assert said.returncode == 0
    assert "  Tokens of OAUTHBEARER are signed by any issuer, for a, b." in lines
    assert "Delegation tokens are made for clients that have authenticated, and used with SCRAM." in lines
    assert "hush" not in said.stdout
    assert lines[-3:] == [
        "warning: listener S: tokens of OAUTHBEARER need no signature, so each client is who it says it is; only for "
        "tests",
        "warning: listener T: the keys for tokens are fetched by http, so they can be exchanged on the way; use https",
        "warning: delegation.token.secret.key is given, but no listener has SCRAM: no token can be used",
    ]
