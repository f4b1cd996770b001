"""The site of the docs: each page has its place, references are made from the code, and nothing needs a network."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from muster.cli import build_parser
from muster.cli.parser import walk
from muster.conform.hurts import FAULTS
from muster.coordinator.config import load
from muster.coordinator.properties.lookup import MUSTER
from muster.pipeline.episodes import thresholds
from muster.pipeline.tables.schema import TABLES
from tools.diagrams import rooms
from tools.diagrams.draw import ON_SITE
from tools.site import __main__ as site
from tools.site import staging
from tools.site.references import commands, events, limits, metrics, properties, tables, testing, wrong_answers
from tools.site.staging import MOVED, ROOT, Staging

NAV = (site.HERE / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
PAGES = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_each_page_has_one_place_on_the_site() -> None:
    named = [name for name in re.findall(r"[\w/-]+\.md", NAV) if not name.startswith("reference/")]
    assert sorted(named) == sorted({*PAGES, *MOVED.values()}), "each page of docs/ stands once in tools/site/mkdocs.yml"


def test_each_reference_has_one_place_on_the_site() -> None:
    made = {place for place, _ in site.references() if not place.startswith("reference/commands/")}
    assert set(re.findall(r"reference/\w+\.md", NAV)) == made
    assert site.COMMANDS in NAV


def test_the_reference_has_each_command_with_its_help() -> None:
    pages = commands.pages()
    for path, parser in walk(build_parser()):
        assert f"## `{path}` {{ #{path.replace(' ', '-')} }}" in pages[path.split()[1]]
        if parser.commands() is None:
            assert f"[`{path}`]" in pages["index"], path


def test_the_references_have_each_property_table_and_limit() -> None:
    shown = properties.page()
    assert [name for name in MUSTER if f"| `{name}` |" not in shown] == []
    assert "| `group.initial.rebalance.delay.ms` | INT, `3000` |" in shown
    assert [name for name in TABLES if f"## `{name}` {{ #{name} }}" not in tables.page()] == ["unknown"]
    assert "| `registry.MAX_BYTES` | 33,554,432 | The largest request without records" in limits.page()


def test_the_reference_of_wrong_answers_has_each_fault_and_client() -> None:
    shown = wrong_answers.page()
    assert shown.count("| client | |") == len(FAULTS)
    assert "**`GenerationId` has -1**" in shown
    assert {hurt.client for fault in FAULTS for hurt in fault.hurts if f"| {hurt.client} | " not in shown} == set()


def test_the_reference_of_tables_has_each_threshold() -> None:
    known = {name for name in vars(thresholds) if name.isupper()} - {"SECOND", "MINUTE"}
    assert set(re.findall(r"(?m)^\| `([A-Z_]+)` \| [\d.]+(?: s)? \| \S", tables.page())) == known


def test_the_reference_for_tests_has_parameters_and_meanings() -> None:
    shown = testing.page()
    assert "| `wait_held(joins=1, timeout=10.0)` | After `hold_joins`: wait until" in shown
    assert "## `Delay` { #delay }" in shown


def test_the_properties_of_late_settings_have_an_effect_before_they_are_made() -> None:
    fields = {one.name.replace("_", ".") for room in properties.LATE_ROOMS for one in dataclasses.fields(room)}
    assert fields <= load().effective


def test_the_references_have_events_and_metrics() -> None:
    assert "| `member_expired` | member (MemberFacts)" in events.page()
    assert "| `session_expired` | a member sent no heartbeat for its session timeout |" in events.page()
    assert "| `muster_groups` | gauge | type, state | Groups that this process coordinates. |" in metrics.page()


@pytest.fixture
def stage(tmp_path: Path) -> Staging:
    return Staging(tmp_path, lambda text: f"<svg>\n  {text.split()[0]}</svg>")


def staged(stage: Staging, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """The text of the page docs/dev/groups.md, if it had this text."""
    read = Path.read_text
    page = ROOT / "docs" / "dev" / "groups.md"
    monkeypatch.setattr(Path, "read_text", lambda self, **more: text if self == page else read(self, **more))
    return stage.page(page)


def test_links_lead_to_pages_of_the_site_and_to_copies_of_files(
    stage: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[a](../events.md#kinds) [b](../../README.md) [c](../../Makefile) [d](../../examples) [e](https://x.example)"
    found = staged(stage, monkeypatch, text)
    assert found == "[a](../events.md#kinds) [b](../index.md) [c](../files/Makefile.txt) d [e](https://x.example)"
    assert (stage.folder / "files" / "Makefile.txt").read_bytes() == (ROOT / "Makefile").read_bytes()
    link = staged(stage, monkeypatch, "See the reference of limits.")
    assert link == "See the [reference of limits](../reference/limits.md)."


def test_pictures_are_drawn_and_other_blocks_stay(stage: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    found = staged(stage, monkeypatch, "```mermaid\nflowchart TD\n```\n\n```sh\nls [a](b.md)\n```\n")
    assert found == '<div class="picture"><svg> flowchart</svg></div>\n\n```sh\nls [a](b.md)\n```\n'


def test_large_tables_of_the_code_are_drawn_on_the_site(stage: Staging) -> None:
    for name, parts in ON_SITE.items():
        page = ROOT / "docs" / name
        named = re.findall(r"<!-- on the site: (\w+) -->", page.read_text(encoding="utf-8"))
        assert sorted(named) == sorted(parts), name
        text = stage.page(page)
        assert all(draw() in text for draw in parts.values()), name


def test_the_site_needs_no_tools_of_tests() -> None:
    """`make docs-site` installs what `make pipeline` needs, and mkdocs; a fresh clone has nothing else."""
    assert not hasattr(rooms, "grimp")


def test_lists_get_an_empty_line_and_comments_go(stage: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    found = staged(stage, monkeypatch, "One:\n* a\n  b\n* c\n<!-- pasted: x -->\nTwo\n| `x \\| y` | \\| |\n")
    assert found == "One:\n\n* a\n  b\n* c\nTwo\n| `x | y` | \\| |\n"


def test_what_a_site_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://x.example"><script src="https://cdn.example/a.js"></script>')
    (tmp_path / "b.css").write_text("a { src: url(//fonts.example/a.woff) } b { src: url(a.woff) }")
    assert [*site.from_elsewhere(tmp_path)] == ["a.html: https://cdn.example/a.js", "b.css: //fonts.example/a.woff"]


def test_the_stage_has_all_pages_and_the_configuration(tmp_path: Path) -> None:
    configuration = site.stage(tmp_path, lambda _: "<svg></svg>")
    text = configuration.read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2])
    assert "reference/commands/groups.md" in named
    assert [name for name in named if not (tmp_path / "pages" / name).is_file()] == []
    scripts = re.findall(r"(?m)^    - ([\w.-]+\.(?:js|css))$|^  - ([\w.-]+\.css)$", text)
    assert [name for pair in scripts for name in pair if name and not (tmp_path / "pages" / name).is_file()] == []
    assert staging.FILES in {path.name for path in (tmp_path / "pages").iterdir()}
