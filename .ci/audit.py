"""Known advisories about the packages of requirements.lock, by pip-audit.

    make audit

The code is 1 if there are some. Where no index of advisories answers, a line says so.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 120


def main() -> int:
    """Asks, and prints what is known."""
    command = [str(Path(sys.executable).with_name("pip-audit")), "--format", "json"]
    command += ["--disable-pip", "--require-hashes", "-r", str(ROOT / "requirements.lock")]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        packages = json.loads(asked.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, OSError) as error:
        print(f"advisories: skipped, no index of them answers ({type(error).__name__})")
        return 0
    known = [package for package in packages if "vulns" in package]
    if not known:  # a mirror of the package index need not have advisories
        print(f"advisories: skipped, the index has none of {len(packages)} packages")
        return 0
    found = 0
    for package in known:
        for advisory in package["vulns"]:
            found += 1
            fixed = ", ".join(advisory["fix_versions"]) or "nowhere yet"
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")
    unknown = len(packages) - len(known)
    print(f"advisories: {found} in {len(known)} packages; {unknown} are not known to the index")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
