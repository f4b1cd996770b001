"""Values of sasl.jaas.config are read in Kafka's syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.security.sasl.jaas import BadJaas, parse, parse_file


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.b.M required;", {}),
        ('a.b.M required user_x="y";', {"user_x": "y"}),
        ("a.b.M REQUIRED\n  user_x='y'\n  z=word;", {"user_x": "y", "z": "word"}),
        ('a.b.M sufficient /* none */ k="a \\"q\\" \\\\ \\t \\101 =;" // end\n ;', {"k": 'a "q" \\ \t A =;'}),
        ("a.b.M optional a-b$c_d=e-f ; ", {"a-b$c_d": "e-f"}),
        ('a.b.M requisite "quoted key"="v";', {"quoted key": "v"}),
        ('a.b.M required user_é="ü//no comment";', {"user_é": "ü//no comment"}),
        ('a.b.M required k="";', {"k": ""}),
        ('a.b.M required k="1" k="2";', {"k": "2"}),
    ],
)
def test_valid_jaas_configs_are_parsed(text: str, options: dict[str, str]) -> None:
    module = parse(text)
    assert (module.name, dict(module.options)) == ("a.b.M", options)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it names no login module"),
        ("a.b.M", "one of required, requisite, sufficient, optional is expected"),
        ("a.b.M needed;", "one of required, requisite, sufficient, optional is expected"),
        ("a.b.M required", "it does not end in a semicolon"),
        ('a.b.M required k="hush"', "it does not end in a semicolon"),
        ("a.b.M required k=;", "k has no value; put it into quotes"),
        ("a.b.M required k=123;", "k has no value; put it into quotes"),
        ("a.b.M required k hush;", "behind k a = is expected"),
        ('a.b.M required k="hush;', "k has no value; put it into quotes"),
        ("a.b.M required; a.b.M required;", "it has more than one login module"),
    ],
)
def test_malformed_jaas_configs_are_refused_without_their_secrets(text: str, why: str) -> None:
    with pytest.raises(BadJaas) as caught:
        parse(text)
    assert why in str(caught.value)
    assert "hush" not in str(caught.value)


@given(st.text(alphabet="aM .=;\"'\\/*-1\n", max_size=30))
def test_any_jaas_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse("a.b.M required " + text)
    except BadJaas:
        return


def test_a_jaas_file_with_sections_is_parsed() -> None:
    sections = parse_file(
        """
        // of all listeners
        KafkaServer {
           a.Plain required user_x="y";
           a.Scram required;
        };
        internal.KafkaServer { a.Plain required user_z="}"; };
        Empty {};
        """
    )
    assert {name: [(one.name, dict(one.options)) for one in modules] for name, modules in sections.items()} == {
        "KafkaServer": [("a.Plain", {"user_x": "y"}), ("a.Scram", {})],
        "internal.KafkaServer": [("a.Plain", {"user_z": "}"})],
        "Empty": [],
    }
    assert parse_file("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("KafkaServer", "a section does not begin with its name and {"),
        ('a.M required user_x="hush";', "a section does not begin with its name and {"),
        ("{};", "a section does not begin with its name and {"),
        ("K { a.M required; ", "the section K does not end in };"),
        ("K { a.M required; }", "the section K does not end in };"),
        ("K { a.M required }", "behind an option a = is expected"),
        ('K { user_x="hush"; };', "behind the login module one of required"),
        ("K {}; K {};", "the section K occurs twice"),
    ],
)
def test_a_malformed_jaas_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadJaas) as caught:
        parse_file(text)
    assert why in str(caught.value)
    assert "hush" not in str(caught.value)
