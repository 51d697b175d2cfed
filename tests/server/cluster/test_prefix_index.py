"""Hash chains: prompts have as many names in common as they have whole blocks in common."""

from hypothesis import given
from hypothesis import strategies as st

from constrained.prompt.cache_scope import COMMON, name_scope
from server.cluster.prefix_index import chain_prefixes, thin_out

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def count_common(some: tuple[int, ...], others: tuple[int, ...]) -> int:
    return sum(one == other for one, other in zip(some, others, strict=False))


@given(TOKENS, TOKENS, TOKENS, st.integers(1, 8))
def test_prompts_share_the_names_of_their_common_blocks(
    head: list[int], some: list[int], others: list[int], block: int
) -> None:
    one, other = [*head, *some], [*head, *others]
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    chains = chain_prefixes(one, COMMON, block), chain_prefixes(other, COMMON, block)
    assert len(chains[0]) == len(one) // block
    assert count_common(*chains) == common // block
    assert chains[0][common // block :] == () or chains[1][common // block :] != chains[0]


@given(st.lists(st.integers(0, 200_000), min_size=8), st.text(min_size=1), st.text(min_size=1))
def test_who_shares_no_cache_has_no_name_in_common(
    tokens: list[int], some: str, other: str
) -> None:
    chains = [chain_prefixes(tokens, name_scope(salt), 4) for salt in (some, other)]
    assert chains[0]
    assert set(chains[0]).isdisjoint(chains[1]) == (some != other)


def test_what_is_not_kept_has_no_names() -> None:
    assert chain_prefixes(range(1_000), None) == ()


@given(st.lists(st.integers(), unique=True), st.integers(1, 9), st.integers(0, 20))
def test_a_chain_is_thinned_out_behind_what_is_known(
    chain: list[int], stride: int, known: int
) -> None:
    known = min(known, len(chain))
    kept = thin_out(chain, stride)
    assert kept[-1:] == chain[-1:]
    assert len(kept) == -(-len(chain) // stride)
    new = [name for name in kept if name in chain[known:]]
    assert thin_out(chain, stride, known=known) == [*chain[max(0, known - 1) : known], *new]
