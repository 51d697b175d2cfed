"""Errors of this project: each says what is wrong, where, and what to do about it."""


class Error(ValueError):
    """Base of every error that a user can cause.

    Args:
        message: what is wrong.
        where: a JSON pointer into the user's input ("" is its root), a byte offset, or None.
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
    """A schema that is not valid or cannot be enforced; `where` is the JSON pointer."""


class ToolError(Error):
    """A list of tools, or one tool in it, that cannot be used."""


class PolicyError(Error):
    """A policy that the tools or the start state cannot satisfy."""


class RenderError(Error):
    """A turn that a wire format cannot write unambiguously."""


class CoerceError(Error):
    """Raw text that no type admitted by its schema can hold."""


class DetectError(Error):
    """A chat template whose wire format is not known."""


class FormatError(Error):
    """A description of a wire format that cannot be read; `where` is the JSON pointer."""


class CannotEmitError(Error):
    """A grammar that another engine's language cannot say; `where` is the rule."""
