"""The public names of Muster: commands, properties, metrics, events, columns of tables, and the API for tests.

`public_names.txt` has the names of the last release, one a line. A name that is gone or new since then has a row in
docs/changes.md. After a release `python -m tests.test_public_names` writes the file again.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import TestCase

from muster import testing
from muster.cli import build_parser
from muster.cli.command_tree import tree_of
from muster.coordinator.groups.common import events as group_events
from muster.coordinator.properties.lookup import MUSTER
from muster.coordinator.transactions import events as transaction_events
from muster.pipeline.published import names_of
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.tables.schema import TABLES
from muster.testing import faults, plugin
from tools.site.references.metrics import rows

ROOT: Final = Path(__file__).resolve().parents[1]
RELEASED: Final = Path(__file__).with_name("public_names.txt")
CHANGES: Final = ROOT / "docs" / "changes.md"
INHERITED: Final = {*dir(tuple), *dir(AssertionError), *dir(TestCase)}
"""Names that classes of the API have from Python's own classes."""
HELP: Final = {"-h", "--help"}
ACTIONS: Final = {
    thing for thing in vars(faults).values() if isinstance(thing, type) and issubclass(thing, faults.Action)
}
MADE_BY_TESTS: Final = {"Muster", "NewRecord", "Match", *(one.__name__ for one in ACTIONS - {faults.Action})}
"""Classes that a test calls; other objects are results."""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def commands() -> Iterator[str]:
    """`muster groups list`, `muster groups list --state`; without `--help`, which each command has."""
    for path, node in tree_of(build_parser()).items():
        command = " ".join(("muster", *path))
        yield command
        yield from (f"{command} {word}" for option in node.options for word in option.words if word not in HELP)


def properties() -> Iterator[str]:
    yield from MUSTER


def metrics() -> Iterator[str]:
    """`muster_groups`, `muster_groups{type}`. A test with servers compares these rows with the metrics."""
    for row in rows():
        yield row.name
        yield from (f"{row.name}{{{label}}}" for label in row.labels)


def events() -> Iterator[str]:
    """Kinds, causes and fields of events: `event member_joined`."""
    for module in (group_events, transaction_events):
        constants = (value for name, value in vars(module).items() if name.isupper() and isinstance(value, str))
        yield from (f"event {word}" for word in constants)
    spans = re.findall(r"`([^`\n]+)`", page("events.md"))
    yield from (f"event {word}" for span in spans for word in re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", span))


def columns() -> Iterator[str]:
    """`rebalances.cause`, and the columns of rows in Spark: `decoded.kind`."""
    for table, schema in TABLES.items():
        yield from (f"{table}.{name}" for name, _ in names_of(table, schema.names))
    yield from (f"raw.{name}" for name in RAW.names)
    yield from (f"decoded.{name}" for name in DECODED.names)
    options = page("pipeline-spark.md").partition('`format("muster")`')[2].partition("\n\n*")[0]
    yield from (f"format(muster).{name}" for name in re.findall(r"(?m)^\| `([\w.]+)`", options))


def api() -> Iterator[str]:
    """`Group.wait_stable`, `Group.wait_stable(members)`: modules, classes and functions for tests, with parameters."""
    for module in (testing, faults):
        for name in module.__all__:
            yield from of_thing(name, getattr(module, name))
    yield from fixtures(plugin)


def of_thing(name: str, thing: Any) -> Iterator[str]:
    yield name
    if inspect.isclass(thing) and name in MADE_BY_TESTS:
        yield from parameters(name, thing)
    if inspect.isclass(thing) and not issubclass(thing, faults.Action | faults.When | faults.Match):
        own = {*dir(thing), *getattr(thing, "__annotations__", ())} - INHERITED
        for attribute in own:
            if not attribute.startswith("_"):
                yield f"{name}.{attribute}"
                yield from parameters(f"{name}.{attribute}", inspect.getattr_static(thing, attribute, None))
    elif not inspect.isclass(thing):
        yield from parameters(name, thing)


def parameters(name: str, thing: Any) -> Iterator[str]:
    thing = getattr(thing, "__func__", thing)
    if callable(thing):
        try:
            known: Iterable[str] = inspect.signature(thing).parameters
        except (TypeError, ValueError):
            return
        yield from (f"{name}({one})" for one in known if one not in ("self", "cls", "runner") and one[0] != "_")


def fixtures(module: ModuleType) -> Iterator[str]:
    yield from (f"fixture {name}" for name in dir(module) if name.startswith("muster"))
    text = inspect.getsource(module)
    yield from re.findall(r'"(--muster-[a-z-]+)"', text)
    [marked] = re.findall(r'"muster\(([^"]*?)\): ', text)
    yield from (f"mark muster({one})" for one in re.findall(r"(\w+)=", marked))


def http() -> Iterator[str]:
    """`POST /v1/faults`, and the fields of bodies: `http Match.api`."""
    document: Mapping[str, Any] = json.loads((ROOT / "testcontrol" / "http" / "openapi.json").read_text())
    for path, verbs in document["paths"].items():
        yield from (f"{verb.upper()} {path}" for verb in verbs)
    for name, schema in document["components"]["schemas"].items():
        yield from (f"http {name}.{field}" for field in schema.get("properties", ()))


def public() -> list[str]:
    sources = (commands, properties, metrics, events, columns, api, http)
    return sorted({name for source in sources for name in source()})


def listed() -> tuple[set[str], set[str]]:
    """The old and the new names of docs/changes.md."""
    rows = [line.split("|")[1:3] for line in CHANGES.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    old, new = ({name for row in rows for name in re.findall(r"`([^`]+)`", row[column])} for column in (0, 1))
    return old, new


def is_listed(name: str, listed: set[str]) -> bool:
    """Whether a name is among these. `tasks.*` stands for all names that begin with `tasks.`."""
    return name in listed or any(f"{name} ".startswith(one[:-1]) for one in listed if one.endswith("*"))


def test_each_new_or_removed_public_name_is_in_changes_md() -> None:
    now, released = {*public()}, {*RELEASED.read_text(encoding="utf-8").splitlines()}
    assert len(released) > 1_000
    old, new = listed()
    assert sorted(released - now - old) == [], "gone: these need a row in docs/changes.md, in the column `old`"
    unlisted = [name for name in sorted(now - released) if not is_listed(name, new)]
    assert unlisted == [], "new: these need a row in docs/changes.md, in the column `new`"
    whole = {name for name in new if name.endswith("*")}
    assert [name for name in sorted(released) if is_listed(name, whole)] == [], "not all of these names are new"
    assert [one for one in sorted(whole) if not any(is_listed(name, {one}) for name in now)] == [], "these are gone"


def test_each_kind_of_public_name_is_found() -> None:
    some = (
        *("muster groups list --state", "muster.nodes", "muster_groups{type}", "event member_joined"),
        *("event paused_partition_ms", "rebalances.cause", "rebalances.start_time", "decoded.kind"),
        *("format(muster).groups", "Muster(topics)", "Muster.group(group_id)", "Group.wait_stable(members)"),
        *("GroupView.members", "times", "fixture muster_topic", "--muster-record", "mark muster(nodes)"),
        *("POST /v1/faults", "http Match.api"),
    )
    assert {*some} - {*public()} == set()


if __name__ == "__main__":
    RELEASED.write_text("\n".join(public()) + "\n", encoding="utf-8")
