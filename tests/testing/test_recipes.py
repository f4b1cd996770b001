"""docs/testing.md: its examples are run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
RECIPES = 11


def test_the_recipes_and_the_first_example(pytester: pytest.Pytester) -> None:
    recipes = [block for block in BLOCKS if block.startswith("# recipes\n")]
    source = "\n\n".join(recipes)
    assert source.count("def test_") == RECIPES
    pytester.makefile(".ini", pytest="[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    first = next(block for block in BLOCKS if "def test_it_reads" in block)
    pytester.makepyfile(test_recipes=source, test_first=first)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--durations=5").assert_outcomes(passed=RECIPES + 1)


WITHOUT_PYTEST = [block for block in BLOCKS if block.startswith("from muster.testing import Muster\n")]


@pytest.mark.parametrize("number", range(len(WITHOUT_PYTEST)))
def test_the_examples_without_pytest(number: int) -> None:
    exec(WITHOUT_PYTEST[number], {})
