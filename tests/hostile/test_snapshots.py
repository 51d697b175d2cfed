"""A snapshot folder that somebody else has written to."""

import json
import os
from pathlib import Path

import pytest

from constrained.decode.kv.snapshot_files import MAGIC, PREFIX, SnapshotFiles
from constrained.errors import RequestError
from tests.hostile.attacked import run_attack

NAME = "0" * 32 + "-" + "1" * 32 + ".snapshot"
LOAD = """
import sys
from pathlib import Path
from constrained.decode.kv.snapshot_files import SnapshotFiles
files = SnapshotFiles(Path(sys.argv[1]), "model", 1 << 30)
print(len(files.outlines()))
"""


def load(folder: Path) -> str:
    """What a process with little memory finds in the folder."""
    done = run_attack(LOAD, [str(folder)])
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_what_is_no_regular_file_is_a_miss(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_bytes(MAGIC)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / NAME)
    (folder / NAME.replace("1", "2")).symlink_to(outside)
    (folder / NAME.replace("1", "3")).symlink_to("/dev/zero")
    (folder / NAME.replace("1", "4")).symlink_to(folder / NAME)
    (folder / NAME.replace("1", "5")).mkdir()
    assert load(folder) == "0"


@pytest.mark.parametrize("text", ["[" * 500_000, '{"a":' * 100_000, "9" * 900_000, "nul", "[]"])
def test_a_header_that_is_none_is_a_miss(tmp_path: Path, text: str):
    (tmp_path / NAME).write_bytes(PREFIX.pack(MAGIC, bytes(32), len(text)) + text.encode())
    tmp_path.chmod(0o700)
    assert load(tmp_path) == "0"


@pytest.mark.parametrize("count", [10**7, 10**9, 10**10, 10**18])
def test_a_sparse_file_is_a_miss(tmp_path: Path, count: int):
    header = {
        "fingerprint": "model",
        "tokens": count,
        "in_blocks": 0,
        "is_pinned": False,
        "state": 0,
        "checkpoints": [],
    }
    text = json.dumps(header).encode()
    with (tmp_path / NAME).open("wb") as file:
        file.write(PREFIX.pack(MAGIC, bytes(32), len(text)) + text)
        file.truncate(min(file.tell() + 4 * count, 1 << 40))
    tmp_path.chmod(0o700)
    assert load(tmp_path) == "0"


def test_a_folder_that_existed_becomes_private(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o777)
    damaged = folder / NAME
    damaged.write_bytes(MAGIC)
    damaged.chmod(0o666)
    SnapshotFiles(folder, "model", 1 << 20)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert damaged.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_use_is_left_to_them(tmp_path: Path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="other users can access"):
        SnapshotFiles(folder, "model", 1 << 20)
    assert folder.stat().st_mode & 0o777 == 0o755
