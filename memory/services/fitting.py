"""Lines into a room of so many bytes: each whole or left out, and what was left out is counted. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coffer.templatetags.coffer import counted


@dataclass(frozen=True)
class Line:
    """One thing to tell; ``document`` is what it stands for, by store and id."""

    text: str
    document: tuple[str, str] | None = None


@dataclass
class Part:
    """Lines below one heading, the most important first.

    ``total`` is how many there are, read or not; ``noun`` what one of them is called (``entry,entries`` where that is
    not just an s), and ``shown_by`` what shows them all. ``taken`` are those that fit.
    """

    heading: str
    noun: str
    shown_by: str
    lines: Sequence[Line]
    total: int
    taken: list[Line] = field(default_factory=list)

    @property
    def cost(self) -> int:
        """The bytes of all of it."""
        return cost([self.heading, *(line.text for line in self.lines)]) if self.lines else 0

    @property
    def missing(self) -> int:
        """How many are not taken."""
        return self.total - len(self.taken)

    @property
    def text(self) -> list[str]:
        return [self.heading, *(line.text for line in self.taken)] if self.taken else []

    def take(self, room: int) -> int:
        """Take the lines that fit, in their order; what is too long is passed over. Returns the room that is left."""
        left = room - cost([self.heading])
        self.taken = []
        for line in self.lines:
            if cost([line.text]) <= left:
                self.taken.append(line)
                left -= cost([line.text])
        return left if self.taken else room


def cost(lines: Iterable[str]) -> int:
    """The bytes of some lines, each with its line end."""
    return sum(len(line.encode()) + 1 for line in lines)


def complete(parts: Sequence[Part], room: int) -> bool:
    """Whether there is nothing that would have to be left out."""
    return sum(part.cost for part in parts) <= room and all(part.total <= len(part.lines) for part in parts)


def fill(parts: Sequence[Part], room: int, share: int = 0) -> int:
    """Let the parts take what fits, one after the other, each but the first sure of ``share`` bytes; the room left."""
    for number, part in enumerate(parts):
        kept = sum(min(later.cost, share) for later in parts[number + 1 :])
        room = part.take(room - kept) + kept
    return room


def left_out(parts: Iterable[Part]) -> str:
    """A line apart that says how much is missing and where it is found; empty when nothing is."""
    missing = [f"{counted(part.missing, part.noun)} ({part.shown_by})" for part in parts if part.missing]
    return f"\nLeft out for length: {', '.join(missing)}." if missing else ""
