"""A Spark without what an analysis never uses, for a session on this machine that lives for some seconds of work.

When a session begins Spark loads what all its jars offer to be loaded: of its library for machine learning that is all
of Scala's reflection. And its workers read PySpark out of an archive, though it is installed. So the home of such a
session is a folder of links to the other jars: 3 s of CPU of a small analysis.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

_HOME: Final = "SPARK_HOME"
_LINKED: Final = ("bin", "conf")
_LEFT_OUT: Final = ("spark-mllib_", "spark-hive_", "spark-hive-thriftserver_")
"""Beginnings of the names of jars."""


@contextmanager
def slim_home() -> Iterator[None]:
    """A session that is made in this block has it. Who names a Spark, or gives it settings in a file, is given that."""
    installed = Path(pyspark.__file__).parent
    folder = Path(os.environ.get("SPARK_CONF_DIR") or installed / "conf")
    if _HOME in os.environ or (folder / "spark-defaults.conf").exists():
        yield
        return
    home = tempfile.TemporaryDirectory(prefix="muster-spark-")
    # Java opens a jar when it first looks into it
    atexit.register(home.cleanup)
    try:
        _link(installed, Path(home.name))
    except OSError:  # no links here
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
