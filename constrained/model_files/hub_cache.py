"""Lists and removes models of the Hugging Face Hub in the cache of this machine.

The cache is that of huggingface_hub, which other programs share. A repository has versions
(snapshots) with links to blobs; if a file did not change, several versions link to the same blob.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from constrained.errors import ModelError, RequestError
from constrained.model_files.hub import choose, name_models, split_spec
from constrained.model_files.local_models import HUGGING_FACE, LocalModel


@dataclass(frozen=True, kw_only=True)
class CachedModel(LocalModel):
    """A model of the Hub on this machine; its name is that for `fetch`, its size that of all its
    versions.

    Attributes:
        repo: the repository, `user/repo`.
        files: paths in the repository; several, if the model is split.
    """

    repo: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class _CachedFile:
    links: frozenset[Path]
    blobs: frozenset[Path]
    bytes: int
    used: float


@dataclass(frozen=True)
class _CachedRepo:
    name: str
    folder: Path
    files: dict[str, _CachedFile]


def list_cached() -> list[CachedModel]:
    """Lists the complete models of the Hub on this machine, by name."""
    models: list[CachedModel] = []
    for repo in _scan():
        for variant, paths in name_models(repo.files).items():
            files = [repo.files[path] for path in paths]
            size, used = sum(file.bytes for file in files), max(file.used for file in files)
            name, path = f"{repo.name}:{variant}", min(files[0].links)
            model = CachedModel(HUGGING_FACE, name, path, size, used, repo=repo.name, files=paths)
            models.append(model)
    return sorted(models, key=lambda model: model.name)


def remove_cached(spec: str) -> CachedModel:
    """Removes a model of the Hub from this machine, in all its versions.

    Args:
        spec: as for `fetch`. The repository alone is enough if it has only one cached model.
    """
    name, wanted = split_spec(spec)
    there = [model for model in list_cached() if model.repo == name]
    if not there:
        hint = "`constrained models` lists what is on this machine"
        raise ModelError(f"{name} is not on this machine", hint=hint)
    if not wanted and len(there) > 1:
        hint = f"Write one of {', '.join(model.name for model in there)}"
        raise RequestError(f"there are {len(there)} models of {name}", hint=hint)
    paths = [path for model in there for path in model.files]
    files = choose(paths, wanted, f"the cache of {name}")
    [model] = [model for model in there if model.files == files]
    [repo] = [repo for repo in _scan() if repo.name == name]
    try:
        _remove(repo, model.files)
    except OSError as error:
        raise ModelError(f"{model.name} cannot be removed: {error}") from error
    return model


def _remove(repo: _CachedRepo, paths: Iterable[str]) -> None:
    gone = {path: repo.files[path] for path in paths}
    kept = [file for path, file in repo.files.items() if path not in gone]
    if not kept:
        shutil.rmtree(repo.folder)
        return
    blobs = {blob for file in gone.values() for blob in file.blobs}
    needed = {blob for file in kept for blob in file.blobs}
    for link in (link for file in gone.values() for link in file.links):
        link.unlink()
    for blob in blobs - needed:
        blob.unlink(missing_ok=True)  # without links, the file is its own blob


def _scan() -> list[_CachedRepo]:
    try:
        scanned = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:  # nothing was ever downloaded
        return []
    repos: list[_CachedRepo] = []
    for repo in scanned:
        if repo.repo_type != "model":
            continue
        links = defaultdict[str, set[Path]](set)
        blobs = defaultdict[str, dict[Path, int]](dict)
        used: dict[str, float] = {}
        for revision in repo.revisions:
            for file in revision.files:
                path = file.file_path.relative_to(revision.snapshot_path).as_posix()
                links[path].add(file.file_path)
                blobs[path][file.blob_path] = file.size_on_disk
                used[path] = max(used.get(path, 0.0), file.blob_last_accessed)
        files: dict[str, _CachedFile] = {}
        for path, sizes in blobs.items():
            size = sum(sizes.values())
            files[path] = _CachedFile(frozenset(links[path]), frozenset(sizes), size, used[path])
        repos.append(_CachedRepo(repo.repo_id, repo.repo_path, files))
    return repos
