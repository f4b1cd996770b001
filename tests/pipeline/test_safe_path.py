"""`muster analyze` imports no module from the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.pipeline import safe_path

SAYS_WHERE = "import sys, muster.cli as cli; sys.argv[1:] = ['version']; cli.main(); import random, numpy"


@pytest.mark.parametrize("path", [None, "", ":", ".", "HERE", f"{os.sep}nowhere::"])
def test_a_command_imports_nothing_of_the_current_folder(tmp_path: Path, path: str | None) -> None:
    for name in ("random", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a script of the user')\n")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = {} if path is None else {"PYTHONPATH": path.replace("HERE", str(tmp_path))}
    # without -P, as `python -m muster.cli`
    done = subprocess.run(
        [sys.executable, "-c", SAYS_WHERE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**kept, **given},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_path_passed_to_workers_has_no_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/elsewhere"])
    monkeypatch.setenv("PYTHONPATH", f":/elsewhere:.:{tmp_path}")
    safe_path.leave_current_folder()
    assert (sys.path, os.environ["PYTHONPATH"]) == (["/elsewhere"], "/elsewhere")
    assert safe_path.worker_settings() == {"spark.executorEnv.PYTHONSAFEPATH": "1"}


def test_musters_packages_are_found_in_its_own_source(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(safe_path.__file__).resolve().parents[1]
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    safe_path.leave_current_folder()
    assert sys.path == [str(root)]
    assert safe_path.worker_settings()["spark.executorEnv.PYTHONPATH"] == str(root)
