"""The files in deploy/ as their own tools read them: Compose's loader, and Kubernetes' schemas."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.client_suites import go_copy
from tests.conformance.packages import kept, run

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = "github.com/compose-spec/compose-go/v2@v2.16.2"
VALIDATE = "kubernetes-validate==1.37.0"
KUBERNETES = ("1.28", "1.37")
"""The versions whose schemas the manifests are checked against."""


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_compose_loads_the_file(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        source = go_copy(COMPOSE, tmp_path / "compose-go")
        run(["go", "build", "-o", str(folder / "load"), "./cmd"], source)

    program = kept("compose-go-2.16.2", fill) / "load"
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "deploy" / "muster-token").write_text("secret", encoding="utf-8")
    done = subprocess.run(
        [program, "-format", "json", "compose.yaml"],
        cwd=tmp_path / "deploy",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == {"muster", "prometheus", "grafana"}


@pytest.mark.parametrize("file", ["single.yaml", "nodes.yaml"])
def test_kubernetes_accepts_the_manifests(file: str) -> None:
    def fill(folder: Path) -> None:
        run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), VALIDATE], folder)

    packages = kept("kubernetes-validate-1.37.0", fill)
    for version in KUBERNETES:
        manifest = DEPLOY / "kubernetes" / file
        command = [sys.executable, "-m", "kubernetes_validate", "--kubernetes-version", version, "--strict", manifest]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        assert "against version" in done.stdout
