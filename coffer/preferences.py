"""What a person chose for all surfaces: from the environment or config.env, else from the database, else a default."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from coffer import audit, editors, env
from coffer.errors import ConfigInvalid, Conflict, Invalid
from coffer.models import Preference


@dataclass(frozen=True)
class Known:
    """One preference: the values it may have, and the setting that fixes it."""

    name: str
    default: str
    allowed: tuple[str, ...]
    setting: str
    help: str


KNOWN = (
    Known(
        "preferred_editor",
        editors.DEFAULT,
        editors.IDS,
        "COFFER_PREFERRED_EDITOR",
        "The editor that files open in, by its id.",
    ),
)
_BY_NAME = {known.name: known for known in KNOWN}


def get(name: str) -> str:
    """The value in force. Raises Invalid for an unknown name, ConfigInvalid for a wrong setting."""
    known = _known(name)
    if fixed_by(name):
        value = env.text(known.setting).strip()
        if value not in known.allowed:
            raise ConfigInvalid(f"{known.setting} is {value[:60]!r}; use one of {', '.join(known.allowed)}.", name=name)
        return value
    row = Preference.objects.filter(name=name).first()
    return row.value if row is not None and row.value in known.allowed else known.default


def set(name: str, value: str, *, actor: str = "user") -> None:
    """Choose a value. Raises Invalid for one that is not allowed, Conflict when a setting decides."""
    update({name: value}, actor=actor)


def update(choices: Mapping[str, str], *, actor: str = "user") -> dict[str, str]:
    """Choose several values, all or none, and give back what is in force. Raises as ``set``."""
    for name, value in choices.items():
        _check(name, value)
    with transaction.atomic():
        for name, value in choices.items():
            Preference.objects.update_or_create(name=name, defaults={"value": value, "updated_at": timezone.now()})
            audit.record("preference_set", ref=name, actor=actor)
    return all()


def all() -> dict[str, str]:
    """Every known preference with the value in force."""
    return {known.name: get(known.name) for known in KNOWN}


def fixed_by(name: str) -> str:
    """Where a setting decides over the choice: environment or config.env; empty when none does."""
    source = env.source(_known(name).setting)
    return "" if source == "default" else source


def _check(name: str, value: str) -> None:
    known = _known(name)
    if value not in known.allowed:
        raise Invalid(f"{name} cannot be {value[:60]!r}; use one of {', '.join(known.allowed)}.")
    if (source := fixed_by(name)) and value != get(name):
        raise Conflict(f"{name} is set by {known.setting} in {source}; change it there.")


def _known(name: str) -> Known:
    if name not in _BY_NAME:
        raise Invalid(f"There is no preference {name[:60]!r}; there are {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]
