"""Prepares the pages of docs/ for the program that makes the site: links, pictures, and what Markdown leaves open."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from tools.diagrams.draw import ON_SITE

ROOT: Final = Path(__file__).parents[2]
MOVED: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "conform/kafka-releases.md": "kafka-releases.md",
    "conform/conformance-matrix.md": "conformance-matrix.md",
}
"""Pages outside of docs/ that are pages of the site too, each with its name there."""
FILES: Final = "files"
"""The folder of the site with files of the repository that pages link to."""

_BLOCK: Final = re.compile(r"(?ms)^( *)(`{3,}|~{3,})([^\n]*)\n(.*?)^ *\2 *$")
_ON_SITE: Final = re.compile(r"<!-- on the site: (\w+) -->")
_COMMENT: Final = re.compile(r"(?m)^ *<!--.*?-->\n")
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_REFERENCE: Final = re.compile(r"\breference of (commands|properties|metrics|events|tables|limits|testing)\b")
_LIST: Final = re.compile(r"(?:[*-]|\d+\.) ")
_CODE: Final = re.compile(r"`[^`\n]+`")

Draw = Callable[[str], str]
"""Makes a picture (SVG) of a text in mermaid's language."""


class Staging:
    """Writes pages into a folder. `draw` makes the pictures."""

    def __init__(self, folder: Path, draw: Draw) -> None:
        self.folder = folder
        self._draw = draw

    def copy_pages(self) -> None:
        """Copy all pages of docs/, and those of `MOVED`."""
        for path in sorted((ROOT / "docs").rglob("*.md")):
            self.write(path.relative_to(ROOT / "docs").as_posix(), self.page(path))
        for name, place in MOVED.items():
            self.write(place, self.page(ROOT / name))

    def write(self, place: str, text: str) -> None:
        """Write a page of the site."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def page(self, path: Path) -> str:
        """The text of a page for the site."""
        blocks: list[str] = []

        def put_aside(found: re.Match[str]) -> str:
            blocks.append(self._block(found))
            return f"\0{len(blocks) - 1}\0"

        parts = ON_SITE.get(path.relative_to(ROOT).as_posix().removeprefix("docs/"), {})
        text = _ON_SITE.sub(lambda found: parts[found[1]](), path.read_text(encoding="utf-8"))
        text = _COMMENT.sub("", _BLOCK.sub(put_aside, text))
        text = _LINK.sub(lambda found: self._link(path, found), text)
        text = _REFERENCE.sub(lambda found: self._reference(path, found), text)
        text = "\n".join(_row(line) for line in _with_room_for_lists(text.split("\n")))
        return re.sub("\0(\\d+)\0", lambda found: blocks[int(found[1])], text)

    def _block(self, found: re.Match[str]) -> str:
        if found[3].strip() != "mermaid":
            return found[0]
        picture = re.sub(r"\n\s*", " ", self._draw(found[4]))
        return f'<div class="picture">{picture}</div>'

    def _link(self, page: Path, found: re.Match[str]) -> str:
        text, (target, mark, anchor) = found[1], found[2].partition("#")
        if not target or ":" in target:
            return found[0]
        path = (page.parent / target).resolve()
        place = self._place(path)
        if place is None:
            return text
        return f"[{text}]({_relative(self._place(page) or '', place)}{mark}{anchor})"

    def _reference(self, page: Path, found: re.Match[str]) -> str:
        place = "reference/commands/index.md" if found[1] == "commands" else f"reference/{found[1]}.md"
        return f"[{found[0]}]({_relative(self._place(page) or '', place)})"

    def _place(self, path: Path) -> str | None:
        """Where a file is on the site; None for a folder. A file that is no page is copied."""
        name = path.relative_to(ROOT).as_posix()
        if name in MOVED:
            return MOVED[name]
        if name.startswith("docs/") and path.suffix == ".md":
            return name.removeprefix("docs/")
        if not path.is_file():
            return None
        # a browser shows text files; a page of Markdown would have links of its own
        place = f"{FILES}/{name}.txt"
        (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self.folder / place)
        return place


def _relative(page: str, place: str) -> str:
    return PurePosixPath(os.path.relpath(place, PurePosixPath(page).parent)).as_posix()


def _with_room_for_lists(lines: list[str]) -> list[str]:
    """The lines with an empty one before each list: GitHub needs none, Python's Markdown does."""
    found: list[str] = []
    is_list = False
    for line in lines:
        begins = bool(_LIST.match(line))
        if begins and not is_list and found and found[-1].strip():
            found.append("")
        is_list = begins or (is_list and bool(line.strip()) and line.startswith(" ")) or (is_list and not line.strip())
        found.append(line)
    return found


def _row(line: str) -> str:
    """A row of a table with plain `|` in code: GitHub wants it escaped, Python's Markdown does not."""
    return _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
