"""Writes the list of software that Muster depends on (a CycloneDX SBOM): `make sbom` makes dist/muster.cdx.json.

cyclonedx-py makes the list from the lock file, with the hash of each file that may be installed. This module adds
Muster's own version, and the fact that Muster depends on all components.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from muster.version import VERSION

ROOT = Path(__file__).parent.parent


def completed(listed: dict[str, Any], version: str) -> dict[str, Any]:
    """The list with the version and the dependencies of its root component."""
    root = {**listed["metadata"]["component"], "version": version}
    needed = sorted(component["bom-ref"] for component in listed["components"])
    others = [row for row in listed.get("dependencies", []) if row["ref"] != root["bom-ref"]]
    return {
        **listed,
        "metadata": {**listed["metadata"], "component": root},
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": needed}, *others],
    }


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("--cyclonedx", type=Path, required=True, help="the program cyclonedx-py")
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements" / "explain.txt")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "muster.cdx.json")
    options = parser.parse_args()
    command = [options.cyclonedx, "requirements", options.lock, "--pyproject", ROOT / "pyproject.toml",
               "--output-reproducible", "--of", "JSON", "-o", "-"]  # fmt: skip
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    whole = completed(json.loads(made), VERSION)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    print(f"{options.out}: {len(whole['components'])} packages")


if __name__ == "__main__":
    main()
