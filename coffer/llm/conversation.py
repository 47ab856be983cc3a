"""One conversation with a model: everything that leaves is scrubbed, everything that comes back is restored.

One mask holds for all its texts, so the same secret is the same placeholder throughout.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from coffer import connections, scrub
from coffer.connections import Connection
from coffer.errors import BadAnswer, ConfigInvalid, NoModel
from coffer.llm import budget, chat, running, tokens
from coffer.llm.chat import Message
from coffer.llm.replies import Reply


class Conversation:
    """Texts go out through ``out`` and come back through ``back``."""

    def __init__(self, connection: Connection, purpose: str, store: str, ended: running.Running) -> None:
        self.connection = connection
        self._key = connections.key_of(connection)
        self._purpose = purpose
        self._store = store
        self._mask = scrub.Mask()
        self._sent: list[str] = []
        self._running = ended

    def out(self, *texts: str) -> list[str]:
        """The texts as they may leave: secrets replaced, also where only another of the texts betrays them."""
        whole, before, sent = [_whole(text) for text in texts], self._mask, []
        for text in whole:
            masked = scrub.mask(text, self._mask)
            self._mask = masked.mask
            sent.append(masked.text)
        if self._mask != before:
            sent = [scrub.mask(text, self._mask).text for text in whole]
        self._sent += sent
        return sent

    def own(self, text: str) -> str:
        """A text of the program itself, which holds no secret but one that another text has betrayed by now."""
        if self._mask != scrub.Mask():
            return self.out(text)[0]
        self._sent.append(text)
        return text

    def back(self, value: Any) -> Any:
        """A JSON value with our secrets in place again and new ones taken out. Raises BadAnswer."""
        if isinstance(value, str):
            restored = scrub.restore(scrub.redact(value, keep=self._sent).text, self._mask)
            if restored.invented:
                raise BadAnswer("it holds a placeholder that was not sent")
            return restored.text
        if isinstance(value, list):
            return [self.back(one) for one in value]
        if isinstance(value, dict):
            return {key: self.back(one) for key, one in value.items()}
        return value

    @contextmanager
    def asking(
        self, messages: Sequence[Message], *, json_mode: bool = False, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Iterator[Reply]:
        """Ask, and count the call; its row tells how the block went, so judge the answer inside. Raises EngineError."""
        estimate = tokens.estimate(*(str(part) for part in (*(message.get("content") for message in messages), *tools)))
        self._running.check()
        with budget.call(self.connection, self._purpose, self._store, estimate) as call:
            reply = chat.ask(
                self.connection,
                self._key,
                messages,
                call=call,
                running=self._running,
                json_mode=json_mode,
                tools=tools,
            )
            written = tokens.estimate(reply.text, *(one.arguments for one in reply.calls))
            used_in = estimate if reply.tokens_in is None else reply.tokens_in
            used_out = written if reply.tokens_out is None else reply.tokens_out
            call.used(used_in, used_out)
            yield replace(reply, tokens_in=used_in, tokens_out=used_out)


@contextmanager
def begin(purpose: str, *, store: str = "", connection: Connection | None = None) -> Iterator[Conversation]:
    """A conversation over the connection for this purpose, or over a given one. Raises NoModel or Cancelled.

    A setting that turns out to be wrong is a NoModel, too.
    """
    with running.registered() as one:
        try:
            yield Conversation(connection or connections.choose(purpose), purpose, store, one)
        except ConfigInvalid as error:
            raise NoModel(error.message) from error


def _whole(text: str) -> str:
    """The text with every half of a surrogate pair replaced: no request could carry it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
