"""requirements.lock: what pyproject.toml asks for is in it, pinned, with hashes."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([\w.-]+)==([^ ;]+)", re.MULTILINE)
EXTRAS = ("server", "suite", "dev", "real")


def read_asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in EXTRAS:
        texts += project["optional-dependencies"][extra]
    asked = [Requirement(text) for text in texts]
    return [requirement for requirement in asked if requirement.name != "constrained-calls"]


def test_all_requirements_are_pinned() -> None:
    """If not: `make lock`."""
    pinned = dict(PINNED.findall((ROOT / "requirements.lock").read_text("utf-8")))
    for requirement in read_asked():
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


def test_all_pins_have_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text("utf-8")
    entries = re.split(r"\n(?=[\w.-]+==)", text)
    assert len(entries) > 40
    assert [entry.partition(" ")[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text  # no index of its own: whoever installs has one
