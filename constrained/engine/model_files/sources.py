"""Finds or downloads the file of a model."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from constrained.engine.model_files.packaged import find_file

HUB = "hf:"


def find_source(
    source: str | os.PathLike[str],
    *,
    token: str | None,
    offline: bool,
    progress: Callable[[float], None] | None,
) -> Path:
    """Returns the file of a model; downloads it from the Hugging Face Hub if necessary.

    Args:
        source: a GGUF file, the name of a model in a package, or `hf:user/repo[:quant]`.
        token, offline: see `load`.
        progress: gets the downloaded fraction, 0 to 1.

    Raises:
        ModelError: there is no such file, or the download failed.
    """
    if isinstance(source, str) and source.startswith(HUB):
        from constrained.engine.model_files.hub import fetch

        report = None
        if progress is not None:
            report = partial(_report_part, progress)
        return fetch(source, token=token, offline=offline, progress=report)
    return find_file(source)


def _report_part(progress: Callable[[float], None], done: int, whole: int) -> None:
    progress(done / whole if whole else 1.0)
