"""Plays all stories on releases of Apache Kafka, and writes what was answered into the story files.

    python -m tools.stories.record [--release 4.2 ...] [--keep FOLDER] [--only STORY ...] [--merge]

FOLDER keeps the texts as they went: FOLDER/4.2/NAME.txt. `--merge` plays nothing, and only reads FOLDER. A text counts
when the story went that way twice. The newest release is compared and not written: that is what `run_stories --record`
is for. Read the changes of the story files; `python -m tools.stories.page` then asks for the missing explanations.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from muster.conform import catalogue, target
from muster.conform.cleaning import Cleaning
from muster.conform.plan import START, Planned, plan
from muster.conform.player.brokers import AnyConnection
from muster.conform.player.releases import RELEASES, Release, merged, name_of, release_of, text_of
from muster.conform.player.story import Story
from muster.conform.running import QUIET_S, Run, new_suffix
from muster.conform.settings import SETS
from tools.brokers import PATCHES, kafka

HERE = Path(__file__).parent
SERVED = HERE / "releases.json"
NOT_HERE = "# not in this release: "
"""The text of a story with a request that the release does not serve."""
TIMES = 4
"""How often a story is played until it went twice the same way."""
PATIENCE_S = 6.0


class Recording(Run):
    """Plays stories until each went twice the same way."""

    texts: dict[str, str]

    async def _play_all(self, runner: AnyConnection, ones: Sequence[Planned]) -> None:
        limit = asyncio.Semaphore(self.at_once)

        async def record(one: Planned) -> None:
            async with limit:
                self.texts[one.story.name] = await self._recorded(runner, one)

        await asyncio.gather(*map(record, ones))

    async def _recorded(self, runner: AnyConnection, one: Planned) -> str:
        last = one.story
        for _ in range(TIMES):
            suffix = new_suffix()
            if one.group_configs:
                await self._configure(runner, dict.fromkeys(self._groups(one, suffix), one.group_configs))
            now = Planned(last, one.prefix, one.group_configs, one.broker_configs)
            attempt = await self._attempt(now, suffix, PATIENCE_S, QUIET_S)
            if attempt.not_served is not None:
                return f"{NOT_HERE}{attempt.not_served.api} {attempt.not_served.version}\n"
            if attempt.text == last.text:
                return attempt.text
            last = Story(one.story.path, attempt.text)
        return f"{NOT_HERE}it goes differently each time\n"


async def play(address: str, release: Release, wanted: Sequence[Story], texts: dict[str, str]) -> None:
    """Play on a running broker what its settings allow, and what has no text yet."""
    host, _, port = address.rpartition(":")
    found = await target.find((host, int(port)), address, None)
    open_ones = [story for story in wanted if story.name not in texts]
    run = new_suffix().strip("~")
    chosen = plan(open_ones, found.known, run, release, may_alter=True)
    recording = Recording(found, chosen, Cleaning(found, START + run), lambda _: None, to_the_end=True)
    recording.texts = texts
    await recording.play()


def record(release: Release, wanted: Sequence[Story], folder: Path) -> dict[str, object]:
    """Play the stories on a release, with each set of settings. The value is what the release serves."""
    texts: dict[str, str] = {}
    for name, settings in SETS.items():
        print(f"{name_of(release)} with the settings {name}", flush=True)
        with tempfile.TemporaryDirectory() as place, kafka(PATCHES[name_of(release)], Path(place), settings) as address:
            asyncio.run(play(address, release, wanted, texts))
            served = asyncio.run(target.find(("127.0.0.1", int(address.rpartition(":")[2])), address, None))
        if all(story.name in texts for story in wanted):
            break
    for story in wanted:
        texts.setdefault(story.name, f"{NOT_HERE}its settings\n")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return {
        "patch": PATCHES[name_of(release)],
        "apis": {str(key): list(its) for key, its in sorted(served.keys.items())},
    }


# ---- into the story files


def fitted(text: str, newest: str) -> str:
    """A text as it went, with the present steps of its story: a wait may have been made longer meanwhile."""
    old, new = [list(_steps(one)) for one in (text, newest)]
    matcher = difflib.SequenceMatcher(a=[line for line, _ in old], b=[line for line, _ in new], autojunk=False)
    out: list[str] = []
    for kind, i, j, k, m in matcher.get_opcodes():
        for place, (line, outcome) in enumerate(new[k:m]):
            mine = old[i + place][1] if i + place < j else outcome
            out += [line, *mine]
        if kind == "delete" and j == len(old):
            break
    return "\n".join(out) + "\n"


def _steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each line that is no outcome, with its outcome."""
    line, outcome = "", []
    for number, one in enumerate(text.splitlines()):
        if one.startswith("    "):
            outcome.append(one)
            continue
        if number:
            yield line, outcome
        line, outcome = one, []
    yield line, outcome


def written(story: Story, folder: Path) -> str:
    """The story file with the texts of all releases that FOLDER has."""
    texts = {RELEASES[0]: story.text}
    since = story.since
    for release in RELEASES[1:]:
        path = folder / name_of(release) / f"{story.name}.txt"
        if not path.exists():
            if story.since is not None and story.since > release:
                break
            texts[release] = text_of(story.source, release)
            continue
        text = path.read_text(encoding="utf-8")
        if text.startswith(NOT_HERE):
            since = RELEASES[RELEASES.index(release) - 1]
            break
        texts[release] = fitted(text, story.text)
    lines = merged(texts).splitlines(keepends=True)
    if since is not None and story.since is None:
        place = next(number for number, line in enumerate(lines) if not line.startswith("#"))
        lines.insert(place, f"since {name_of(since)}\n")
    return "".join(lines)


def main() -> int:
    """Record, and write the story files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", nargs="+", type=release_of, default=RELEASES[1:])
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", metavar="STORY", default=())
    parser.add_argument("--merge", action="store_true")
    args = parser.parse_args()
    wanted = [story for story in catalogue.stories() if not args.only or story.name in args.only]
    with contextlib.ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = json.loads(SERVED.read_text(encoding="utf-8"))
        for release in () if args.merge else args.release:
            served[name_of(release)] = record(release, wanted, folder / name_of(release))
            rows = (f" {json.dumps(name)}: {json.dumps(its)}" for name, its in sorted(served.items()))
            SERVED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        for story in wanted:
            Path(story.path).write_text(written(story, folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
