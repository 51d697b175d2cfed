"""All models on this machine, by the names that `load` and `-m` take."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from constrained.engine.model_files.local_models import (
    HUGGING_FACE,
    PACKAGE,
    LocalModel,
    list_local,
)
from constrained.engine.model_files.packaged import MODELS, find_packaged
from constrained.errors import ModelError

_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
_DOWNLOAD = "hf:USER/REPO[:QUANT] downloads one"


def list_known() -> list[LocalModel]:
    """Lists the models of packages, of the Hub's cache, and of other programs. Each has a source of
    its own."""
    models: list[LocalModel] = []
    taken: set[str] = set()
    for model in [*_list_packaged(), *_list_hub(), *list_local()]:
        if model.source in taken:  # in two folders of one program
            model = replace(model, name=str(model.path.with_suffix("")))
        taken.add(model.source)
        models.append(model)
    return models


def _list_packaged() -> Iterator[LocalModel]:
    for name in MODELS:
        with suppress(ModelError):  # its package is not installed
            path = find_packaged(name)
            if path is not None:
                yield LocalModel(PACKAGE, name, path, path.stat().st_size)


def _list_hub() -> Iterator[LocalModel]:
    from constrained.engine.model_files.hub_cache import list_cached

    for model in list_cached():
        yield LocalModel(HUGGING_FACE, model.name, model.path, model.bytes, model.used)


def find_known(name: str) -> Path | None:
    """Returns the file of the model on this machine with this name: its source, another of its
    names in any case, or the beginning of one; None: there is none.

    Raises:
        ModelError: the name fits several models.
    """
    models = list_known()
    wanted = name.lower()
    found = [model for model in models if model.source == name]
    if not found:
        found = [model for model in models if wanted in map(str.lower, model.aliases)]
    if not found:
        found = [model for model in models if _begins(model, wanted)]
    if len({model.path.resolve() for model in found}) > 1:
        hint = f"Write one of {', '.join(model.source for model in found)}"
        raise ModelError(f"{name} may be {len(found)} models", hint=hint)
    return _choose_file(found[0]) if found else None


def _begins(model: LocalModel, wanted: str) -> bool:
    return any(alias.lower().startswith(wanted) for alias in model.aliases)


def _choose_file(model: LocalModel) -> Path:
    """Returns the file of a model; of several versions in the Hub's cache, the newest."""
    if model.program == HUGGING_FACE:
        from constrained.engine.model_files.hub import fetch

        return fetch(model.name, offline=True)
    return model.path


def suggest_source(source: str) -> str:
    """Suggests what to write in place of a name that no model has."""
    names: dict[str, str] = {}
    for model in list_known():
        for alias in model.aliases:
            names.setdefault(alias.lower(), model.source)
    near = get_close_matches(source.lower(), names, n=3)
    if near:
        meant = dict.fromkeys(names[name] for name in near)
        return f"Did you mean {' or '.join(meant)}? `constrained models` lists all; {_DOWNLOAD}"
    if _OF_THE_HUB.fullmatch(source):
        return f"Check the path; a model of the Hugging Face Hub is -hf {source}, or hf:{source}"
    nearest = dict.fromkeys(
        names[name] for name in get_close_matches(source.lower(), names, n=3, cutoff=0)
    )
    return f"Check the path; here are {', '.join(nearest)} (`constrained models`); {_DOWNLOAD}"
