"""Loads models whose tokens a remote engine samples: connects, and asks the engine about its
model."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from constrained.engine.header import TEMPLATE, Header, find_templates
from constrained.engine.llama_files import read_header
from constrained.errors import RequestError
from constrained.limits.deadline import check_timeout
from constrained.model.construction import ModelT, make_model, read_format
from constrained.model_files.sources import find_source
from constrained.remote.address import Address, EngineKind, read_address
from constrained.remote.engines import llama_server, sglang, vllm
from constrained.remote.engines.http_client import STALL_SECONDS, HttpClient
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.handshake import Handshake
from constrained.remote.identity import EngineIdentity
from constrained.remote.remote_engine import RemoteEngine
from constrained.remote.sampler import TokenSampler
from grammars.wire.format import Format

SEQUENCES = "sequences"
"""The only engine option that also applies to a remote engine: the number of concurrent
requests."""
TOKENIZER_HINT = "Name a GGUF file of the model that it runs, with or without weights (--tokenizer)"


@dataclass(frozen=True)
class Connected:
    """A remote engine that has passed the checks."""

    sampler: TokenSampler
    header: Header
    name: str
    identity: EngineIdentity[Any]


def load_remote(
    build: Callable[..., ModelT],
    source: str,
    tokenizer: str | os.PathLike[str] | None,
    api_key: str | None,
    *,
    engine_timeout: float | None,
    chat_template: str | None,
    tool_format: str | Format | None,
    deterministic: bool,
    cache_dir: str | os.PathLike[str] | None,
    max_waiting: int,
    options: Mapping[str, Any],
) -> ModelT:
    """Loads a model on a remote engine; see `load`. `source` is an address, and `build` makes the
    model."""
    address = read_address(source)
    _refuse_options(address, options, deterministic=deterministic, cache_dir=cache_dir)
    check_timeout(engine_timeout, "engine_timeout")
    format = read_format(tool_format)
    loop = EventLoopThread("remote")
    client = HttpClient(address, api_key, stall_seconds=engine_timeout or STALL_SECONDS)
    try:
        sequences = options.get(SEQUENCES)
        connected = loop.run(_connect(client, tokenizer, sequences=sequences))
    except BaseException:
        loop.run(client.close())
        loop.close()
        raise
    engine = RemoteEngine(connected.sampler, loop, connected.identity)
    return make_model(
        engine,
        connected.header,
        connected.name,
        notices=[engine.notice],
        chat_template=chat_template,
        format=format,
        build=partial(build, max_waiting=max_waiting),
    )


def _refuse_options(
    address: Address,
    options: Mapping[str, Any],
    *,
    deterministic: bool,
    cache_dir: str | os.PathLike[str] | None,
) -> None:
    """Raises an error for options that only the engine's operator can set."""
    given = [name for name in options if name != SEQUENCES]
    if deterministic:
        given.append("deterministic")
    if cache_dir is not None:
        given.append("cache_dir")
    if given:
        message = f"{given[0]} is an option of the engine at {address}"
        hint = "Set it where the engine is started, and leave it out here"
        raise RequestError(message, where=f"/{given[0]}", hint=hint)
    sequences = options.get(SEQUENCES)
    if sequences is not None and (type(sequences) is not int or sequences < 1):
        message = f"sequences is {sequences!r}, must be 1 or more"
        raise RequestError(message, where="/sequences")


async def _connect(
    client: HttpClient, tokenizer: str | os.PathLike[str] | None, *, sequences: int | None
) -> Connected:
    """Asks an engine about its model, and checks that it can be used."""
    match client.address.kind:
        case EngineKind.LLAMA_SERVER:
            return await _connect_llama_server(client, tokenizer, sequences)
        case EngineKind.VLLM:
            return await _connect_vllm(client, tokenizer, sequences)
        case EngineKind.SGLANG:
            return await _connect_sglang(client, tokenizer, sequences)


async def _connect_llama_server(
    client: HttpClient, tokenizer: str | os.PathLike[str] | None, sequences: int | None
) -> Connected:
    facts = await llama_server.read_facts(client)
    if tokenizer is None and facts.model.is_file():
        tokenizer = facts.model  # the engine is on this machine
    header, path = _read_tokenizer(client.address, tokenizer)
    make = partial(llama_server.LlamaServerSampler, client, header.vocabulary, facts, sequences)
    handshake = Handshake(
        make(),  # a separate sampler: the handshake's prompts are no secret
        llama_server.make_tokenizer(client),
        llama_server.GRAMMAR_HINT,
        spells_exactly=True,
        vocabulary_size=facts.vocabulary_size,
    )
    identity = EngineIdentity(handshake, partial(llama_server.read_facts, client))
    await identity.confirm()
    if facts.templates:  # its operator may have replaced the template of the file
        header = _with_templates(header, facts.templates)
    return Connected(make(), header, facts.model.name or path.name, identity)


async def _connect_vllm(
    client: HttpClient, tokenizer: str | os.PathLike[str] | None, sequences: int | None
) -> Connected:
    facts = await vllm.read_facts(client)
    header, _ = _read_tokenizer(client.address, tokenizer)
    sampler = vllm.VllmSampler(client, header.vocabulary, facts, sequences)
    there = vllm.make_tokenizer(client, facts.model)
    handshake = Handshake(sampler, there, vllm.GRAMMAR_HINT)
    identity = EngineIdentity(handshake, partial(vllm.read_facts, client))
    await identity.confirm()
    return Connected(sampler, header, facts.model, identity)


async def _connect_sglang(
    client: HttpClient, tokenizer: str | os.PathLike[str] | None, sequences: int | None
) -> Connected:
    facts = await sglang.read_facts(client)
    header, path = _read_tokenizer(client.address, tokenizer)
    sampler = sglang.SglangSampler(client, header.vocabulary, facts, sequences)
    handshake = Handshake(sampler, sglang.make_tokenizer(client), sglang.GRAMMAR_HINT)
    identity = EngineIdentity(handshake, sampler.read_facts)
    await identity.confirm()
    return Connected(sampler, header, path.name, identity)


def _read_tokenizer(address: Address, path: str | os.PathLike[str] | None) -> tuple[Header, Path]:
    if path is None:
        message = f"{address} does not publish its vocabulary"
        raise RequestError(message, where="/tokenizer", hint=TOKENIZER_HINT)
    file = find_source(path)
    return read_header(file), file


def _with_templates(header: Header, templates: Mapping[str, str]) -> Header:
    metadata = {key: text for key, text in header.metadata.items() if TEMPLATE not in key}
    for name, text in templates.items():
        metadata[f"{TEMPLATE}.{name}" if name else TEMPLATE] = text
    changed = replace(header, metadata=metadata)
    assert find_templates(metadata).keys() == templates.keys()
    return changed
