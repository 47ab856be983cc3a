"""What the measurements of ``coffer bench`` are made of: ratios with a bar, times, and made-up words."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Action = Callable[[], object]


@dataclass(frozen=True)
class Figure:
    """One measured ratio, its bar, and the times it is made of."""

    name: str
    ratio: float
    bar: float
    detail: str

    @property
    def holds(self) -> bool:
        return self.ratio <= self.bar


_SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
_WORDS = [f"{one}{two}{three}" for one in _SYLLABLES[:40] for two in _SYLLABLES[::3] for three in _SYLLABLES[::18]]


def words(rng: random.Random, count: int) -> str:
    """Made-up words, frequent ones far more often, as in any language."""
    return " ".join(_WORDS[min(int(rng.paretovariate(0.7)) - 1, len(_WORDS) - 1)] for _ in range(count)) + "."


def ms(action: Action) -> float:
    """How many milliseconds it takes."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]
