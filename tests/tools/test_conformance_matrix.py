"""conform/conformance-matrix.md is what the results say."""

from __future__ import annotations

import json

from tools.matrix import page
from tools.matrix.run import summed

DIFF = "--- Kafka\n+++ here\n@@ -1 +1 @@\n A: join\n-    A <- join ok generation=1\n+    A <- join ok generation=0\n"
REPORT = {
    "began": "2026-11-29T11:00:00+00:00",
    "release": "4.2",
    "seconds": 12.4,
    "outcomes": [
        {"id": "a", "level": "core", "state": "passed"},
        {"id": "b", "level": "core", "state": "flaky"},
        {"id": "c", "level": "core", "state": "failed", "diff": DIFF},
        {"id": "e", "level": "core", "state": "failed", "diff": DIFF},
        {"id": "d", "level": "txn", "state": "skipped", "why": "the broker does not offer EndTxn"},
    ],
}


def test_the_page_is_up_to_date() -> None:
    results, tests = (json.loads(path.read_text(encoding="utf-8")) for path in (page.RESULTS, page.SYSTEM_TESTS))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(results, tests), "run python -m tools.matrix.page"


def test_a_report_becomes_a_row() -> None:
    tests = {"commit": "0123456789ab", "version": "4.0", "tests": [], "muster": dict.fromkeys(page.NEEDS, "yes")}
    text = page.page({"fake": summed([REPORT], "1.2")}, tests)
    assert "| broker | version | compared with | core | txn |" in text
    assert "| fake | 1.2 | 4.2 | 2/4 | – |" in text
    assert (
        "* **fake** (2026-11-29, 12 s): 2 differ: `c`, `e`. Of these 2 begin with `generation=1 was generation=0`."
        in text
    )
