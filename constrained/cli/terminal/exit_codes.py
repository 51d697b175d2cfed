"""Exit codes of the command line, by which scripts can distinguish causes."""

from enum import IntEnum

from constrained.errors import DeadlineError, GrammarError, ModelError, RemoteError, ReplyError


class ExitCode(IntEnum):
    """Why a command has ended."""

    DONE = 0
    NEGATIVE = 1
    """The command did its work, and the finding is negative: a row that does not fit, a line
    of a piped chat that was refused."""
    USAGE = 2
    """An option, a file or a request is not valid; also if no other code fits."""
    MODEL = 3
    """The model's file is missing or cannot be used, or the engine of another machine failed."""
    TIMEOUT = 4
    CUT_OFF = 5
    """The tokens ran out before the reply was done."""
    UNFIT = 6
    """The reply does not fit the request and is withheld, or the grammar failed."""
    INTERRUPTED = 130
    """Ctrl-C."""
    TERMINATED = 143
    """SIGTERM."""


CAUSES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (DeadlineError, ExitCode.TIMEOUT),
    (ModelError, ExitCode.MODEL),
    (RemoteError, ExitCode.MODEL),
    (ReplyError, ExitCode.UNFIT),
    (GrammarError, ExitCode.UNFIT),
)


def find_code(error: Exception) -> ExitCode:
    """Returns the exit code for an error that ends a command."""
    if isinstance(error, GrammarError) and error.where is not None:  # that of the request
        return ExitCode.USAGE
    for kind, code in CAUSES:
        if isinstance(error, kind):
            return code
    return ExitCode.USAGE
