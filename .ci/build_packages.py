"""Builds the sdist, and the wheel from it, and checks them, for `make dist`.

    python .ci/build_packages.py FOLDER

Both hold the files of our packages that git knows, and nothing else: no tests, no leftovers. The
description that the package index shows has no link to a file, which would lead nowhere there.
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("grammars", "constrained", "server")
BESIDE = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
"""What else an sdist has."""
RELATIVE_LINK = re.compile(r"\]\((?!https?:|#)[^)]*\)|(?:src|href)=[\"'](?!https?:|#)[^\"']*")


def list_tracked() -> set[str]:
    """The files of our packages that git knows."""
    command = ["git", "ls-files", "-z", *PACKAGES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(listed.split("\0")) - {""}


def read_wheel(path: Path) -> set[str]:
    """The files of a wheel, but for those that describe it."""
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def read_sdist(path: Path) -> set[str]:
    """The files of an sdist, relative to its folder."""
    with tarfile.open(path) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def compare(path: Path, found: set[str], expected: set[str]) -> None:
    """Ends the program where a package holds too much or too little."""
    lines = [f"{path.name} lacks {name}" for name in sorted(expected - found)]
    lines += [f"{path.name} should not have {name}" for name in sorted(found - expected)]
    if lines:
        raise SystemExit("\n".join(lines))


def check_description(wheel: Path) -> None:
    """Ends the program if the long description is missing or has a relative link or picture."""
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        description = files.read(name).decode("utf-8").partition("\n\n")[2]
    links = RELATIVE_LINK.findall(description)
    if links or not description.startswith("# "):
        raise SystemExit(f"{wheel.name}: relative links in the description: {links}")


def main() -> None:
    """Builds and checks in the folder that the command line names."""
    folder = Path(sys.argv[1])
    for old in folder.glob("constrained_calls-*"):
        old.unlink()
    build = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    check_description(wheel)
    tracked = list_tracked()
    compare(wheel, read_wheel(wheel), tracked)
    compare(sdist, read_sdist(sdist), tracked | BESIDE)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    subprocess.run([sys.executable, "-m", "check_wheel_contents", wheel], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
