"""The steps of a Dockerfile without Docker: each stage in a chroot that debootstrap makes.

    sudo python3 .ci/build_in_chroot.py examples/deploy/Dockerfile FOLDER

Where no Docker engine runs, this tells whether the steps work. It knows what our Dockerfile uses:
ARG, FROM, RUN, WORKDIR, COPY, ENV, USER. It leaves out the rest, which is about running. The images
that it begins with have to be Debian's. Variables of the environment whose names begin with PIP_
and certificates of this machine are handed on. At the end what was built answers once, and serves
until its HEALTHCHECK is content; its port has to be free.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

IMAGE = re.compile(r"debian:(?P<suite>\w+)(-slim)?")
MIRROR = "http://deb.debian.org/debian"
PATIENCE = 120  # seconds until a server is healthy
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def read_steps(path: Path) -> list[tuple[str, str]]:
    """Instructions and their arguments; continued lines are one, comments are left out."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    steps: list[tuple[str, str]] = []
    for line in text.splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction:
            steps.append((instruction, arguments.strip()))
    return steps


class Build:
    """The build under way.

    Args:
        context: the folder that COPY copies from.
        folder: where the stages are made, each a folder of its name.
    """

    def __init__(self, context: Path, folder: Path):
        self._context = context
        self._folder = folder
        self._variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self._root = folder
        self._stages: dict[str, Path] = {}
        self._work = "/"
        self.user = "root"
        self.entry: list[str] = []
        self.health: list[str] = []

    def carry_out(self, instruction: str, arguments: str) -> None:
        """One step; what is only of use to Docker is left out."""
        match instruction:
            case "ARG" | "ENV":
                for assignment in shlex.split(arguments):
                    name, _, value = assignment.partition("=")
                    self._variables[name] = self._expand(value)
            case "FROM":
                self._begin(self._expand(arguments))
            case "WORKDIR":
                self._work = arguments
                (self._root / arguments.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(arguments.split())
            case "RUN":
                self.run(["sh", "-ec", arguments])
            case "USER":
                self.user = arguments
            case "ENTRYPOINT":
                self.entry = json.loads(arguments)
            case "HEALTHCHECK":
                self.health = json.loads(arguments.partition(" CMD ")[2])
            case _:
                print(f"left out: {instruction} {arguments}")

    def run(self, command: list[str], user: str = "root") -> None:
        """Runs a command in the stage."""
        subprocess.run(self._enter(command, user), check=True)

    def serve(self) -> None:
        """Starts what the container starts, for this machine alone, and waits until it is healthy.

        Raises:
            SystemExit: it never is.
        """
        command = self._enter([*self.entry, "--host", "127.0.0.1"], self.user)
        check = self._enter(self.health, self.user)
        begun = time.monotonic()
        with subprocess.Popen(command) as server:
            try:
                while subprocess.run(check, capture_output=True, check=False).returncode:
                    if server.poll() is not None or time.monotonic() - begun > PATIENCE:
                        raise SystemExit("the server is not healthy")
                    time.sleep(1)
            finally:
                server.terminate()

    def _enter(self, command: list[str], user: str) -> list[str]:
        """The command line that runs a command in the stage."""
        handed_on = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        variables = {**handed_on, **self._variables}
        assignments = [f"{name}={value}" for name, value in variables.items()]
        inside = ["env", "-i", *assignments, "sh", "-c", 'cd "$0" && exec "$@"', self._work]
        return ["chroot", f"--userspec={user}", str(self._root), *inside, *command]

    def _expand(self, text: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda found: self._variables.get(found[1], ""), text)

    def _begin(self, arguments: str) -> None:
        image, _, name = arguments.partition(" AS ")
        found = IMAGE.fullmatch(image)
        if found is None:
            raise SystemExit(f"{image} is no image of Debian's")
        self._root = self._folder / (name or "final")
        self._work, self.user = "/", "root"
        self._stages[name] = self._root
        suite = found["suite"]
        base = self._folder / "base"
        if not base.exists():
            command = ["debootstrap", "--variant=minbase", "--include=ca-certificates"]
            subprocess.run([*command, suite, base, MIRROR], check=True)
        subprocess.run(["cp", "-a", base, self._root], check=True)
        for file in (Path("/etc/resolv.conf"), CERTIFICATES):
            if file.exists():
                shutil.copy(file, self._root / str(file).lstrip("/"))

    def _copy(self, arguments: list[str]) -> None:
        origin = self._context
        if arguments[0].startswith("--from="):
            origin = self._stages[arguments.pop(0).removeprefix("--from=")]
        *sources, target = arguments
        place = self._root / self._work.lstrip("/") / target
        if target.startswith("/"):
            place = self._root / target.lstrip("/")
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(found, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy(found, place)


def main() -> None:
    """Builds, and has the result answer once, as the user of the container."""
    parser = argparse.ArgumentParser(description="The steps of a Dockerfile in chroots.")
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument(
        "folder", type=Path, help="is made; a folder `base` in it is taken as it is"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    build = Build(Path.cwd(), options.folder.absolute())
    for instruction, arguments in read_steps(options.dockerfile):
        print(f"{instruction} {arguments}", flush=True)
        build.carry_out(instruction, arguments)
    build.run([build.entry[0], "--version"], user=build.user)
    build.run([build.entry[0], "call", "Hello!"], user=build.user)
    build.serve()


if __name__ == "__main__":
    main()
