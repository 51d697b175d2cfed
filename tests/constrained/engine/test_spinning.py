"""How long threads of llama.cpp spin where they wait for each other."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "wanted"), [(None, "2000"), ("7000", "7000")])
def test_openmp_gets_the_number_before_it_is_loaded(given: str | None, wanted: str) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "GOMP_SPINCOUNT"}
    environment["OMP_DISPLAY_ENV"] = "verbose"
    if given is not None:
        environment["GOMP_SPINCOUNT"] = given
    command = [sys.executable, "-c", "import constrained.engine.llamacpp"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if "GOMP" not in done.stderr:
        pytest.skip("llama.cpp is built without GNU's OpenMP")
    assert f"GOMP_SPINCOUNT = '{wanted}'" in done.stderr
