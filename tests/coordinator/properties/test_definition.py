"""Values are read and refused as by Apache Kafka 4.4, whose answers tools/properties/ProbeValues.java got."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.properties.definition import InvalidProperty, Property, java_double, text_of
from muster.coordinator.properties.lookup import BROKER, CLIENT_METRICS, GROUP, TOPIC

ANSWERS = json.loads(gzip.decompress((Path(__file__).parent / "kafka_answers.json.gz").read_bytes()))
TABLES = {"broker": BROKER, "topic": TOPIC, "group": GROUP}

# Kafka lists these values in the order of a Java hash set, which changes from run to run
ANY_ORDER = {"group.consumer.migration.policy"}


def comparable(message: str, *, any_order: bool) -> object:
    start, _, words = message.rpartition(": ")
    return (start, sorted(words.split(", "))) if any_order else message


def asked(prop: Property, text: str) -> tuple[str, object]:
    """The verdict, and the value as the answers have it, or the error message."""
    try:
        value = prop.parse(text)
    except InvalidProperty as error:
        return "no", str(error)
    return "ok", list(value) if isinstance(value, tuple) else text_of(value) if prop.type == "DOUBLE" else value


@pytest.mark.parametrize("table", sorted(TABLES))
def test_property_values_are_read_and_refused_as_by_kafka(table: str) -> None:
    compared = 0
    for name, answers in ANSWERS[table].items():
        prop = TABLES[table][name]
        for text, verdict, expected in answers:
            our_verdict, ours = asked(prop, text)
            assert our_verdict == verdict, (name, text, ours)
            if verdict == "ok":
                assert ours == expected, (name, text)
            else:
                any_order = name in ANY_ORDER
                assert comparable(str(ours), any_order=any_order) == comparable(expected, any_order=any_order)
            compared += 1
    assert compared > 800


@pytest.mark.parametrize("table", [BROKER, TOPIC, GROUP])
def test_every_default_is_valid(table: dict[str, Property]) -> None:
    for prop in table.values():
        if prop.default is not None and not (prop.valid and "not empty" in prop.valid and not prop.default):
            assert prop.parse(prop.default) == prop.default_value


def test_names_are_sorted_and_distinct_as_fields() -> None:
    assert list(BROKER) == sorted(BROKER)
    assert len({name.replace(".", "_") for name in BROKER}) == len(BROKER)


@given(st.floats())
def test_a_double_written_as_java_does_reads_back(value: float) -> None:
    again = float(java_double(value))
    assert again == value or (again != again and value != value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2147483647.0, "2.147483647E9"),
        (1e-4, "1.0E-4"),
    ],
)
def test_doubles_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_refusal_names_property_and_text() -> None:
    with pytest.raises(InvalidProperty) as caught:
        TOPIC["retention.ms"].parse("-2")
    assert (caught.value.name, caught.value.text) == ("retention.ms", "-2")


@given(st.text(alphabet="a, \t\x0b\x1c", max_size=9))
def test_a_list_is_divided_as_by_kafkas_pattern(text: str) -> None:
    prop = Property("x", "LIST", "", None, "MEDIUM", "", internal=False)
    trimmed = text.strip("".join(map(chr, range(33))))
    expected = tuple(re.split(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*", trimmed)) if trimmed else ()
    assert prop.parse(text) == expected


def test_long_values_are_read_in_a_time_that_grows_with_their_length() -> None:
    """With patterns that look back, such values took minutes."""
    blanks, digits = " " * 300_000, "1" * 300_000
    assert CLIENT_METRICS["match"].parse(f"a{blanks}b") == (f"a{blanks}b",)
    assert CLIENT_METRICS["match"].parse(f"a{blanks},{blanks}b") == ("a", "b")
    with pytest.raises(InvalidProperty):
        TOPIC["min.cleanable.dirty.ratio"].parse(f"{digits}x")


@given(st.text(max_size=30), st.sampled_from([*BROKER.values(), *TOPIC.values(), *GROUP.values()]))
def test_any_property_text_is_read_or_refused(text: str, prop: Property) -> None:
    try:
        value = prop.parse(text)
    except InvalidProperty:
        return
    written = text_of(value)
    assert written is not None
    assert prop.parse(written) == value or value != value
