from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from muster.pipeline.arguments import Arguments, BadArgument, add_options, read


def given(*arguments: str) -> Arguments:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return read(parser.parse_args(arguments))


def test_the_arguments_have_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    asked = given("muster-data")
    assert asked == Arguments(
        "muster-data", {}, "muster-report", ("html", "parquet"), "local[*]", "default", None, None, (), False,
        may_skip_spark=True,
    )  # fmt: skip


def test_under_spark_submit_its_master_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    assert given("muster-data").master is None
    assert not given("muster-data").may_skip_spark
    assert given("muster-data", "--master", "spark://one:7077").master == "spark://one:7077"


def test_a_named_master_demands_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not given("muster-data", "--master", "local[*]").may_skip_spark


def test_options_of_the_client_of_a_live_cluster_are_read() -> None:
    asked = given(
        "--bootstrap-server", "one:9093", "-X", "kafka.security.protocol=SSL", "-X", "kafka.ssl.key.password=a=b"
    )
    assert asked.path is None
    assert asked.kafka == {"bootstrap.servers": "one:9093", "security.protocol": "SSL", "ssl.key.password": "a=b"}


def test_time_and_group_filters_are_read() -> None:
    asked = given(
        "d", "--since", "2026-01-31T08:00", "--until", "2026-01-31T10:00+01:00", "--group", "pay*", "--group", "orders"
    )
    assert asked.since_ms == 1_769_846_400_000
    assert asked.until_ms == asked.since_ms + 3_600_000
    assert asked.groups == ("pay*", "orders")


def test_what_if_settings_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    file.write_text('{"static": true}', encoding="utf-8")
    assert given("d", "--what-if", str(file)).what_if == '{"static": true}'
    assert given("d", "--what-if", "static").what_if == "static"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "a SOURCE or --bootstrap-server HOST:PORT was expected, one of them; neither was given"),
        (["d", "--bootstrap-server", "one:9092"], "both were given"),
        (["d", "--format", "html,pdf"], "--format html,pdf: 'pdf' is none of html, parquet, csv, json"),
        ([" "], "SOURCE ' ': a data directory, copied segments or a table was expected"),
        (["--bootstrap-server", "one:0"], "--bootstrap-server 'one:0': HOST:PORT was expected"),
        (["d", "--out", ""], "--out '': a folder was expected"),
        (["d", "--master", "mesos://one"], "--master 'mesos://one': local[*], spark://HOST:PORT, yarn or k8s://URL"),
        (["d", "--since", "yesterday"], "--since yesterday: a time such as 2026-01-31T08:00"),
        (["d", "--since", "0001-01-01T00:00+12:00"], "--since 0001-01-01T00:00+12:00: a time such as 2026-01-31T08:00"),
        (["d", "--since", "2026-02-01", "--until", "2026-01-31"], "--until 2026-01-31 is not after --since 2026-02-01"),
        (["d", "--group", ""], "--group '': the name of a group"),
        (["d", "-X", "kafka.a=b"], "-X kafka.a=b is for a live cluster"),
        (["--bootstrap-server", "one:9092", "-X", "a=b"], "-X a=b: kafka.NAME=VALUE was expected"),
        (["--bootstrap-server", "one:9092", "-X", "kafka.a"], "-X kafka.a: kafka.NAME=VALUE was expected"),
        (["d", "--compare", "last-week"], "--compare last-week: it is neither a folder, the --out of an earlier"),
        (["d", "--compare", "here/last-week"], "--compare here/last-week: it is neither a folder, the --out of"),
        (["d", "--compare", "/"], "--compare /: the --out of an earlier analysis, with its tables in Parquet, was"),
        (["d", "--compare", ".", "--out", "."], "--compare and --out are the same folder, whose tables are replaced"),
        (["d", "--compare", "s3://b/r/", "--out", "s3://b/r"], "--compare and --out are the same folder"),
        (["d", "--compare", "2026-01-31T12:00", "--since", "2026-01-31T12:00"], "a time between --since and --until"),
        (["d", "--compare", "2026-01-31T12:00", "--until", "2026-01-31"], "a time between --since and --until"),
        (["d", "--what-if", "no.json"], "--what-if no.json: there is no such file"),
    ],
)
def test_senseless_arguments_are_refused_with_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(BadArgument) as raised:
        given(*arguments)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
