"""The JSON object in a model's answer, however it is wrapped; nothing is guessed, and a cut-off answer is none.

Models put fences, prose and thinking around an object, leave commas before closing brackets, put it into a list, or
type curly quotes. Each of these is undone only where the text as it stands is no JSON.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coffer.errors import BadAnswer

_STARTS = 32  # of the places where an object might begin, so that an answer made of brackets takes no long time
_THINKING = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+"?|,(?=\s*[}\]])', re.DOTALL)
_CURLY_KEY = re.compile(r"\{\s*[“”„]")
_CURLY = re.compile("[“”„‟]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


def parse(text: str, required: Mapping[str, type]) -> dict[str, Any]:
    """The one object in ``text`` that has every required key, with a value of its type. Raises BadAnswer.

    ``"true"`` and ``"false"`` count as booleans; further keys are kept.
    """
    found = _objects(text.strip().removeprefix("\ufeff"))
    if not found:
        raise BadAnswer("it holds no JSON object" if text.strip() else "it is empty")
    fitting = [one for one in found if all(key in one for key in required)]
    if not fitting:
        raise BadAnswer(f"{next(key for key in required if key not in found[0])} is missing")
    if any(one != fitting[0] for one in fitting):
        raise BadAnswer("it holds several different objects")
    return checked(fitting[0], required)


def checked(found: dict[str, Any], required: Mapping[str, type]) -> dict[str, Any]:
    """The object with every required key of its type, and all of it fit to be written. Raises BadAnswer."""
    for key in required:
        if key not in found:
            raise BadAnswer(f"{key} is missing")
    _check_characters(found)
    return found | {key: _typed(key, found[key], kind) for key, kind in required.items()}


def _check_characters(value: Any) -> None:
    """Raise BadAnswer for half a surrogate pair: it can stand in JSON, but in no file."""
    if isinstance(value, str) and _SURROGATE.search(value):
        raise BadAnswer("it holds half a character")
    for one in value.items() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _check_characters(one)


def _objects(text: str) -> list[dict[str, Any]]:
    """The whole text where that is JSON, else every object that stands in it, thinking left out."""
    try:
        whole = json.loads(text, strict=False, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return list(_embedded(_without_thinking(text)))
    if isinstance(whole, list) and len(whole) == 1:
        (whole,) = whole
    return [whole] if isinstance(whole, dict) else []


def _without_thinking(text: str) -> str:
    """What follows the last closing mark: some endpoints cut off the opening one."""
    thoughts = list(_THOUGHT.finditer(text))
    if thoughts:
        return text[thoughts[-1].end() :]
    return "" if _THINKING.match(text) else text


def _embedded(text: str) -> Iterator[dict[str, Any]]:
    at = 0
    for _ in range(_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        found, at = _object_at(text, at)
        if found is not None:
            yield found


def _object_at(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The object that begins there, by the first reading that makes one, and where to look on."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_number)
    for reading in _READINGS:
        try:
            found, length = decoder.raw_decode(reading(text[at:]))
        except (ValueError, RecursionError):
            continue
        return found, at + length
    return None, at + 1


def _without_commas(text: str) -> str:
    """Blanks for the commas before closing brackets; the text begins with an object, so quotes pair up."""
    return _STRING_OR_COMMA.sub(lambda match: " " if match[0] == "," else match[0], text)


def _with_straight_quotes(text: str) -> str:
    if not _CURLY_KEY.match(text):
        raise ValueError
    return _without_commas(_CURLY.sub('"', text))


# Each keeps the text's length, so that one knows where the object ended.
_READINGS: tuple[Callable[[str], str], ...] = (str, _without_commas, _with_straight_quotes)


def _no_number(word: str) -> float:
    raise ValueError(word)


def _typed(key: str, value: Any, kind: type) -> Any:
    if kind is bool and isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadAnswer(f"{key} is not {_WORDS.get(kind, 'an object')}")
    return value
