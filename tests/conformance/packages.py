"""Sources of client libraries from npm and crates.io, each with its hash.

What takes long to build is built once, and is kept in ~/.cache/muster/suites.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

KEPT = Path.home() / ".cache" / "muster" / "suites"


def kept(name: str, fill: Callable[[Path], None]) -> Path:
    """A folder that is kept for later runs. `fill` fills this folder if it does not exist yet."""
    folder, unfinished = KEPT / name, KEPT / f"{name}.unfinished"
    if not folder.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        fill(unfinished)
        unfinished.rename(folder)
    return folder


def npm_package(package: str, sha512: str, folder: Path) -> Path:
    """Unpack a package of npm, such as "name@1.2.3". Its hash is in base64, as `npm view` shows it."""
    packed = run(["npm", "pack", "--silent", "--pack-destination", str(folder), package], folder)
    archive = folder / packed.split()[-1]
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == sha512, package
    return unpacked(archive, folder) / "package"


def crate(name: str, version: str, sha256: str, folder: Path) -> Path:
    """Unpack a crate."""
    run(["cargo", "info", "--quiet", f"{name}@{version}"], folder)
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    archive = next((home / "registry" / "cache").glob(f"*/{name}-{version}.crate"))
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == sha256, name
    return unpacked(archive, folder) / f"{name}-{version}"


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder, which is returned."""
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    return folder


def run(command: list[str], folder: Path) -> str:
    """Run a command that must succeed, and return its stdout."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}"
    return done.stdout
