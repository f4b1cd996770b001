"""Computes the order in which Java iterates over hash tables and sorts strings: some assignments depend on it.

A HashMap or HashSet (OpenJDK 17) is an array of buckets, whose number is a power of two. An element's bucket is the low
bits of its hash code, after an xor with the high half. Java iterates bucket by bucket. Within a bucket the order is
that of insertion, also after the array has grown. A removal never makes the array smaller.

One case is not reproduced. In an array of 64 buckets or more, a bucket with nine elements becomes a tree with another
order. With names that nobody has chosen to collide, this happens in about one of ten million buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import compress, repeat
from operator import is_
from typing import Any, Final, Generic, TypeVar

from muster.protocol.hashing import java_string_hash

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DEFAULT_CAPACITY = 16
_LONGEST_CHAIN = 8
"""A ninth element in one bucket makes a small array grow early (by computeIfAbsent an eighth). In a large array, the
bucket becomes a tree."""
_SMALLEST_FOR_TREES = 64
_MASK = 0xFFFFFFFF
_SPREAD_ALONE = 1 << 16
"""The hash of a smaller number is its spread hash."""


def spread(hash_code: int) -> int:
    """HashMap.hash: the code with its high half xored into the low one, as unsigned 32 bits."""
    h = hash_code & _MASK
    return h ^ h >> 16


def capacity_for(wanted: int) -> int:
    """HashMap.tableSizeFor: the size of the array of `new HashMap<>(wanted)`."""
    return 1 << max(wanted - 1, 0).bit_length()


@lru_cache(1_024)
def capacity_of_copy(size: int) -> int:
    """The size of the array of `new HashSet<>(collection)` for a collection of this size."""
    return capacity_for(max(int(size / 0.75) + 1, DEFAULT_CAPACITY))


def grown_for(size: int, capacity: int = DEFAULT_CAPACITY) -> int:
    """The capacity of an array after `size` elements were put into it one by one. `capacity`: before that."""
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def grown(spreads: Sequence[int], capacity: int = DEFAULT_CAPACITY) -> int:
    """The capacity of an array after elements with these spread hashes were put into it. `capacity`: before that."""
    needed = grown_for(len(spreads), capacity)
    if needed < _SMALLEST_FOR_TREES and len(spreads) > _LONGEST_CHAIN:
        taken = len({h & capacity - 1 for h in spreads})
        # The other elements share a bucket with these: a bucket with nine of them needs eight others.
        return _grown_by_chains(spreads, capacity) if len(spreads) - taken >= _LONGEST_CHAIN else needed
    return needed


def _grown_by_chains(spreads: Sequence[int], capacity: int) -> int:
    for count in range(1, len(spreads) + 1):
        bucket = spreads[count - 1] & capacity - 1
        chained = sum(1 for other in spreads[: count - 1] if other & capacity - 1 == bucket)
        if chained >= _LONGEST_CHAIN and capacity < _SMALLEST_FOR_TREES:
            capacity *= 2
        if count * 4 > capacity * 3:
            capacity *= 2
    return capacity


def walked(spreads: Sequence[int], capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """The indices of distinct elements in the order of iteration. `spreads`: their hashes in the order of insertion."""
    mask = grown(spreads, capacity) - 1
    buckets = [h & mask for h in spreads]
    return sorted(range(len(buckets)), key=buckets.__getitem__)


FEW_LETTERS: Final = 100
"""Only the hashes of texts with more letters are cached in `_hashes`."""
KEPT_HASHES: Final = 50_000
KEPT_SPREADS: Final = 20_000
_hashes: dict[tuple[int, int], int] = {}
_spreads: dict[str, int] = {}
"""Cached spread hashes of short texts, in at most 4 MB. A target assignment needs those of all member ids, and one
takes 2 us.
"""


def string_hash(text: str) -> int:
    """Java's String.hashCode, cached for long texts: each new target assignment needs the codes of all member ids.

    The cache has Python's hash of a text as key, since the text may be large. If two texts had the same hash, only
    their order could be wrong.
    """
    if len(text) <= FEW_LETTERS:
        return java_string_hash(text)
    key = hash(text), len(text)
    known = _hashes.get(key)
    if known is None:
        if len(_hashes) >= KEPT_HASHES:
            _hashes.clear()
        known = _hashes[key] = java_string_hash(text)
    return known


def string_spread(text: str) -> int:
    """The spread hash of a string."""
    return spread(string_hash(text))


def _spreads_of(texts: list[str]) -> list[int]:
    if len(texts) > KEPT_SPREADS:
        return list(map(string_spread, texts))
    found: list[Any] = list(map(_spreads.get, texts))
    for place in compress(range(len(found)), list(map(is_, found, repeat(None)))):
        text = texts[place]
        found[place] = string_spread(text)
        if len(text) <= FEW_LETTERS:
            if len(_spreads) >= KEPT_SPREADS:
                _spreads.clear()
            _spreads[text] = found[place]
    return found


def string_order(texts: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Strings in the order of iteration over a HashSet (or a HashMap's keys) to which they were added in turn."""
    distinct = list(dict.fromkeys(texts))
    return list(map(distinct.__getitem__, walked(_spreads_of(distinct), capacity)))


def int_order(numbers: Sequence[int], capacity: int = 0) -> list[int]:
    """Distinct ints of 32 bits in the order of iteration over a HashSet to which they were added in turn.

    `capacity`: its initial size. 0 stands for that of `new HashSet<>(numbers)`.
    """
    if len(numbers) < 2:  # as often: many members have one partition
        return [*numbers]
    return [numbers[i] for i in walked(int_spreads(numbers), capacity or capacity_of_copy(len(numbers)))]


def int_spreads(numbers: Sequence[int]) -> Sequence[int]:
    """The spread hashes of ints."""
    if not numbers or (min(numbers) >= 0 and max(numbers) < _SPREAD_ALONE):
        return numbers
    return [spread(n) for n in numbers]


def uuid_hash(uuid: bytes) -> int:
    """Java's Uuid.hashCode for a UUID of 16 bytes, as unsigned 32 bits."""
    value = int.from_bytes(uuid, "big")
    value ^= value >> 64
    return (value ^ value >> 32) & _MASK


def uuid_order(uuids: Sequence[bytes], capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """The indices of distinct UUIDs in the order of iteration over a table to which they were added in turn."""
    if len(uuids) < 2:
        return [*range(len(uuids))]
    return walked([spread(uuid_hash(uuid)) for uuid in uuids], capacity)


def uuid_key(uuid: bytes) -> tuple[int, int]:
    """The sort key of a UUID that gives the order of Java's Uuid.compareTo: two signed halves."""
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)


def utf16(text: str) -> bytes:
    """The sort key for the order of Java's String.compareTo: by UTF-16 units, so U+1F600 is before U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_strings(texts: Iterable[str]) -> list[str]:
    """Sort strings in the order of Java's String.compareTo."""
    found = list(texts)
    return sorted(found) if all(map(str.isascii, found)) else sorted(found, key=utf16)


class JavaTable(Generic[K]):
    """The keys of a Java HashMap, or the elements of a HashSet, while they are inserted and removed.

    HashMap.put appends a key to its bucket, and then grows a table that is too full. HashMap.computeIfAbsent puts a key
    at the head of its bucket. It grows a table that is too full at its next call, also if that call finds its key.
    """

    __slots__ = ("_capacity", "_heads", "_spreads")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._spreads: dict[K, int] = {}
        self._heads: dict[K, None] = {}
        """The keys that were inserted at the heads of their buckets."""

    def __len__(self) -> int:
        return len(self._spreads)

    def put(self, key: K, h: int) -> None:
        """Put a new key, with its spread hash."""
        self._make_room(h, _LONGEST_CHAIN)
        self._spreads[key] = h
        if len(self._spreads) * 4 > self._capacity * 3:
            self._capacity *= 2

    def compute(self, key: K, h: int) -> None:
        """Insert a key with this spread hash by computeIfAbsent, unless the table has it."""
        if len(self._spreads) * 4 > self._capacity * 3:
            self._capacity *= 2
        if key not in self._spreads:
            self._make_room(h, _LONGEST_CHAIN - 1)
            self._spreads[key] = h
            self._heads[key] = None

    def found(self) -> None:
        """Call computeIfAbsent for a key that the table has."""
        if len(self._spreads) * 4 > self._capacity * 3:
            self._capacity *= 2

    def _make_room(self, h: int, longest: int) -> None:
        """Grow a small table if the bucket of a new key has `longest` keys already."""
        present, mask = self._spreads, self._capacity - 1
        if len(present) >= longest and self._capacity < _SMALLEST_FOR_TREES:
            bucket = h & mask
            if sum([1 for other in present.values() if other & mask == bucket]) >= longest:
                self._capacity *= 2

    def remove(self, key: K) -> None:
        """Remove a key. Raises KeyError when the table does not have it."""
        del self._spreads[key]
        self._heads.pop(key, None)

    def first(self) -> K:
        """The result of `iterator().next()`, if `put` inserted all keys. The table must not be empty."""
        mask = self._capacity - 1
        return min(self._spreads, key=lambda key: self._spreads[key] & mask)

    def in_order(self) -> list[K]:
        """The keys in the order of iteration."""
        mask, spreads, heads = self._capacity - 1, self._spreads, self._heads
        keys = list(spreads) if not heads else [*reversed(heads), *[key for key in spreads if key not in heads]]
        return sorted(keys, key=lambda key: spreads[key] & mask)


class JavaQueue(Generic[V]):
    """A Java PriorityQueue. It decides which of several smallest elements is the first."""

    __slots__ = ("_heap", "_key")

    def __init__(self, elements: Iterable[V], key: Callable[[V], float]) -> None:
        """`elements` are added in turn. While an element is in the queue, its `key` must not change."""
        self._key = key
        self._heap: list[V] = []
        for one in elements:
            self.add(one)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: V) -> None:
        """Add an element. (Java: offer.)"""
        heap, key = self._heap, self._key
        own, place = key(element), len(heap)
        heap.append(element)
        while place:
            above = place - 1 >> 1
            if own >= key(heap[above]):
                break
            heap[place] = heap[above]
            place = above
        heap[place] = element

    def poll(self) -> V:
        """Remove the first element and return it. Raises IndexError when the queue is empty."""
        heap, key = self._heap, self._key
        last = heap.pop()
        if not heap:
            return last
        first, own, place, size = heap[0], key(last), 0, len(heap)
        while (below := 2 * place + 1) < size:
            if below + 1 < size and key(heap[below]) > key(heap[below + 1]):
                below += 1
            if own <= key(heap[below]):
                break
            heap[place] = heap[below]
            place = below
        heap[place] = last
        return first
