"""What the background workers call, by these very names."""

from memory.services import embedding, identity, quiet


def organize(name: str, actor: str = "user") -> str:
    """Organize a store now."""
    return quiet.organize_now(name, actor)


def organize_when_idle(name: str) -> str:
    """Organize a store if nobody writes to it."""
    return quiet.organize_when_idle(name)


def arm_unfiled() -> str:
    """Have stores organized in which notes were waiting before there was a model."""
    return f"{quiet.arm_unfiled()} stores armed"


def reorganize(name: str, actor: str = "user") -> str:
    """Reorganize a store now."""
    return quiet.reorganize_now(name, actor)


def embed(name: str) -> str:
    """Make the vectors that a store lacks."""
    return embedding.run(name)


def consolidate() -> str:
    """Let stores from before their repository had a remote become part of the remote's."""
    return f"{identity.consolidate()} stores adopted"
