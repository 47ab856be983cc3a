"""The endpoint that makes vectors: what COFFER_EMBEDDING_* say together, which needs no saved connection."""

from coffer import env
from coffer.connections import fields
from coffer.connections.connection import EMBEDDING, Connection
from coffer.errors import ConfigInvalid, Invalid

_ADDRESS, _MODEL, _KEY = "COFFER_EMBEDDING_BASE_URL", "COFFER_EMBEDDING_MODEL", "COFFER_EMBEDDING_API_KEY"


def embedding() -> Connection | None:
    """The connection for vectors; setting its address and model is consent. Raises ConfigInvalid."""
    base_url, model = env.text(_ADDRESS).strip(), env.text(_MODEL).strip()
    if not base_url or not model:
        return None
    try:
        address, model = fields.address(base_url.rstrip("/").removesuffix("/embeddings")), fields.model(model)
    except Invalid as error:
        raise ConfigInvalid(f"{_ADDRESS} or {_MODEL}: {error.message}") from error
    key = f"env:{_KEY}" if env.secret(_KEY).strip() else ""
    return Connection(0, EMBEDDING, address, model, key, False, False, False, None)


def embedding_half_set() -> str | None:
    """The sentence about an address without a model, or the other way round."""
    given = [name for name in (_ADDRESS, _MODEL) if env.text(name).strip()]
    if len(given) != 1:
        return None
    (missing,) = {_ADDRESS, _MODEL} - set(given)
    return f"{given[0]} is set but {missing} is not, so neither is used; set both, or none."
