"""Errors of the library; the shape (message, where, hint) is that of `grammars.errors`."""

import constrained.own_packages  # noqa: F401  fails in plain words where `grammars` is not ours
from grammars.errors import Error

SHORTEN = "Shorten the conversation or the tools, or raise the context length (-c)"


class ModelError(Error):
    """A model file that is missing, damaged or not usable."""


class TemplateError(Error):
    """A chat template that cannot be parsed, or that refuses the messages."""


class RequestError(Error):
    """A request that cannot be carried out as it stands."""


class GrammarError(Error):
    """The grammar or its matcher failed; the request ends, nothing goes on unconstrained."""


class RemoteError(Error):
    """A remote engine failed, or sent what was not asked for: the reply is not delivered.

    Args:
        message, hint: as of `Error`.
        token: the number of the token where it was noticed, from 0; None: in front of all tokens.
        offset: bytes of the reply before it.
        before: the end of the text before it.
        is_outage: the engine did not answer, or not as one does: it may be down.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        token: int | None = None,
        offset: int | None = None,
        before: str = "",
        is_outage: bool = False,
    ):
        super().__init__(message, hint=hint)
        self.token = token
        self.offset = offset
        self.before = before
        self.is_outage = is_outage


class ContextError(Error):
    """The prompt and the answer do not fit into the context.

    Args:
        message, hint: as of `Error`.
        tokens: of the prompt, at least; None: it is not the prompt that is too long.
        room: the tokens of the context.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        tokens: int | None = None,
        room: int | None = None,
    ):
        super().__init__(message, hint=hint)
        self.tokens = tokens
        self.room = room


def check_count(count: int, context_length: int | None) -> None:
    """Raises ContextError if a prompt of so many tokens leaves no room in a context of this length;
    None: there is no limit."""
    if context_length is not None and count >= context_length:
        message = f"the prompt has {count} tokens, the context {context_length}"
        raise ContextError(message, hint=SHORTEN, tokens=count, room=context_length)


class BusyError(Error):
    """Too many requests are waiting."""


class DeadlineError(Error, TimeoutError):
    """A request whose time was over before it was done. It is a `TimeoutError`, too."""


class AbandonedError(Error):
    """A request that nobody waits for any more."""


class ReplyError(Error):
    """A finished reply that does not fit what was asked for."""


class CallError(Error):
    """A call that cannot be carried out: no such function, or arguments that it does not take."""
