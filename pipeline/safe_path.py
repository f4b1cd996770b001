"""Where an analysis finds modules: no module is imported from the current folder.

In this process and in Spark's workers, a file `random.py` there would replace Python's own module.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

PYTHON_PATH: Final = "PYTHONPATH"
_ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder that has Muster's packages."""
_OF_WORKERS: Final = "spark.executorEnv."


def leave_current_folder() -> None:
    """Stop the search for modules in the current folder.

    An empty entry of PYTHONPATH means that folder, and `python -m` adds the folder. This function must be called before
    the modules of Spark are imported. It changes PYTHONPATH too, because Spark's Java passes it on to the workers.
    """
    here = Path.cwd()
    sys.path[:] = [one for one in sys.path if not _is(one, here)]
    given = os.environ.get(PYTHON_PATH)
    if given is not None:
        os.environ[PYTHON_PATH] = os.pathsep.join(one for one in given.split(os.pathsep) if not _is(one, here))
    # the current folder has Muster's own source, and a user who runs Muster there needs it
    if here.resolve() in (_ROOT, _ROOT / "muster"):
        sys.path.append(str(_ROOT))


def worker_settings() -> dict[str, str]:
    """The settings of a session whose Python workers do not search for modules in the folder in which they start."""
    found = {f"{_OF_WORKERS}PYTHONSAFEPATH": "1"}
    if str(_ROOT) in sys.path:  # nothing else shows the workers where Muster is
        found[f"{_OF_WORKERS}{PYTHON_PATH}"] = str(_ROOT)
    return found


def _is(entry: str, folder: Path) -> bool:
    try:
        return not entry or Path(entry).samefile(folder)
    except OSError:  # an entry may name a folder that does not exist
        return False
