"""Flame graphs of requests: the boxes, and the picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.budget import flames
from tests.budget.flames import Box
from tests.budget.phases import by_function

STACKS = {("a",): 1.0, ("a", "b"): 2.0, ("a", "c", "b"): 4.0, ("d",): 3.0}


def test_a_box_has_the_instructions_of_a_function_and_of_all_that_it_calls() -> None:
    assert list(flames.boxes(STACKS)) == [
        Box(0, 0, 7, "a"),
        Box(1, 0, 2, "b"),
        Box(1, 2, 4, "c"),
        Box(2, 2, 4, "b"),
        Box(0, 7, 3, "d"),
    ]
    assert by_function(STACKS) == {"a": 1, "b": 6, "d": 3}


def test_each_kind_of_request_gets_a_picture_that_a_browser_can_read(tmp_path: Path) -> None:
    flames.write(tmp_path, {"commit, 10 <partitions>": STACKS})
    root = ElementTree.parse(tmp_path / "commit-10-partitions.svg").getroot()
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "a: 7 instructions, 70%"
    assert len(titles) == len(list(flames.boxes(STACKS)))
