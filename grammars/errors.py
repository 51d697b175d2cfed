"""Errors of this project: each says what is wrong, where, and what to do about it."""


class Error(ValueError):
    """Base class of all errors of this project.

    `str(error)` has all three parts in one sentence.

    Args:
        message: what is wrong.
        where: where it is: a JSON pointer into the input ("" is its root), or a byte offset; None
            if it has no place.
        hint: what to do about it, or None.
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
    """The request asks for what its tools cannot give, such as a call of a tool that is missing."""


class RenderError(Error):
    """A turn cannot be written in this wire format without being misread."""


class CoerceError(Error):
    """A text is no value of any type that the schema allows."""


class DetectError(Error):
    """The wire format of a chat template cannot be detected."""


class FormatError(Error):
    """The description of a wire format is not valid; `where` is a JSON pointer into it."""


class CannotEmitError(Error):
    """A grammar that another engine's language cannot say; `where` is the rule."""
