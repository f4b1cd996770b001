r"""Java's .properties format; every expectation was taken from java.util.Properties.load."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.config import ConfigError
from muster.coordinator.config.sources import decode_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a comment\n  ! another\n\n \t\n", {}),
        ("a=b\nc:d\ne f\ng = h\ni : j\nk\t=\tl", {"a": "b", "c": "d", "e": "f", "g": "h", "i": "j", "k": "l"}),
        ("a==b\nc=:d\ne  =  = f", {"a": "=b", "c": ":d", "e": "= f"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b  ", {"a": "b  "}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=b\\", {"a": "b"}),
        ("\\", {"": ""}),
        ("\\\n# a comment\n", {}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a\\ b=c\nd\\:e=f\ng\\=h=i", {"a b": "c", "d:e": "f", "g=h": "i"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\nb=2\na=3", {"b": "2", "a": "3"}),
        ("  a = b", {"a": "b"}),
    ],
)
def test_properties_are_parsed_as_java_does(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "a=\\u"])
def test_a_malformed_escape_names_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.properties: malformed escape"):
        parse_properties(text, "x.properties")


def test_bytes_are_utf8_or_else_latin1() -> None:
    assert decode_properties("a=é".encode()) == "a=é"
    assert decode_properties("a=é".encode("latin-1")) == "a=é"
    assert decode_properties(b"\xef\xbb\xbfa=1") == "a=1"


def escaped(text: str) -> str:
    return "".join(
        "\\" + char if char in "\\=:#! \t\f" else {"\n": "\\n", "\r": "\\r"}.get(char, char) for char in text
    )


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_properties_are_parsed_back(found: dict[str, str]) -> None:
    assert parse_properties("\n".join(f"{escaped(name)}={escaped(text)}" for name, text in found.items())) == found


@given(st.text())
def test_any_properties_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_properties(text)
    except ConfigError:
        assert "\\u" in text
    else:
        assert all(isinstance(value, str) for value in found.values())
