"""Finds or downloads the file of a model."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from constrained.errors import ModelError
from constrained.model_files.known_models import find_known, suggest_source
from constrained.model_files.packaged import find_packaged

HUB = "hf:"


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
    """Returns the path of a file."""
    if not path.exists():
        message = f"{path} cannot be read: No such file or directory"
        raise ModelError(message, hint=suggest_source(str(path)))
    return path
