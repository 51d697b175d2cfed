"""Vocabularies and the engine of llama.cpp, for the tests of what is emitted."""

from collections.abc import Iterator

import pytest

from tests.grammars.emit.emitted_texts import EngineVocabulary, make_vocabulary
from tests.grammars.emit.gbnf_engine import GbnfEngine


@pytest.fixture(scope="session", params=[False, True], ids=["spelled", "marked"])
def engine_vocabulary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EngineVocabulary:
    """A real vocabulary: every marker is several tokens, or every marker is one."""
    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"), marked=request.param)


@pytest.fixture(scope="session")
def gbnf_engine(engine_vocabulary: EngineVocabulary) -> Iterator[GbnfEngine]:
    """llama.cpp over this vocabulary."""
    engine = GbnfEngine(engine_vocabulary.path)
    yield engine
    engine.close()
