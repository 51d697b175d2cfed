"""Finds or downloads the file of a model."""

import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from constrained.errors import ModelError
from constrained.model_files.local_models import (
    HUGGING_FACE,
    PACKAGE,
    LocalModel,
    list_local,
)
from constrained.model_files.packaged import find_packaged, list_packaged

HUB = "hf:"


_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
_OTHERS = "`constrained models` lists all; hf:USER/REPO[:QUANT] downloads one"


def list_known() -> list[LocalModel]:
    """Lists the models of packages, of the Hub's cache, and of other programs; of several with the
    same source, the first."""
    from constrained.model_files.hub_cache import list_cached

    packaged = [
        LocalModel(PACKAGE, name, path, path.stat().st_size) for name, path in list_packaged()
    ]
    models: dict[str, LocalModel] = {}
    for model in [*packaged, *list_cached(), *list_local()]:
        models.setdefault(model.source, model)
    return list(models.values())


def find_known(name: str) -> Path | None:
    """Returns the file of the model on this machine with this name: its source, another of its
    names in any case, or the beginning of one; None: there is none."""
    models = list_known()
    wanted = name.lower()
    found = [model for model in models if model.source == name]
    if not found:
        found = [model for model in models if wanted in model.aliases]
    if not found:
        for model in models:
            if any(alias.startswith(wanted) for alias in model.aliases):
                found.append(model)
    if not found:
        return None
    if len({model.path.resolve() for model in found}) > 1:
        hint = f"Write one of {', '.join(model.source for model in found)}"
        raise ModelError(f"{name} may be {len(found)} models", hint=hint)
    if found[0].program == HUGGING_FACE:  # of several versions, the newest
        from constrained.model_files.hub import fetch

        return fetch(found[0].source, offline=True)
    return found[0].path


def suggest_source(source: str) -> str:
    """Suggests what to write in place of a name that no model has."""
    names: dict[str, str] = {}
    for model in list_known():
        names |= dict.fromkeys(model.aliases, model.source)

    def find_near(cutoff: float) -> list[str]:
        near = get_close_matches(source.lower(), names, n=3, cutoff=cutoff)
        return list(dict.fromkeys(names[name] for name in near))

    if near := find_near(0.6):
        return f"Did you mean {' or '.join(near)}? {_OTHERS}"
    if _OF_THE_HUB.fullmatch(source):
        return f"Check the path; a model of the Hugging Face Hub is -hf {source}, or hf:{source}"
    return f"Check the path; models here: {', '.join(find_near(0))}; {_OTHERS}"


def find_source(
    source: str | os.PathLike[str],
    *,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Returns the file of a model; downloads it from the Hugging Face Hub if necessary.

    Args:
        source: a GGUF file; `hf:user/repo[:quant]`; a name that `constrained models` lists, such as
            `demo` or `ollama:qwen3:8b`, or the beginning of one. A file goes before a name, and a
            name before the beginning of another.
        token, offline: see `load`.
        progress: gets the downloaded fraction, 0 to 1.

    Raises:
        ModelError: there is no such model, the name fits several, or the download failed.
    """
    if not isinstance(source, str) or Path(source).is_file():
        return _check_file(Path(source))
    if source.startswith(HUB):
        from constrained.model_files.hub import fetch

        report = None
        if progress is not None:
            report = partial(_report_part, progress)
        return fetch(source, token=token, offline=offline, progress=report)
    try:
        packaged = find_packaged(source)
    except ModelError:  # its package is not installed; another program may have one of that name
        known = find_known(source)
        if known is None:
            raise
        return known
    return packaged or find_known(source) or _check_file(Path(source))


def _report_part(progress: Callable[[float], None], done: int, whole: int) -> None:
    progress(done / whole if whole else 1.0)


def _check_file(path: Path) -> Path:
    if not path.exists():
        message = f"{path} cannot be read: No such file or directory"
        raise ModelError(message, hint=suggest_source(str(path)))
    return path
