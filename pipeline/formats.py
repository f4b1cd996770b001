"""The names of the formats that an analysis reads and writes. Needs nothing of Spark's."""

from __future__ import annotations

from typing import Final

HTML: Final = "html"
PARQUET: Final = "parquet"
CSV: Final = "csv"
JSON: Final = "json"
DELTA: Final = "delta"
FORMATS: Final = (HTML, PARQUET, CSV, JSON)
"""What an analysis leaves behind; as Delta tables come in, and followers leave them."""
