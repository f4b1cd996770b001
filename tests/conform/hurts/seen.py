"""What was seen when clients were run, in the words of conform/hurts.toml; and that file, made of it.

    python -m tests.conform.hurts.seen FILE...      add the lines of `run` to seen.json, and write conform/hurts.toml

Later files win.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.conform.hurts.faults import FAULTS

SEEN = Path(__file__).with_name("seen.json")
TABLE = Path(__file__).parents[3] / "conform" / "hurts.toml"
RIGHT = "resumed 3"
"""The last line of a trial in which nothing goes wrong: the second consumer begins behind the commit."""
STORM = 200
"""So many changed answers to one client in one trial are a storm of requests."""
LATE = r"\bLate\b|Timeout(Error|Exception)|TIMED_OUT|timed out|deadline"
DOES = {
    "produce": "producing",
    "join": "starting a consumer",
    "consume": "consuming",
    "beat": "consuming",
    "commit": "the commit",
    "close": "closing the consumer",
    "resume": "consuming behind the commit",
}
HEAD = """\
# Which clients a wrong answer of a broker hurts, and how. Each row was seen: the fault was put into the answers of a
# broker, and each client produced, consumed in a group, committed, left, and began again (tests/conform/hurts).
# Made by `python -m tests.conform.hurts.seen`. `unhurt` are the clients that did everything as with Kafka.
"""


NOISE = (
    (r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}", "…"),
    (r"\[?\(?'?127\.0\.0\.1'?[:,] ?\d+(, <AddressFamily[^>]*>\)\])?", "the broker"),
    (r"\b[tg]-[\w-]+(-\d)?", "NAME"),
    (r"\(?\d+(\.\d+)? ?m?s(ecs)?\b\.?", "a time"),
    (r"KafkaException KafkaError\{code=([^,]+),[^}]*\}?", r"\1"),
    (r"\b(\w+) \1: ", r"\1: "),
    (r"\b(\w+) (\[Error -?\d+\]) \1(: None)?", r"\1 \2"),
    (r"(Error) (KafkaTimeoutError): ", r"\1: "),
    (r" null$", ""),
)
"""What differs from run to run, or says nothing."""
LONGEST = 110


def last(lines: list[str]) -> str:
    """The line that says how a trial ended, in short."""
    errors = [line for line in lines if line.startswith("error")]
    text = (errors[0] if errors else lines[-1] if lines else "error end nothing").partition(" | ")[0]
    for pattern, word in NOISE:
        text = re.sub(pattern, word, text)
    text = text.strip().removesuffix("|").strip().rstrip(":.")
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"


def how(ended: str, answers: int) -> str:
    """What happens to a client, in words. Empty: nothing."""
    storm = f"it asks without a pause ({answers} answers in a few seconds)" if answers else ""
    if ended == RIGHT:
        return storm
    if ended.startswith("resumed"):
        return "records are delivered again, because the commit is lost"
    if not ended.startswith("error"):
        return f"it ends without an error after '{ended.partition(' ')[0]}'"
    _, stage, text = (*ended.split(" ", 2), "")[:3]
    if stage == "crash":
        return f"the whole process dies ({text})"
    if stage == "end":
        return "it hangs, and cannot be closed"
    storm = f", and {storm}" if storm else ""
    late = re.search(LATE, text)
    if late and "Late" not in text and stage in ("produce", "commit"):
        return f"{DOES[stage]} times out: {text}{storm}"
    if late:
        return f"{DOES[stage]} never gets on, without an error{storm}"
    return f"{DOES[stage]} fails: {text}{storm}"


def merged(known: dict[str, Any], files: list[Path]) -> dict[str, Any]:
    """What is known, with the lines of these files."""
    out = {change: dict(clients) for change, clients in known.items()}
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if not row["changed"] and row["change"] != "as-it-is":
                # the client has not asked for what was changed
                continue
            ended = last(row["lines"])
            answers = row["changed"] if row["changed"] > STORM else 0
            out.setdefault(row["change"], {})[row["client"]] = {"ended": ended, "answers": answers}
    return out


def table(seen: dict[str, Any]) -> str:
    """conform/hurts.toml."""
    parts = [HEAD]
    for name, fault in FAULTS.items():
        rows = {client: how(row["ended"], row["answers"]) for client, row in sorted(seen[name].items())}
        parts.append("[[fault]]")
        parts += [f"{key} = {json.dumps(value)}" for key, value in {"id": name, **fault._asdict()}.items()]
        unhurt = [client for client, text in rows.items() if not text]
        parts.append(f"unhurt = {json.dumps(unhurt)}")
        hurts = {client: text for client, text in rows.items() if text}
        if hurts:
            parts.append("[fault.hurts]")
            parts += [f"{json.dumps(c)} = {json.dumps(text, ensure_ascii=False)}" for c, text in hurts.items()]
        parts.append("")
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    seen = merged(json.loads(SEEN.read_text()) if SEEN.exists() else {}, [Path(one) for one in arguments])
    SEEN.write_text(json.dumps(seen, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    TABLE.write_text(table(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
