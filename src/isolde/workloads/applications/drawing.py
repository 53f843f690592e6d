"""What arguments are drawn from: skewed choices, fresh ids, texts and times, all from the generator that is passed in."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate
from random import Random

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_START_MS = 1_700_000_000_000


def fresh(random: Random) -> int:
    """An id that nobody else has: 60 random bits, so that sessions need not agree on a counter."""
    return random.getrandbits(60)


def moment(random: Random) -> int:
    """A time in milliseconds since 1970. It is drawn and not looked up, so that a seed gives the same arguments again."""
    return _START_MS + random.randrange(1_000_000_000)


def word(random: Random, shortest: int, longest: int) -> str:
    return "".join(random.choices(_LETTERS, k=random.randint(shortest, longest)))


def zipfian(random: Random, count: int, exponent: float) -> int:
    """A number from 1 to ``count``; number k comes as often as 1 / k ** exponent says."""
    sums = _sums(count, exponent)
    return bisect_left(sums, random.random() * sums[-1]) + 1


@lru_cache(maxsize=64)
def _sums(count: int, exponent: float) -> list[float]:
    return list(accumulate(rank**-exponent for rank in range(1, count + 1)))


def hotspot(random: Random, count: int, hot: int, share: float) -> int:
    """A number from 1 to ``count``; the first ``hot`` of them get ``share`` of the draws."""
    hot = min(hot, count)
    if hot == count or random.random() < share:
        return random.randint(1, hot)
    return random.randint(hot + 1, count)


def two(random: Random, count: int) -> tuple[int, int]:
    """Two different numbers from 1 to ``count``; the same one twice if there is no other."""
    if count < 2:
        return 1, 1
    first, second = random.sample(range(1, count + 1), 2)
    return first, second
