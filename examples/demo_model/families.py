"""Tool families: what a tool is called, what it takes, and how people ask for it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).with_name("families")
PARAMETER = re.compile(r"(\w+)(!?) (.+?)(?: : ([^|]*?))?(?: \| (.*))?")


@dataclass(frozen=True)
class Parameter:
    """A parameter, before its name and kind are drawn.

    Attributes:
        key: its name in the requests of the family.
        spec: see `kinds.make_kind`.
        names: how tools call it.
        descriptions: how tools describe it; may be empty.
        says: how a request can mention it where the family's own requests do not.
    """

    key: str
    spec: str
    names: tuple[str, ...]
    required: bool = False
    descriptions: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Tools for one purpose.

    Attributes:
        names: as words with spaces, or dotted.
        requests: pairs of ">" (an order) or "?" (another form), and a pattern; see `wording`.
    """

    domain: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    requests: tuple[tuple[str, str], ...]


def _split(text: str | None, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(mark))


def _read_parameter(line: str) -> Parameter:
    match = PARAMETER.fullmatch(line)
    if match is None:
        raise ValueError(f"not a parameter: {line!r}")
    key, required, spec, names, descriptions = match.groups()
    shown = tuple(filter(None, _split(descriptions, ";")))
    return Parameter(key, spec, _split(names or key, "/"), required == "!", shown)


def _read_family(lines: list[str], domain: str) -> Family:
    requests = [(line[0], line[2:]) for line in lines if line[0] in ">?"]
    descriptions = [line[2:] for line in lines if line[0] == "~"]
    parameters = [_read_parameter(line) for line in lines[1:] if line[0] not in ">?~"]
    return Family(
        domain,
        _split(lines[0], ";"),
        _split(descriptions[0], ";"),
        tuple(parameters),
        tuple(requests),
    )


@lru_cache(maxsize=4)
def read_families(name: str) -> tuple[Family, ...]:
    """The families of one sort, "seen" or "unseen"; each sort has some files.

    Raises:
        ValueError: a line is not in the form that the head of seen.txt explains.
    """
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(f"{name}*.txt"))]
    text = "\n\n".join(texts)
    families, domain = list[Family](), ""
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and line[0] != "#"]
        if lines and lines[0].startswith("@"):
            domain = lines.pop(0)[1:]
        if lines:
            families.append(_read_family(lines, domain))
    return tuple(families)


@lru_cache(maxsize=1)
def read_parameters() -> tuple[Parameter, ...]:
    """The parameters that any tool may have, of parameters.txt."""
    parameters = list[Parameter]()
    for line in (FOLDER / "parameters.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        head, descriptions, says = line.split(" | ")
        names, spec = head.split(" = ")
        shown = tuple(filter(None, _split(descriptions, ";")))
        said = tuple(part.lstrip() for part in says.split(";"))
        parameters.append(Parameter("", spec, _split(names, "/"), False, shown, said))
    return tuple(parameters)
