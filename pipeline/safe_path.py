"""Where an analysis finds modules: nothing is imported from the current folder.

A file `random.py` there would be imported in place of Python's own module, in this process and in Spark's workers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

PYTHON_PATH: Final = "PYTHONPATH"
_ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder with Muster's packages."""
_OF_WORKERS: Final = "spark.executorEnv."


def leave_current_folder() -> None:
    """Do not search for modules in the current folder any more.

    An empty entry of PYTHONPATH means that folder, and `python -m` adds it. To be called before the modules of Spark
    are imported. PYTHONPATH is changed too, because Spark's Java passes it on.
    """
    here = Path.cwd()
    sys.path[:] = [one for one in sys.path if not _is(one, here)]
    given = os.environ.get(PYTHON_PATH)
    if given is not None:
        os.environ[PYTHON_PATH] = os.pathsep.join(one for one in given.split(os.pathsep) if not _is(one, here))
    if here.resolve() in (_ROOT, _ROOT / "muster"):  # Muster's own source: a user who runs it there needs it
        sys.path.append(str(_ROOT))


def worker_settings() -> dict[str, str]:
    """The settings of a session whose Python workers do not search the folder in which they start."""
    found = {f"{_OF_WORKERS}PYTHONSAFEPATH": "1"}
    if str(_ROOT) in sys.path:  # nothing else says where Muster is
        found[f"{_OF_WORKERS}{PYTHON_PATH}"] = str(_ROOT)
    return found


def _is(entry: str, folder: Path) -> bool:
    try:
        return not entry or Path(entry).samefile(folder)
    except OSError:  # the entry does not exist, which is allowed
        return False
