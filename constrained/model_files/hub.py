"""Models of the Hugging Face Hub by name, in the form of llama-server's `-hf`.

Files are in the cache that huggingface_hub shares with all other programs (HF_HOME, HF_HUB_CACHE).
HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE have the same meaning as there.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from huggingface_hub import HfApi, constants, errors, hf_hub_download

# The base of its errors is the base of its HTTP client's errors, which it does not export.
from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import tqdm

from constrained.engine.gguf.weights import QUANTISATION
from constrained.errors import ModelError, RequestError

PREFERRED = ("Q4_K_M", "Q4_0", "Q4_K_S", "IQ4_NL", "IQ4_XS", "MXFP4", "Q8_0")
"""The order in which a quantisation is chosen if the name has none; otherwise the first file by
name."""

TIMEOUT = 10  # seconds, for the list of files; huggingface_hub has the same for other requests
SPEC = re.compile(r"(?:hf:)?([\w.-]+/[\w.-]+)(?::(.+))?", re.ASCII)
PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
# Projectors, importance matrices and draft models, which llama-server does not take either.
NO_MODEL = re.compile(r".*(mmproj|imatrix)|(mtp|eagle3|dflash|dspark)-", re.IGNORECASE)

AGAIN = "Check the network, then run it again"
ACCESS = "give the token of an account with access to it (--hf-token, HF_TOKEN)"


def fetch(
    spec: str,
    *,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] | None = None,
    endpoint: str | None = None,
) -> Path:
    """Finds a model on the Hub or in the cache, and downloads it if it is not in the cache.

    Args:
        spec: `user/repo`, which takes the first of PREFERRED, else the first GGUF by name;
            `user/repo:quant`, a quantisation in the spelling of the file names, in any case;
            `user/repo:path.gguf`, a file of the repository. May begin with `hf:`.
        token: of an account that may read the repository; None for HF_TOKEN or the saved login.
        offline: use only the cache. The cache is also used if the Hub cannot be reached.
        progress: called with the downloaded bytes and the total.
        endpoint: the address of the Hub; None for HF_ENDPOINT, else https://huggingface.co.

    Returns:
        The file to load; of a split model, the first part, with the others in the same folder.
    """
    repo, wanted = split_spec(spec)
    hub = _Hub(repo, token, endpoint or constants.ENDPOINT)
    if offline or constants.HF_HUB_OFFLINE:
        return _find_cached(hub.repo, wanted, "offline mode forbids asking the Hub")
    try:
        files = hub.list_files()
    except _UnreachableError as e:
        return _find_cached(hub.repo, wanted, e.message)
    parts = choose(files, wanted, f"the repository {hub.repo}")
    return hub.download(parts, files, progress)


def split_spec(spec: str) -> tuple[str, str]:
    """Splits the name of a model into the repository and the rest, which may be ""."""
    match = SPEC.fullmatch(spec)
    if match is None:
        hint = "Write user/repo, user/repo:quant or user/repo:file.gguf"
        raise RequestError(f"{spec!r} does not name a model of the Hub", hint=hint)
    return match[1], match[2] or ""


def choose(files: Iterable[str], wanted: str, location: str) -> tuple[str, ...]:
    """Chooses a model from the files of a repository. Returns its path, or the paths of all its
    parts.

    Args:
        wanted: a quantisation, a path or file name ending in `.gguf`, or "".
    """
    models = _models(files)
    if not wanted:
        fitting = sorted(models, key=lambda path: (_rank(path), path))
    elif wanted.lower().endswith(".gguf"):
        fitting = [path for path in sorted(models) if _has_file(models[path], wanted)]
        fitting.sort(key=lambda path: wanted not in models[path])  # a full path before a file name
    else:
        fitting = [path for path in sorted(models) if _has_quant(path, wanted)]
    if fitting:
        return models[fitting[0]]
    if not models:
        hint = "Use a repository with GGUF files; their names often end in -GGUF"
        raise ModelError(f"there is no GGUF model in {location}", hint=hint)
    hint = f"Available: {', '.join(_name_models(models))}"
    raise ModelError(f"there is no {wanted} in {location}", hint=hint)


def _models(files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the models among the files: the path of the (first) part -> all parts."""
    present = {file for file in files if file.lower().endswith(".gguf")}
    models: dict[str, tuple[str, ...]] = {}
    for path in present:
        if NO_MODEL.match(path.rpartition("/")[2]):
            continue
        parts = _name_parts(path)
        if parts and present.issuperset(parts):
            models[parts[0]] = parts
    return models


def _name_parts(path: str) -> tuple[str, ...]:
    """Returns all parts of the model that a file belongs to, by llama.cpp's names of split
    models."""
    match = PART.fullmatch(path)
    if match is None:
        return (path,)
    stem, _, count = match.groups()
    return tuple(f"{stem}-{number:05}-of-{count}.gguf" for number in range(1, int(count) + 1))


def _name_models(models: Iterable[str]) -> list[str]:
    """Returns the quantisations of the models; or their paths, if one has no quantisation in its
    name."""
    quants: set[str] = set()
    for path in models:
        found = QUANTISATION.findall(path)
        if not found:
            return sorted(models)
        quants.add(found[-1])
    return sorted(quants)


def name_models(files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the models among the files of a repository, each with the paths of its parts, by the
    shortest name that `choose` understands: the quantisation, or the path if two models have the
    same one."""
    present = set(files)
    models = _models(present)
    named: dict[str, tuple[str, ...]] = {}
    for path, parts in models.items():
        quants = QUANTISATION.findall(path)
        name = quants[-1] if quants else path
        if choose(present, name, "") != parts:
            name = path
        named[name] = parts
    return named


def _has_quant(path: str, quant: str) -> bool:
    found = re.search(rf"(?<![a-z0-9]){re.escape(quant)}[.\-/]", path, re.IGNORECASE)
    return found is not None


def _has_file(parts: tuple[str, ...], name: str) -> bool:
    return any(part == name or part.endswith(f"/{name}") for part in parts)


def _rank(path: str) -> int:
    for rank, quant in enumerate(PREFERRED):
        if _has_quant(path, quant):
            return rank
    return len(PREFERRED)


def _find_cached(repo: str, wanted: str, reason: str) -> Path:
    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model")
    found: dict[str, Path] = {}
    for snapshot in _snapshots(folder):
        files = [p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()]
        for parts in _models(files).values():
            for part in parts:
                found.setdefault(part, snapshot / part)
    if not found:
        message = f"{repo} is not in the cache {constants.HF_HUB_CACHE}, and {reason}"
        raise ModelError(message, hint="Download it once while online, or load a file with -m")
    return found[choose(found, wanted, f"the cache of {repo}, and {reason}")[0]]


def _snapshots(folder: Path) -> list[Path]:
    """Returns the cached versions of a repository, the newest first."""
    head = folder / "refs" / "main"
    newest = ""
    if head.is_file():
        newest = head.read_text().strip()

    def rank(snapshot: Path) -> tuple[bool, float]:
        return snapshot.name == newest, snapshot.stat().st_mtime

    return sorted(folder.glob("snapshots/*/"), key=rank, reverse=True)


class _UnreachableError(ModelError):
    """The Hub does not answer, or the connection breaks."""


@dataclass(frozen=True)
class _RemoteFile:
    """A file of the Hub: its size, and its SHA-256 if it is one of the large ones."""

    bytes: int
    sha256: str | None


@dataclass(frozen=True)
class _Hub:
    """A repository on the Hub, and how to access it."""

    repo: str
    token: str | None
    endpoint: str

    def list_files(self) -> dict[str, _RemoteFile]:
        with self._failures():
            api = HfApi(endpoint=self.endpoint, token=self.token)
            info = api.model_info(self.repo, files_metadata=True, timeout=TIMEOUT)
        files: dict[str, _RemoteFile] = {}
        for file in info.siblings or ():
            sha256 = None if file.lfs is None else file.lfs.sha256
            files[file.rfilename] = _RemoteFile(file.size or 0, sha256)
        return files

    def download(
        self,
        parts: Sequence[str],
        files: Mapping[str, _RemoteFile],
        progress: Callable[[int, int], None] | None,
    ) -> Path:
        """Downloads the files that are not in the cache; returns the path of the first one."""
        counted = _Progress(sum(files[part].bytes for part in parts), progress)
        snapshots: set[Path] = set()
        for part in parts:
            path = self._download_file(part, counted)
            if counted.is_downloading:
                self._check_file(path, part, files[part])
            counted.finish(files[part].bytes)
            snapshots.add(path.parents[part.count("/")])
        if len(snapshots) > 1:
            raise ModelError(f"{self.repo} changed while it was downloaded", hint="Run it again")
        return snapshots.pop() / parts[0]

    def _download_file(self, name: str, progress: "_Progress") -> Path:
        try:
            with self._failures():
                path = hf_hub_download(
                    self.repo,
                    name,
                    token=self.token,
                    endpoint=self.endpoint,
                    tqdm_class=progress.make_bar(),
                )
        except _UnreachableError as e:
            message = f"the download of {name} from {self.repo} broke off: {e.message}"
            raise ModelError(message, hint=AGAIN) from e
        return Path(path)

    def _check_file(self, path: Path, name: str, file: _RemoteFile) -> None:
        """Compares a downloaded file with its hash; huggingface_hub compares only its size."""
        if file.sha256 is None:
            return
        with path.open("rb") as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
        if found != file.sha256:
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            message = f"the download of {name} from {self.repo} is damaged: its SHA-256 is {found}"
            raise ModelError(f"{message}, the Hub has {file.sha256}", hint="Run it again")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Converts errors of huggingface_hub to errors that say what to do."""
        try:
            yield
        except errors.GatedRepoError as e:
            hint = f"Accept its terms at {self.endpoint}/{self.repo}, then {ACCESS}"
            raise ModelError(f"{self.repo} is gated", hint=hint) from e
        except errors.RepositoryNotFoundError as e:
            message = f"there is no repository {self.repo} at {self.endpoint}, or it is private"
            raise ModelError(message, hint=f"Check the name, or {ACCESS}") from e
        except errors.HfHubHTTPError as e:
            raise self._refused(e.response.status_code) from e
        except (HTTPError, errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as e:
            message = f"{self.endpoint} does not answer: {_first_line(e.__cause__ or e)}"
            raise _UnreachableError(message) from e
        except (OSError, ValueError) as e:  # a full disk, a truncated file, an unexpected reply
            raise ModelError(
                f"{self.repo} cannot be downloaded: {_first_line(e)}", hint=AGAIN
            ) from e

    def _refused(self, status: int) -> ModelError:
        if status >= 500 or status in (408, 429):  # a temporary error: a cached model can be used
            return _UnreachableError(f"{self.endpoint} answers with status {status}")
        hint = AGAIN
        if status in (401, 403):
            hint = f"Check the token, or {ACCESS}"
        return ModelError(f"{self.endpoint} refuses {self.repo} with status {status}", hint=hint)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


class _Progress:
    """Adds up the downloaded bytes of several files."""

    def __init__(self, size: int, report: Callable[[int, int], None] | None):
        self._size, self._report = size, report
        self._finished = self._current = 0  # bytes: of complete files, of the current one

    @property
    def is_downloading(self) -> bool:
        """True if bytes of the current file have arrived, so it was not in the cache."""
        return self._current > 0

    def finish(self, size: int) -> None:
        """Counts a complete file of this size, downloaded or found in the cache."""
        self._finished += size
        self._current = 0
        self.add(0)

    def add(self, size: int) -> None:
        """Counts more bytes of the current file."""
        self._current += size
        if self._report is not None:
            self._report(min(self._finished + self._current, self._size), self._size)

    def make_bar(self) -> type["_Bar"]:
        """Makes a class for huggingface_hub, which creates a progress bar of it for each file."""
        return type("_Bar", (_Bar,), {"progress": self})


class _Bar(tqdm):
    progress: ClassVar[_Progress]

    def __init__(self, *_: Any, **options: Any):
        super().__init__(disable=True, total=options.get("total"))  # shows nothing
        self.update(options.get("initial", 0))

    def update(self, n: float | None = 1) -> None:
        self.progress.add(int(n or 0))

    def update_transfer(self, n: float | None = 1) -> None:
        """Ignores bytes of the network, since `update` counts those on the disk."""
