"""docs/dev/groups.md names what decides in the core, and the drawing tool fails when the page is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.coordinator.groups.classic.group import DEAD, STATES, TRANSITIONS
from muster.coordinator.groups.classic.join import DECISIONS, IMPOSSIBLE, SENDERS
from tools.diagrams import draw, groups, pages

TREE = Path(__file__).resolve().parents[1]
GROUPS = TREE / "coordinator" / "groups"
PAGE = draw.DOCS / "dev" / "groups.md"


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_groups_page_equals_the_code() -> None:
    assert draw.main(["--check"]) == 0


def test_a_stale_groups_page_is_found_and_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    stale = tmp_path / "groups.md"
    stale.write_text(page.replace("--> Empty", "--> Full"), encoding="utf-8")
    monkeypatch.setattr(draw, "DOCS", tmp_path)
    monkeypatch.setattr(draw, "PAGES", {"groups.md": groups.PARTS})
    assert draw.main(["--check"]) == 1
    assert "--> Full" in stale.read_text(encoding="utf-8")
    assert draw.main([]) == 0
    assert stale.read_text(encoding="utf-8") == page
    assert draw.main(["--check"]) == 0


def test_a_page_that_lacks_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        pages.redrawn("# Groups\n\n<!-- drawn: other -->\n<!-- end -->\n", groups.PARTS)


def test_the_diagram_of_group_states_has_each_transition() -> None:
    arrows = [line for line in groups.state_diagram().splitlines() if "-->" in line and "[*]" not in line]
    assert len(arrows) == len(TRANSITIONS)
    for (state, event), target in TRANSITIONS.items():
        assert f"    {state} --> {target}: {event}" in arrows


def test_the_table_of_group_decisions_has_each_cell() -> None:
    head, _, *decisions = rows(groups.decision_table())
    living = [state for state in STATES if state != DEAD]  # no member can join a dead group
    assert ([row[0] for row in decisions], head[1:]) == (list(SENDERS), living)
    said = {(row[0], state): cell for row in decisions for state, cell in zip(living, row[1:], strict=True)}
    assert said == {pair: "-" if what == IMPOSSIBLE else what for pair, what in DECISIONS.items()}


def test_modules_and_functions_on_the_groups_page_exist() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Where the rules stand")[2].partition("## ")[0]
    named = re.findall(r"`([\w/]+\.py)`(?: \((`[\w`, ]+)\))?", section)
    assert len(named) > 20
    for name, functions in named:
        module = next(one / name for one in (GROUPS, GROUPS.parent / "state_machine", TREE) if (one / name).is_file())
        text = module.read_text(encoding="utf-8")
        for function in re.findall(r"\w+", functions):
            assert f"def {function}(" in text, (name, function)
