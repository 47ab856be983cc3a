"""One connection to a model: where it leads, and what may be sent there."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from coffer.connections.fields import ENVIRONMENT, is_loopback

FEATURES = {
    "organize": "new notes, the topics they may belong to, and journal entries",
    "distill": "what you and your agents said in their sessions",
}
EMBEDDING = "embedding"  # the name of the one that makes vectors, which needs no row either
_VARIABLES = {ENVIRONMENT: "COFFER_LLM_* in the settings", EMBEDDING: "COFFER_EMBEDDING_* in the settings"}


@dataclass(frozen=True)
class Connection:
    """An endpoint, its model, and what may be sent there; ``key`` is a reference."""

    id: int
    name: str
    base_url: str
    model: str
    key: str
    is_default: bool
    allow_organize: bool
    allow_distill: bool
    json_mode: bool | None

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def local(self) -> bool:
        """Whether it stays on this machine."""
        return is_loopback(self.host)

    @property
    def settled_by(self) -> str:
        """Where a person can change it."""
        return _VARIABLES.get(self.name, "the settings") if self.id == 0 else f"the connection {self.name}"

    def allows(self, purpose: str) -> bool:
        """Whether a call for this purpose may be made; a test always may."""
        return purpose == "test" or (self.allow_distill if feature(purpose) == "distill" else self.allow_organize)

    def sends(self) -> dict[str, str]:
        """For each feature the sentence a person should read before allowing it."""
        way = "which is this machine" if self.local else "off this machine"
        if not self.local and self.base_url.startswith("http:"):
            way += " and without encryption"
        return {
            name: f"To {name} it sends {what} to {self.host}, {way}; secrets that Coffer recognises are taken out."
            for name, what in FEATURES.items()
        }


def feature(purpose: str) -> str:
    """The permission that a purpose needs."""
    return "distill" if purpose.startswith("distill") else "organize"
