"""How long threads of llama.cpp spin where they wait for each other."""

import os
import subprocess
import sys

import pytest

NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, "2000"),
        ({"GOMP_SPINCOUNT": "7000"}, "7000"),
        ({"OMP_WAIT_POLICY": "passive"}, "0"),
    ],
)
def test_openmp_gets_the_number_before_it_is_loaded(given: dict[str, str], count: str) -> None:
    environment = {name: text for name, text in os.environ.items() if name not in NAMES}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **given}
    command = [sys.executable, "-c", "import constrained.engine.llamacpp"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if "GOMP" not in done.stderr:
        pytest.skip("llama.cpp is built without GNU's OpenMP")
    assert f"GOMP_SPINCOUNT = '{count}'" in done.stderr
