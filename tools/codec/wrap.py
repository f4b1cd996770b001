"""Breaks generated lines that are too long at their brackets, as a formatter would."""

from __future__ import annotations

LINE = 120
PAIRS = {"(": ")", "[": "]", "{": "}"}


def wrapped(text: str) -> str:
    """Break each line that is longer than `LINE` at the outermost bracket that closes at its end."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += broken(line)
    return "\n".join(lines)


def broken(line: str) -> list[str]:
    """The line itself or, if it is too long, one line for each item of its bracket."""
    if len(line) <= LINE:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    if line.lstrip().startswith("if "):
        first, *rest = split(line.strip()[len("if ") : -1], " or ")
        return [f"{indent}if (", f"{indent}    {first}", *(f"{indent}    or {x}" for x in rest), f"{indent}):"]
    if line.startswith("def "):
        name, _, rest_of_line = line.partition("(")
        parameters, _, returns = rest_of_line.partition(")")
        parameters += "" if "," in parameters else ","  # as the formatter does
        return [f"{name}(", f"    {parameters}", f"){returns}"]
    end = "," if line.endswith(",") else ""
    line = line.removesuffix(",")
    start = opening(line)
    if start is None:
        return [line + end]
    items = split(line[start + 1 : -1])
    comma = "" if len(items) == 1 else ","  # a single item is a call's argument, or is itself in brackets
    inner = [x for item in items for x in broken(f"{indent}    {item}{comma}")]
    return [line[: start + 1], *inner, indent + line[-1] + end]


def opening(line: str) -> int | None:
    """The position of the bracket that closes at the end of the line; None when the line ends otherwise."""
    stack: list[int] = []
    quoted = False
    for i, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in PAIRS:
            stack.append(i)
        elif char in PAIRS.values():
            start = stack.pop()
            if i == len(line) - 1:
                return start
    return None


def split(text: str, at: str = ",") -> list[str]:
    """Split a text at each `at` that is not within brackets or strings."""
    items, depth, start, quoted = [], 0, 0, False
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in PAIRS:
            depth += 1
        elif char in PAIRS.values():
            depth -= 1
        elif depth == 0 and text.startswith(at, i):
            items.append(text[start:i].strip())
            start = i + len(at)
    items.append(text[start:].strip())
    return [item for item in items if item]
