"""Differences without overflow: a commit may have any offset, and Spark fails on overflows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

LARGEST: Final = (1 << 63) - 1


def minus(left: Column, right: Column) -> Column:
    """left - right, and where that is more than a long holds the largest or the least long; null for nulls."""
    beyond = F.when(left > right, F.lit(LARGEST)).when(left < right, F.lit(-LARGEST - 1))
    return F.coalesce(F.try_subtract(left, right), beyond)
