"""Which models may be asked, and for what: the connection of the environment, else the saved one marked as default.

A connection holds where its key is to be found, never the key. One that leads off this machine serves nothing but its
test until a person has allowed each use, and again after its address was changed.
"""

from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from coffer import audit, env, paths, registry
from coffer.connections import fields as _fields
from coffer.connections.connection import FEATURES, Connection, feature
from coffer.connections.embedding import embedding, embedding_half_set
from coffer.connections.fields import ENVIRONMENT, check, is_loopback
from coffer.connections.keys import key_of
from coffer.errors import ConfigInvalid, Conflict, Invalid, NoModel, NotFound
from coffer.models import LlmConnection

__all__ = [
    "ENVIRONMENT",
    "FEATURES",
    "Connection",
    "add",
    "advice",
    "at",
    "change",
    "check",
    "choose",
    "described",
    "embedding",
    "embedding_half_set",
    "feature",
    "from_environment",
    "get",
    "half_set",
    "in_use",
    "is_loopback",
    "key_of",
    "listing",
    "named",
    "remember_json_mode",
    "remove",
]
_in_environment_json_mode: dict[tuple[str, str], bool] = {}


def in_use() -> Connection | None:
    """The connection that answers now. Raises ConfigInvalid when the environment's is not valid."""
    found = from_environment()
    if found is None:
        row = LlmConnection.objects.filter(is_default=True).first()
        found = None if row is None else _of(row)
    return found


def choose(purpose: str) -> Connection:
    """The connection for a purpose. Raises NoModel, with what is missing, when none may serve it."""
    try:
        found = in_use()
    except ConfigInvalid as error:
        raise NoModel(error.message) from error
    if found is None:
        raise NoModel("No model is connected; `coffer engine set` connects one.")
    if not found.allows(purpose):
        name = feature(purpose)
        how = "COFFER_LLM_ALLOW" if found.id == 0 else f"`coffer engine set --name {found.name} --allow {name}`"
        raise NoModel(f"The connection {found.name} may not be used to {name}; {how} allows it.")
    return found


def from_environment() -> Connection | None:
    """What COFFER_LLM_BASE_URL, _MODEL and _API_KEY say together; setting them is consent, as far as _ALLOW goes."""
    base_url, model = env.text("COFFER_LLM_BASE_URL").strip(), env.text("COFFER_LLM_MODEL").strip()
    if not base_url or not model:
        return None
    allowed = _allowed_by_environment()
    try:
        address, model = _fields.address(base_url), _fields.model(model)
    except Invalid as error:
        raise ConfigInvalid(f"COFFER_LLM_BASE_URL or COFFER_LLM_MODEL: {error.message}") from error
    return Connection(
        0,
        ENVIRONMENT,
        address,
        model,
        "env:COFFER_LLM_API_KEY" if env.secret("COFFER_LLM_API_KEY").strip() else "",
        is_default=True,
        allow_organize="organize" in allowed,
        allow_distill="distill" in allowed,
        json_mode=_in_environment_json_mode.get((address, model)),
    )


def half_set() -> str | None:
    """The sentence about an environment that names an endpoint without a model, or the other way round."""
    names = ("COFFER_LLM_BASE_URL", "COFFER_LLM_MODEL")
    given = [name for name in names if env.text(name).strip()]
    if len(given) != 1:
        return None
    (missing,) = set(names) - set(given)
    return f"{given[0]} is set but {missing} is not, so neither is used; set both, or none."


def listing() -> list[Connection]:
    """Every connection, the environment's first."""
    found = from_environment()
    return [*([found] if found else []), *(_of(row) for row in LlmConnection.objects.all())]


def get(id: int) -> Connection:
    """One connection by its id, 0 being the environment's. Raises NotFound."""
    if id == 0:
        found = from_environment()
        if found is None:
            raise NotFound("COFFER_LLM_BASE_URL and COFFER_LLM_MODEL are not set.")
        return found
    return _of(_row(id))


def named(name: str) -> Connection:
    """One connection by its name. Raises NotFound."""
    found = next((one for one in listing() if one.name == name), None)
    if found is None:
        raise NotFound(f"There is no connection {name[:60]!r}; `coffer engine show` lists them.")
    return found


def at(base_url: str) -> Connection:
    """A connection to that address that is not saved, to say what it would send. Raises Invalid."""
    return Connection(0, "", _fields.address(base_url), "", "", False, False, False, None)


def described(connection: Connection) -> dict[str, Any]:
    """A connection as surfaces show it: without its key, with what may be sent where, and whether it is in use."""
    try:
        found = bool(key_of(connection)) or not connection.key
    except NoModel:
        found = False
    used = in_use()
    return {
        **asdict(connection),
        "local": connection.local,
        "key_found": found,
        "in_use": used is not None and used.id == connection.id,
        "sends": connection.sends(),
    }


def add(
    name: str,
    *,
    base_url: str,
    model: str,
    key: str = "",
    is_default: bool | None = None,
    allow_organize: bool | None = None,
    allow_distill: bool | None = None,
    actor: str = "user",
) -> Connection:
    """Save a connection; the first one is the default unless told otherwise.

    Without a word on a use it is allowed on this machine and not allowed elsewhere. Raises Invalid, and Conflict for a
    name that is taken.
    """
    address = _fields.address(base_url)
    local = at(address).local
    row = LlmConnection(
        name=_fields.name(name),
        base_url=address,
        model=_fields.model(model),
        key=_fields.reference(key),
        is_default=not LlmConnection.objects.filter(is_default=True).exists() if is_default is None else is_default,
        allow_organize=local if allow_organize is None else allow_organize,
        allow_distill=local if allow_distill is None else allow_distill,
    )
    _save(row, event="connection_added", actor=actor)
    return _of(row)


def change(id: int, *, actor: str = "user", **fields: Any) -> Connection:
    """Change some fields of a saved connection, named as in ``add``; None leaves one as it is.

    Another host has not been consented to: there, what is not allowed in the same breath is allowed no longer.
    """
    row = _row(id)
    before = _of(row)
    for field, value in fields.items():
        if value is not None:
            setattr(row, field, check(field, value))
    after = _of(row)
    if (after.host, after.base_url.partition(":")[0]) != (before.host, before.base_url.partition(":")[0]):
        for field in ("allow_organize", "allow_distill"):
            if fields.get(field) is None:
                setattr(row, field, after.local)
    if (after.base_url, after.model) != (before.base_url, before.model):
        row.json_mode = None
    row.updated_at = timezone.now()
    _save(row, event="connection_changed", actor=actor)
    return _of(row)


def remove(id: int, *, actor: str = "user") -> None:
    """Forget a saved connection; none takes its place as the default. Raises NotFound."""
    row = _row(id)
    with transaction.atomic():
        row.delete()
        audit.record("connection_removed", ref=row.name, actor=actor)


def advice(connection: Connection) -> list[str]:
    """What a person who has just saved it should know: uses not allowed yet, and a key that others do not find."""
    kind, _, name = connection.key.partition(":")
    found = [
        f"It may not {name} until you allow it. {sentence}"
        for name, sentence in connection.sends().items()
        if not connection.allows(name)
    ]
    try:
        key_of(connection)
    except NoModel as error:
        return [*found, error.message]
    if kind == "env" and env.variable(name)[1] == "environment":
        found.append(
            f"{name} is known to this process only; background work finds it in {paths.home() / 'config.env'}, "
            f"as a line {name}=…"
        )
    return found


def remember_json_mode(connection: Connection, offered: bool) -> None:
    """Note whether the endpoint takes ``response_format``, so that it is not asked each time."""
    if connection.id == 0:
        _in_environment_json_mode[(connection.base_url, connection.model)] = offered
    else:
        rows = LlmConnection.objects.filter(id=connection.id, base_url=connection.base_url, model=connection.model)
        rows.update(json_mode=offered)


def _of(row: LlmConnection) -> Connection:
    return Connection(
        row.id,
        row.name,
        row.base_url,
        row.model,
        row.key,
        row.is_default,
        row.allow_organize,
        row.allow_distill,
        row.json_mode,
    )


def _row(id: int) -> LlmConnection:
    if id == 0:
        raise Conflict("This connection is set by COFFER_LLM_BASE_URL and COFFER_LLM_MODEL; change it there.")
    row = LlmConnection.objects.filter(id=id).first()
    if row is None:
        raise NotFound(f"There is no connection {id}.")
    return row


def _save(row: LlmConnection, *, event: str, actor: str) -> None:
    try:
        with transaction.atomic():
            if row.is_default:
                LlmConnection.objects.exclude(id=row.id).filter(is_default=True).update(is_default=False)
            row.save()
            audit.record(event, ref=row.name, actor=actor)
    except IntegrityError:
        raise Conflict(f"There is a connection {row.name!r} already.") from None
    registry.connected()


def _allowed_by_environment() -> set[str]:
    words = {word.strip().lower() for word in env.text("COFFER_LLM_ALLOW").split(",")} - {"", "none"}
    if unknown := words - set(FEATURES):
        raise ConfigInvalid(
            f"COFFER_LLM_ALLOW has {min(unknown)[:40]!r}; use organize, distill, both with a comma, or none.",
            name="COFFER_LLM_ALLOW",
        )
    return words
