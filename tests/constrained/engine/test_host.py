"""What the machine tells."""

from pathlib import Path

import pytest

from constrained.engine import host

HERE = Path("/proc/meminfo")


@pytest.mark.skipif(not HERE.exists(), reason="only Linux tells the memory that is available")
def test_memory_is_at_most_what_the_container_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    alone = host.available_memory()
    assert alone is not None
    assert alone > 1 << 20
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    unlimited = host.available_memory()
    assert unlimited is not None
    assert unlimited > 1 << 20
    (tmp_path / "memory.max").write_text("5000\n")
    assert host.available_memory() == 4000
    (tmp_path / "memory.max").write_text("500\n")
    assert host.available_memory() == 0


def test_what_is_no_linux_does_not_tell(monkeypatch: pytest.MonkeyPatch):
    def refuse(path: Path, **_: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert host.available_memory() is None
