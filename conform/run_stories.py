"""Plays story files on a server, for those who write stories: Apache Kafka, or any other that speaks its protocol.

    python -m muster.conform.run_stories HOST:PORT [files or folders]     default: the stories of all levels

`--record` writes the outcome lines as they came into the files. Read them then: the server may be wrong.

A story whose `broker` line does not fit the server's settings (as DescribeConfigs reports them) is skipped and counted.
Each run uses fresh group ids, so one server serves any number of runs. Exit status 1 when a story differs.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import pathlib
import sys
import time
from collections.abc import Mapping

from muster.conform import catalogue
from muster.conform.player import tcp
from muster.conform.player.brokers import connect
from muster.conform.player.readiness import Ready, prepare
from muster.conform.player.releases import rewritten
from muster.conform.player.story import Story
from muster.conform.settings import wanted
from muster.conform.target import find


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="?")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--record", action="store_true")
    parser.add_argument(
        "--scale", type=float, default=1, help="stretch all timeouts, waits and ranges; the server's too"
    )
    parser.add_argument("--any-broker", action="store_true", help="whatever the settings of the server are")
    parser.add_argument("--brokers", action="store_true", help="print the `broker` lines of the files, and stop")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_intermixed_args()


def stories_in(names: list[str]) -> list[Story]:
    """The stories of these files and folders."""
    paths: list[pathlib.Path] = []
    for name in names:
        path = pathlib.Path(name)
        paths += sorted(path.glob("*.txt")) if path.is_dir() else [path]
    return [catalogue.read(path) for path in paths] if names else catalogue.stories()


def unfit(story: Story, settings: Mapping[str, str | None] | None, scale: float) -> dict[str, str | None]:
    """The settings of the server that are not the story's."""
    if settings is None:
        return {}
    needed = {key: scaled(key, value, scale) for key, value in wanted(story).items()}
    return {key: settings.get(key) for key, value in needed.items() if settings.get(key) != value}


def scaled(key: str, value: str, scale: float) -> str:
    """A setting of the server, stretched as the times of the stories are."""
    return str(int(int(value) * scale)) if key.endswith(".ms") and scale != 1 else value


def record(story: Story, text: str) -> None:
    """Write the text of a story as it went into its file."""
    pathlib.Path(story.path).write_text(rewritten(story.source, text), encoding="utf-8")


async def run(args: argparse.Namespace, stories: list[Story]) -> int:
    """Play the stories: the exit status."""
    host, _, port = args.server.rpartition(":")
    runner = await connect(host, int(port))
    settings = (await find((host, int(port)), args.server, None)).known.values
    known: Ready = {}
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for story in stories:
        other = {} if args.any_broker else unfit(story, settings, args.scale)
        if other:
            counts["skipped"] += 1
            if args.verbose:
                print(f"skip {story.name}: the server has {other}")
            continue
        topic_ids = await prepare(runner, known, story)
        begin = time.monotonic()
        text = await tcp.play(tcp.Driver(host, int(port), args.scale, args.record), story, topic_ids)
        took_s = time.monotonic() - begin
        if args.record:
            record(story, text)
            print(f"recorded {story.name} ({took_s:.1f} s)")
        elif text == story.text:
            counts["passed"] += 1
            if args.verbose:
                print(f"ok   {story.name} ({took_s:.1f} s): {story.title}")
        else:
            counts["failed"] += 1
            print(f"FAIL {story.name} ({took_s:.1f} s): {story.title}")
            diff = difflib.unified_diff(
                story.text.splitlines(), text.splitlines(), "expected", "actual", lineterm="", n=4
            )
            print("\n".join("    " + line for line in diff))
    if not args.record:
        print("{passed} passed, {failed} failed, {skipped} skipped (other broker settings)".format(**counts))
    await runner.close()
    return 1 if counts["failed"] else 0


def main() -> int:
    """Run the command."""
    args = arguments()
    names = ([args.server] if args.brokers and args.server else []) + args.files
    stories = stories_in(names)
    if args.brokers:
        print("\n".join(sorted({" ".join(f"{k}={v}" for k, v in sorted(one.broker.items())) for one in stories})))
        return 0
    return asyncio.run(run(args, stories))


if __name__ == "__main__":
    sys.exit(main())
