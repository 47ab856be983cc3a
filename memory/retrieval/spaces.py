"""What an embedder makes, known by what it does: the space of its vectors is found again by that of a known text.

Every request carries this text. When its vector has moved, the model behind the address is another one, whatever it
calls itself, and its vectors belong to another space. A new space is measured once: how near texts are that have
nothing to do with each other, and whether the model tells Chinese texts apart at all.
"""

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import mul
from typing import NamedTuple

from coffer import env, llm
from coffer.errors import BadAnswer, ConfigInvalid, NoModel
from memory.models import Store
from memory.retrieval import vectors
from memory.retrieval.vectors import Space

PROBE = "Coffer keeps what the coding agents on this machine have learnt."
_SAME = 0.98  # cosine of two vectors of the probe; endpoints round, and some batch differently each time
# A text, the same in other words, and something else.
_ENGLISH = (
    ("The build fails when the cache is empty.", "Compiling breaks without cached files.", "Our cat sleeps all day."),
    ("Sign in with a token, not a password.", "Authenticate by token only.", "Water the plants on Friday."),
    ("The database runs out of connections.", "The connection pool is exhausted.", "It snowed in the mountains."),
    ("Restart the server after a deploy.", "Reboot the service once it is released.", "She plays the violin well."),
)
_CHINESE = (
    ("缓存为空时构建失败。", "没有缓存就无法编译。", "我家的猫整天都在睡觉。"),
    ("登录要用令牌，不要用密码。", "只能通过 token 进行认证。", "星期五记得给花浇水。"),
    ("数据库的连接数不够用了。", "连接池已经耗尽。", "山里昨天下了一场大雪。"),
    ("部署之后要重启服务器。", "发布完成后重新启动服务。", "她的小提琴拉得很好。"),
)
_ENOUGH = 3  # of the four that have to be told apart
_moved: set[str] = set()


class Measure(NamedTuple):
    """How near texts are that have nothing to do with each other, and of which languages texts are told apart."""

    least: float
    reads_english: bool
    reads_cjk: bool


def hybrid(store: Store) -> bool:
    """Whether a store is searched by vectors as well. Raises ConfigInvalid."""
    chosen = store.config.get("retrieval") or env.choice("COFFER_RETRIEVAL", ("KEYWORD", "HYBRID")).lower()
    return bool(chosen == "hybrid")


def embedder_of(store: Store) -> llm.Embedder:
    """The embedder of a store, in use or not. Raises NoModel."""
    try:
        return llm.embedder((store.config.get("embedding") or {}).get("provider"))
    except ConfigInvalid as error:
        raise NoModel(error.message) from error


def find(embedder: llm.Embedder, probe: llm.Vector | None) -> Space | None:
    """The space in which the probe has this vector; None when there is none yet. Raises BadAnswer without a vector."""
    if probe is None:
        raise BadAnswer("it has no usable vector for a plain sentence")
    known = vectors.spaces(embedder.model)
    alike = (space for space in known if len(space.probe) == len(probe) and near(space.probe, probe) > _SAME)
    found = next(alike, None)
    (_moved.add if known and found is None else _moved.discard)(embedder.model)
    return found


def moved(embedder: llm.Embedder) -> bool:
    """Whether the embedder last answered this process in a space that nothing is embedded in."""
    return embedder.model in _moved


def settle(embedder: llm.Embedder, store: str) -> Space:
    """The space that the embedder answers in now, a new one when it is not known. Raises EngineError."""
    (probe,) = embedder.embed([PROBE], store=store)
    return find(embedder, probe) or _begin(embedder, store, probe or b"")


def measure(embedder: llm.Embedder, store: str, *, seconds: float | None = None) -> Measure:
    """What an embedder is fit for, found out with texts that say nothing about the person. Raises EngineError."""
    texts = list(chain.from_iterable((*_ENGLISH, *_CHINESE)))
    answered = embedder.embed(texts, store=store, seconds=seconds)
    english, chinese = (_measured(part) for part in (answered[: 3 * len(_ENGLISH)], answered[3 * len(_ENGLISH) :]))
    least = sum(other for _, other in english) / len(english) if english else 0.0
    return Measure(least, _told_apart(english), _told_apart(chinese))


def near(one: bytes, other: bytes) -> float:
    """The cosine of two vectors of unit length."""
    return float(sum(map(mul, array("f", one), array("f", other))))


def _begin(embedder: llm.Embedder, store: str, probe: bytes) -> Space:
    measured = measure(embedder, store)
    return vectors.add_space(embedder.model, probe, measured.least, measured.reads_cjk)


def _told_apart(triples: Sequence[tuple[float, float]]) -> bool:
    return sum(same > other for same, other in triples) >= _ENOUGH


def _measured(answered: Sequence[llm.Vector | None]) -> list[tuple[float, float]]:
    """Of each three texts how near the second and the third are to the first."""
    triples = [answered[at : at + 3] for at in range(0, len(answered), 3)]
    return [
        (near(text, same), near(text, other))
        for text, same, other in triples
        if text is not None and same is not None and other is not None
    ]
