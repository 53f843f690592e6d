"""Which texts were seen before, in memory that does not grow: a Bloom filter."""

from __future__ import annotations

from hashlib import blake2b

_BITS = 1 << 29
_PROBES = 7


class Seen:
    """Texts that were added. One that is new may be taken for known: of ten million, four in ten million."""

    def __init__(self, bits: int = _BITS) -> None:
        # Pages that nobody writes to take no memory.
        self._bytes = bytearray(bits // 8)
        self._bits = bits

    def add(self, text: str) -> bool:
        """Adds it; whether it was there, or is taken for one that was."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        place, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
        known = True
        for _ in range(_PROBES):
            at, bit = divmod(place % self._bits, 8)
            if not self._bytes[at] >> bit & 1:
                known = False
                self._bytes[at] |= 1 << bit
            place += step
        return known
