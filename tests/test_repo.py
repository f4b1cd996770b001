"""The repository as a whole: nothing in it is of one machine, and the README is true."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.run import INSTALL
from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api
from muster.version import VERSION
from tests.conformance.parts import PARTS
from tests.support import sharing_out
from tools.prose import __main__ as prose

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# Whoever installs chooses package registries and mirrors, never a file of the project
REGISTRIES = (
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "maven" + ".org",
    "apache" + ".org/maven",
    "registry" + ".npmjs",
)
OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:work|tmp/plan|root)/")


def committed() -> list[Path]:
    """Every file that git knows; all existing files if git is absent."""
    try:
        out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout")
    return [ROOT / name for name in out.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    found = []
    for path in committed():
        data = path.read_bytes()
        if b"\0" not in data[:8192] and not path.is_symlink():
            found.append((path.relative_to(ROOT).as_posix(), data.decode("utf-8", "replace")))
    return found


def test_no_file_names_a_registry_or_a_machine() -> None:
    files = texts()
    assert len(files) > 50
    named = [(name, host) for name, text in files for host in REGISTRIES if host in text]
    assert named == []
    assert [(name, found[0]) for name, text in files if (found := OF_A_MACHINE.search(text))] == []


def test_every_text_file_ends_in_one_newline() -> None:
    checked = (".py", ".md", ".toml", ".in", ".java", ".sh", ".properties")
    ends = [(name, text[-2:]) for name, text in texts() if name.endswith(checked) and text]
    assert [name for name, end in ends if not end.endswith("\n") or end == "\n\n"] == []


def served_table(text: str) -> dict[int, tuple[str, int, int]]:
    """The README's table of APIs: key -> (name, least version, greatest version)."""
    rows = re.findall(r"\| (\d+) \| (\w+) \| (\d+)(?:-(\d+))? (?=\|)", text)
    return {int(key): (name, int(least), int(greatest or least)) for key, name, least, greatest in rows}


def test_the_readme_lists_the_served_versions() -> None:
    table = served_table((ROOT / "README.md").read_text(encoding="utf-8"))
    assert table == {key: (api(key).name, served.served_from, served.max_version) for key, served in SERVED.items()}


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## (\S+)$", text)[0] == VERSION


def test_links_in_the_documents_lead_to_existing_files() -> None:
    for document in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)[)#]", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), (document.name, target)


def test_links_to_headings_lead_to_existing_headings() -> None:
    anchors = {
        path: {
            re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"(?m)^#+ (.*)$", path.read_text(encoding="utf-8"))
        }
        for path in PAGES
    }
    for path in PAGES:
        for target, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", path.read_text(encoding="utf-8")):
            page = (path.parent / target).resolve() if target else path
            assert anchor in anchors[page], (path.name, target, anchor)


OF_A_USER = {"test_orders.py"}
SPAN = re.compile(r"`([^`]+)`")
FILE = re.compile(r"([\w.-]+(?:/[\w.-]+)*\.py)(?:: ([\w.]+))?")
MORE_NAMES = re.compile(r"(?:, `\w+`|(?: \(`\w+`(?:, `\w+`)*\)))+")


def named_files(page: str) -> Iterator[tuple[str, list[str]]]:
    """The Python files in the text of a page, each with the names that the page says it defines."""
    text = re.sub(r"\s+", " ", re.sub(r"(?ms)^ *```.*?^ *```$", "", page))
    for span in SPAN.finditer(text):
        if (found := FILE.fullmatch(span[1])) and "*" not in span[1]:
            path, name = found.groups()
            more = MORE_NAMES.match(text, span.end())
            yield path, [*([name] if name else []), *(SPAN.findall(more[0]) if more else [])]


def defined_in(path: Path) -> set[str]:
    """The names of functions, classes, methods (also as Class.method), parameters and variables in a module."""
    names, functions = set(), ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, functions | ast.ClassDef):
            names.add(node.name)
            names.update(f"{node.name}.{part.name}" for part in node.body if isinstance(part, functions))
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def test_each_module_that_a_page_names_exists_and_defines_the_names_beside_it() -> None:
    modules = [path.relative_to(ROOT).as_posix() for path in committed() if path.suffix == ".py"]
    wrong, seen = [], 0
    for page in PAGES:
        for name, parts in named_files(page.read_text(encoding="utf-8")):
            homes = [path for path in modules if f"/{path}".endswith(f"/{name}")]
            defined = {each for path in homes for each in defined_in(ROOT / path)} if parts else set()
            seen += len(parts)
            wrong += [(page.name, name, part) for part in parts if part not in defined]
            if not homes and name not in OF_A_USER:
                wrong.append((page.name, name, "there is no such file"))
    assert wrong == []
    assert seen > 100


def test_the_make_targets_named_on_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z][a-z-]*):", makefile))
    targets |= {f"{what.lower()}-{part}" for what, part in re.findall(r"(?m)^(TORTURE|BENCH)_([a-z]+) :=", makefile)}
    targets |= {f"conformance-{part.replace('_', '-')}" for part in (*PARTS, "random_consumers", "random_transactions")}
    for document in PAGES:
        named = re.findall(r"(?m)(?:^|`|\$ )make ([a-z][a-z-]*)", document.read_text(encoding="utf-8"))
        assert {*named} <= targets, document.name


def test_the_dear_files_of_tests_exist() -> None:
    assert [name for name in sharing_out.DEAR if not (ROOT / name).is_file()] == []


def test_each_file_that_uses_the_session_of_spark_runs_in_its_process() -> None:
    """A test that names the fixture in another form would start a second Spark."""
    for path in (ROOT / "tests/pipeline").rglob("test_*.py"):
        if re.search(r"def \w+\([^)]*\bspark\b", path.read_text(encoding="utf-8")):
            assert sharing_out.needs_spark(path), path


def test_make_can_install_the_server_for_the_bench() -> None:
    done = subprocess.run([*INSTALL, "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_help_of_make_fits_a_screen() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert 15 < len(shown) <= 20


def test_the_prose_of_the_documents_is_at_most_120_columns_wide(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main([]) == 0, capsys.readouterr().out


def test_tables_and_code_may_be_wider_than_prose() -> None:
    wide = "x" * 121
    assert prose.too_wide(f"a\n| {wide} |\n```\n{wide}\n```\n{wide}\n") == [(6, wide)]


def test_the_image_is_built_from_all_folders_of_the_package() -> None:
    """If a folder is left out, its link dangles, and the wheel lacks it."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept >= {link.name for link in (ROOT / "muster").iterdir() if link.is_symlink()}
    assert kept >= {"docker", "muster", "pyproject.toml", "requirements/build.txt", "requirements/run.txt"}
