from __future__ import annotations

import pytest

from muster.coordinator.topics.names import INTERNAL_TOPICS, collision_key, may_collide, name_fault


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names_have_no_fault(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "ASCII alphanumerics"),
        ("ü", "ASCII alphanumerics"),
        ("a\n", "ASCII alphanumerics"),
        ("a/b", "ASCII alphanumerics"),
    ],
)
def test_illegal_names_have_a_reason(name: str, words: str) -> None:
    assert words in (name_fault(name) or "")


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert may_collide("a.b")
    assert may_collide("a_b")
    assert not may_collide("a-b")


def test_the_topics_of_the_coordinators_are_internal() -> None:
    assert {"__consumer_offsets", "__transaction_state"} <= INTERNAL_TOPICS
