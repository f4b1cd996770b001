"""Makes the site of the docs: `make docs-site` makes dist/site.

    python -m tools.site --programs FOLDER [--out DIR] [--stage DIR]

FOLDER has the programs mkdocs and mmdr. The site needs no network: neither fonts nor scripts are loaded from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tools.site.references import commands, events, limits, metrics, properties, tables, testing, wrong_answers
from tools.site.staging import ROOT, Draw, Staging

HERE: Final = Path(__file__).parent
COMMANDS: Final = "COMMANDS"
"""The line of the configuration's `nav` that stands for the pages of commands."""
LOADED: Final = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="?((?:https?:)?//[^"\s>]+)|url\(["']?((?:https?:)?//[^)]+)\)"""
)
"""A script, style, picture or font that is loaded from another host."""
_FONT: Final = '"Recursive Variable",arial,sans-serif'
_OWN_FONT: Final = "arial,helvetica,sans-serif"


def draw(program: Path, text: str) -> str:
    """A picture (SVG) of a text in mermaid's language, in fonts that each browser has."""
    command = [str(program), "-i", "-", "-o", "-"]
    made: str = subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, text=True).stdout
    return made.replace(_FONT, _OWN_FONT).replace("font-size:14px", "font-size:12px")


def references() -> Iterator[tuple[str, str]]:
    """The pages that are made from the code: place and text."""
    for name, text in commands.pages().items():
        yield f"reference/commands/{name}.md", text
    for module in (properties, metrics, events, tables, testing, limits, wrong_answers):
        yield f"reference/{module.__name__.rpartition('.')[2]}.md", module.page()


def stage(folder: Path, drawing: Draw) -> Path:
    """Write the pages and the configuration into a folder: the path of the configuration."""
    pages = Staging(folder / "pages", drawing)
    pages.copy_pages()
    listed = []
    for place, text in references():
        pages.write(place, text)
        if place.startswith("reference/commands/") and not place.endswith("index.md"):
            listed.append(f"        - {Path(place).stem}: {place}")
    for name in ("site.css", "iframe-worker.js"):
        shutil.copyfile(HERE / name, folder / "pages" / name)
    text = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    configuration = folder / "mkdocs.yml"
    configuration.write_text(text.replace(f"        - {COMMANDS}", "\n".join(listed)), encoding="utf-8")
    return configuration


def from_elsewhere(site: Path) -> Iterator[str]:
    """What pages and styles of a site load from the network: `PAGE: URL`."""
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            for found in LOADED.finditer(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)}: {found[1] or found[2]}"


def main() -> int:
    """Make the site."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Make the site of the docs.")
    parser.add_argument("--programs", type=Path, required=True, help="the folder with mkdocs and mmdr")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "site", help="the site (dist/site)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        configuration = stage(Path(folder), partial(draw, options.programs / "mmdr"))
        command = [options.programs / "mkdocs", "build", "--quiet", "--strict", "--clean", "-f", configuration]
        # without this, the theme advertises its successor
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        made = subprocess.run([*command, "-d", options.out.resolve()], check=False, env=quiet).returncode
    if made != 0:
        return made
    if found := [*from_elsewhere(options.out)]:
        print("the site would load these from the network:", *found, sep="\n", file=sys.stderr)
        return 1
    print(f"{options.out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
