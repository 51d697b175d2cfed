"""The errors of this project. Each says what is wrong, where, and what to do."""


class Error(ValueError):
    """Base class of all errors of this project.

    `str(error)` joins the three parts in one sentence.

    Args:
        message: what is wrong.
        where: a JSON pointer into the input ("" is its root), or a byte offset; None if there is no
            place.
        hint: what to do, or None.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None):
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        text = self.message
        if self.where is not None:
            text += f" (at {self.where or 'the root'})"
        if self.hint:
            text += f". {self.hint}"
        return text


class SchemaError(Error):
    """A JSON schema is not valid or cannot be enforced; `where` is a JSON pointer into it."""


class ToolError(Error):
    """A tool, or the list of tools, cannot be used; `where` is a JSON pointer into the list."""


class PolicyError(Error):
    """The request and its tools do not fit together: it requires a call of a missing tool, for
    example."""


class RenderError(Error):
    """A turn cannot be written in this wire format without being misread."""


class CoerceError(Error):
    """A text is not a value of any type that the schema allows."""


class DetectError(Error):
    """The wire format of a chat template cannot be detected."""


class FormatError(Error):
    """The description of a wire format is not valid; `where` is a JSON pointer into it."""
