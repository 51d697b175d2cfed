"""The options of a cluster: those of the server, and their own."""

import pytest

from constrained.errors import RequestError
from server.cluster.cluster_options import read_words


def test_the_words_of_a_command_are_read() -> None:
    given = read_words("-c 1024 -np 3 -t 2 --replicas 2 --max-replicas 5 --fronts 2 --alias 'a b'")
    assert (given.slots, given.replicas, given.max_replicas, given.fronts) == (3, 2, 5, 2)
    assert (given.cpus, given.options.alias) == (2.0, "a b")
    assert read_words("--replicas 3").max_replicas == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--replicas 0", "--replicas is 0"),
        ("--replicas 3 --max-replicas 2", "--max-replicas is 2"),
        ("--models-dir models", "--models-dir is not there in a cluster"),
        ("--replicas 3x", "invalid int value"),
        ("--frobnicate", "unknown options: --frobnicate"),
    ],
)
def test_what_cannot_be_is_said(words: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_words(words)
