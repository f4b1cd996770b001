"""The SBOM contains what the tool that lists packages cannot know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from muster.version import VERSION
from tools.sbom import ROOT, completed

LISTED = {
    "bomFormat": "CycloneDX",
    "metadata": {"component": {"bom-ref": "root-component", "name": "muster-kafka", "type": "application"}},
    "components": [{"bom-ref": "requirements-L2", "name": "b"}, {"bom-ref": "requirements-L1", "name": "a"}],
    "dependencies": [{"ref": "root-component"}, {"ref": "requirements-L1"}],
}


def test_the_sbom_has_the_version_and_the_requirements() -> None:
    whole = completed(LISTED, "1.2.3")
    assert whole["metadata"]["component"]["version"] == "1.2.3"
    assert whole["dependencies"] == [
        {"ref": "root-component", "dependsOn": ["requirements-L1", "requirements-L2"]},
        {"ref": "requirements-L1"},
    ]
    assert whole["components"] == LISTED["components"]


def test_the_sbom_is_written_to_a_file(tmp_path: Path) -> None:
    program = tmp_path / "cyclonedx-py"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(LISTED)!r})\n")
    program.chmod(0o755)
    out = tmp_path / "new" / "out.json"
    subprocess.run(
        [sys.executable, "-m", "tools.sbom", "--cyclonedx", program, "--out", out],
        check=True, cwd=ROOT, capture_output=True,
    )  # fmt: skip
    assert json.loads(out.read_text())["metadata"]["component"]["version"] == VERSION
