"""``store.yaml``: what a store is, on disk beside its lanes, so that a lost database loses no label and no alias."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from memory.files import markdown, ulid

NAME = "store.yaml"
_KEYS = {
    *("name", "project_id", "remote", "former_remotes", "label", "config"),
    *("merged_identities", "not_same_as", "created_at"),
}


class Unreadable(ValueError):
    """The file is there but is no mapping of YAML; the message says where."""


@dataclass(frozen=True)
class StoreFile:
    """The keys of ``store.yaml``; unknown keys are kept in ``extra`` and written back."""

    name: str
    project_id: str
    remote: str = ""
    former_remotes: tuple[str, ...] = ()
    label: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    merged_identities: tuple[str, ...] = ()
    not_same_as: tuple[str, ...] = ()  # ids of projects that a person told apart from this one
    created_at: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def with_(self, **changes: Any) -> "StoreFile":
        return replace(self, **changes)

    def with_alias(self, *identities: str) -> "StoreFile":
        """The same store answering to further identities, each once."""
        aliases = dict.fromkeys([*self.merged_identities, *identities])
        aliases.pop(self.project_id, None)
        return replace(self, merged_identities=tuple(aliases))

    def without(self, identities: set[str]) -> "StoreFile":
        """The same store answering to some identities no longer, whether as aliases or through an origin."""
        aliases = tuple(one for one in self.merged_identities if one not in identities)
        former = tuple(one for one in self.former_remotes if identity_of(one) not in identities)
        remote = "" if self.remote and identity_of(self.remote) in identities - {self.project_id} else self.remote
        return replace(self, merged_identities=aliases, former_remotes=former, remote=remote)

    def with_remote(self, remote: str) -> "StoreFile":
        """The same store with another origin; the one it had is a former one from now on."""
        former = dict.fromkeys([*self.former_remotes, *([self.remote] if self.remote else [])])
        former.pop(remote, None)
        return replace(self, remote=remote, former_remotes=tuple(former))


def identity_of(remote: str) -> str:
    """The id of a project with this normalised origin (FR-004a)."""
    return ulid.project_id(f"remote:{remote}")


def load(data: bytes, name: str, project_id: str) -> StoreFile:
    """Read the file's bytes; name and id are the folder's, whatever a copied file says. Raises Unreadable."""
    text, _ = markdown.decode(data)
    try:
        values = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - strings only, the safest loader there is
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise Unreadable(f"line {mark.line + 1}" if mark else "not YAML") from error
    if values in (None, ""):
        values = {}
    if not isinstance(values, dict):
        raise Unreadable("it is not a mapping")
    return StoreFile(
        name=name,
        project_id=project_id,
        remote=_text(values.get("remote")),
        former_remotes=_texts(values.get("former_remotes")),
        label=_text(values.get("label")),
        config=_config(values.get("config")),
        merged_identities=_texts(values.get("merged_identities")),
        not_same_as=_texts(values.get("not_same_as")),
        created_at=markdown.timestamp(_text(values.get("created_at"))),
        extra={key: value for key, value in values.items() if key not in _KEYS},
    )


def dump(store: StoreFile) -> bytes:
    """The file's bytes, its keys in the documented order."""
    values: dict[str, Any] = {
        "name": store.name,
        "project_id": store.project_id,
        "remote": store.remote,
        "former_remotes": list(store.former_remotes),
        "label": store.label,
        "config": store.config,
        "merged_identities": list(store.merged_identities),
        **({"not_same_as": list(store.not_same_as)} if store.not_same_as else {}),
        "created_at": markdown.stamp(store.created_at) if store.created_at else "",
        **store.extra,
    }
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
    return text.encode()


def read(folder: Path, name: str, project_id: str) -> StoreFile:
    """The store in ``folder``; one without the file is described by its folder alone. Raises Unreadable, OSError."""
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return StoreFile(name=name, project_id=project_id)
    return load(data, name, project_id)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str) and item) if isinstance(value, list) else ()


def _config(value: Any) -> dict[str, Any]:
    """Only known keys with sound values: a typing slip in a hand-edited file falls back to the default."""
    if not isinstance(value, dict):
        return {}
    config: dict[str, Any] = {}
    limit = value.get("max_fact_chars")
    if isinstance(limit, str) and limit.isdecimal() and int(limit) > 0:
        config["max_fact_chars"] = int(limit)
    if value.get("retrieval") in ("keyword", "hybrid"):
        config["retrieval"] = value["retrieval"]
    if isinstance(value.get("embedding"), dict):
        config["embedding"] = value["embedding"]
    return config
