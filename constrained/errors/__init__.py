"""Errors of the library, in the form of `grammars.errors`: message, where, hint."""

from collections.abc import Iterable
from difflib import get_close_matches

import constrained.errors.own_packages  # noqa: F401  fails in plain words where `grammars` is not ours
from grammars.errors import Error

SHORTEN = "Shorten the conversation or the tools, or raise the context length (-c)"


class ModelError(Error):
    """The model file is missing, damaged or not supported, or the model is closed."""


class TemplateError(Error):
    """The chat template is not valid Jinja, is missing, or rejects the messages."""


class RequestError(Error):
    """The request or one of its options is not valid."""


class TokenLimitError(RequestError):
    """`max_tokens` is too small for the shortest turn that the request allows."""


class GrammarError(Error):
    """The grammar could not be compiled or enforced.

    The request fails: generation never continues without its grammar.
    """


class RefusedValueWarning(UserWarning):
    """A Python type refuses some values that its JSON Schema allows, such as those that a validator
    of yours does not take."""


class RemoteError(Error):
    """A remote engine failed, or its answer was wrong: the reply is not delivered.

    Args:
        token: the number of the token at which the error was noticed, from 0; None: before all
            tokens.
        offset: the bytes of the reply before it.
        before: the end of the text before it.
        is_outage: the engine did not answer, or not as an engine does: it may be down.
        is_away: the engine is not ready, or there was no connection: it may be restarting.
        retry_after: the seconds after which the request can be sent again, because the engine has
            not started it; None: not known.
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
        is_away: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ):
        super().__init__(message, hint=hint)
        self.token = token
        self.offset = offset
        self.before = before
        self.is_outage = is_outage
        self.is_away = is_away
        self.retry_after = retry_after
        self.status = status


class ContextError(Error):
    """The prompt and the reply do not fit into the context.

    Args:
        tokens: how many the prompt has, or prompt and shortest reply, at least; None if something
            else is too long.
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
    """Raises ContextError if a prompt of `count` tokens leaves no room for a reply; without a
    context length (None), there is no limit."""
    if context_length is not None and count >= context_length:
        raise make_overflow(context_length, f"your messages resulted in {count} tokens", count)


def make_overflow(context_length: int, problem: str, tokens: int) -> ContextError:
    """Returns the error of a prompt that the context has no room for. It begins with the words of
    OpenAI and vLLM: by them, agents know that they have to shorten the conversation."""
    message = f"This model's maximum context length is {context_length} tokens. However, {problem}"
    return ContextError(message, hint=SHORTEN, tokens=tokens, room=context_length)


class BusyError(Error):
    """Too many requests are waiting already; try again later."""


class DeadlineError(Error, TimeoutError):
    """The request took longer than its `timeout`. Also a `TimeoutError`."""


class AbandonedError(Error):
    """The request was cancelled by its caller."""


class ReplyError(Error):
    """The reply is complete, but does not fit the request, so it is withheld."""


class CallError(Error):
    """A tool call cannot be executed: no such function, or arguments that it does not accept."""


def describe_unknown(name: str, known: Iterable[str], *, of: str = "") -> str:
    """Returns the message about an option that does not exist, with the known ones; `of`: whose
    they are, such as " of a tool"."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    guess = f", did you mean {close[0]!r}? Known" if close else "; known"
    return f"unknown option {name!r}{of}{guess}: {', '.join(names)}"
