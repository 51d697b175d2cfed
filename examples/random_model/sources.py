"""Real vocabularies and chat templates, from the source distribution of llama-cpp-python.

llama.cpp keeps them in its `models/` directory. The source distribution of the installed version
is fetched once from the package index, without building it, and only that directory is kept.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

from examples.random_model.package_index import (
    SourceUnavailable,
    find_sdist,
    index_url,
    read,
    without_password,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["SourceUnavailable", "models_directory", "template", "vocabulary_file"]

PACKAGE = "llama-cpp-python"
MODELS = "vendor/llama.cpp/models/"


def models_directory() -> Path:
    """Returns llama.cpp's `models/` directory as of the installed llama-cpp-python.

    The first call downloads the source distribution (some 80 MB) into the cache directory
    (`$XDG_CACHE_HOME/constrained` or `~/.cache/constrained`); later calls use no network.

    Raises:
        SourceUnavailable: the package index cannot be reached or lacks the version.
        RuntimeError: what came is not what the index announced.
        importlib.metadata.PackageNotFoundError: llama-cpp-python is not installed.
    """
    release = version(PACKAGE).partition("+")[0]  # "+cu124" names a build of the same sources
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "constrained"
    target = cache / f"{PACKAGE}-{release}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _only_one(target.with_name(f"{target.name}.lock")):
            # Another process may have brought it while this one waited.
            if not target.exists():
                _fetch(release, target)
    return target / "models"


def template(name: str) -> str:
    """Returns the text of llama.cpp's chat template `name`, such as "Qwen-Qwen3-0.6B".

    Raises:
        FileNotFoundError: there is no such template.
        SourceUnavailable: see `models_directory`.
    """
    directory = models_directory() / "templates"
    path = directory / f"{name.removesuffix('.jinja')}.jinja"
    return _existing(path).read_text(encoding="utf-8")


def vocabulary_file(name: str) -> Path:
    """Returns llama.cpp's vocabulary-only GGUF file `name`, such as "qwen2".

    Raises:
        FileNotFoundError: there is no such vocabulary.
        SourceUnavailable: see `models_directory`.
    """
    return _existing(models_directory() / f"ggml-vocab-{name}.gguf")


def _existing(path: Path) -> Path:
    if path.is_file():
        return path
    names = ", ".join(sorted(other.name for other in path.parent.glob(f"*{path.suffix}")))
    raise FileNotFoundError(f"no {path.name} in {path.parent}; there are: {names}")


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    # Saves the other processes a download. Correctness does not hang on it: the finished
    # directory is moved into place in one step.
    with lock.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(release: str, target: Path) -> None:
    sdist = find_sdist(index_url(), PACKAGE, release)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}-") as temporary,
        tempfile.TemporaryFile() as archive,
    ):
        digest = hashlib.sha256()
        for chunk in read(sdist.url):
            digest.update(chunk)
            archive.write(chunk)
        if digest.hexdigest() != sdist.sha256:
            raise RuntimeError(
                f"{without_password(sdist.url)} has the sha256 {digest.hexdigest()}, but the "
                f"package index says {sdist.sha256}. Nothing was kept; try again, or use another "
                "index (PIP_INDEX_URL)"
            )
        archive.seek(0)
        unpacked = Path(temporary) / "unpacked"
        _unpack_models(archive, unpacked / "models")
        _move(unpacked, target)


def _unpack_models(archive: IO[bytes], directory: Path) -> None:
    directory.mkdir(parents=True)
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in tar:
            name = member.name.partition("/")[2]  # without "llama_cpp_python-<version>/"
            if member.isfile() and name.startswith(MODELS):
                inside = member.replace(name=name.removeprefix(MODELS))
                tar.extract(inside, directory, filter="data")
    if not any(directory.iterdir()):
        raise RuntimeError(f"the source distribution of {PACKAGE} has no {MODELS}")


def _move(directory: Path, target: Path) -> None:
    try:
        os.replace(directory, target)
    except OSError:
        # Another process was first (no lock on this system): its copy is as good.
        if not target.is_dir():
            raise
        shutil.rmtree(directory)
