"""The page of the playground, from its files: markup, style, scripts."""

from functools import cache
from importlib.resources import files

SCRIPTS = ("common.js", "chat.js", "workbench.js")


@cache
def write_playground() -> str:
    """Returns the page as one HTML text."""
    folder = files("server.playground")
    scripts = [folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    page = page.replace("/*STYLE*/", folder.joinpath("style.css").read_text(encoding="utf-8"))
    return page.replace("/*SCRIPT*/", "\n".join(scripts))
