"""The page of the playground, from its files: markup, style, scripts."""

from functools import cache
from importlib.resources import files

SCRIPTS = (
    "elements",
    "requests",
    "storage",
    "json_fields",
    "tabs",
    "models",
    "settings",
    "tool_document",
    "tool_form",
    "typed_values",
    "call_card",
    "turn_view",
    "trace_dialog",
    "conversations",
    "conversation_list",
    "chat",
    "start",
)
"""The scripts, in the order in which they run: each may use those before it at once, and those
behind it later."""


@cache
def write_playground(*, needs_key: bool) -> str:
    """Returns the page as one HTML text.

    Args:
        needs_key: the server wants an API key, so the page asks for one.
    """
    folder = files("server.playground")
    scripts = folder.joinpath("scripts")
    texts = [scripts.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    page = page.replace("/*STYLE*/", folder.joinpath("style.css").read_text(encoding="utf-8"))
    page = page.replace("/*NEEDS_KEY*/", str(needs_key).lower())
    return page.replace("/*SCRIPT*/", "\n".join(texts))
