"""What the error of an unknown path says to do."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.routing import Route

MAX_SEGMENTS = 8
"""The maximum number of segments of a path in which a known path is searched."""
VERSIONS = ("/v1beta", "/v1", "/api")  # what paths of APIs begin with
TEXT_ONLY = "This server serves text models"
NO_THREADS = (
    "Conversations are not kept as objects here: use /v1/responses, which continues a conversation "
    "by previous_response_id"
)
NO_BATCHES = "Batches are not queued here: send each of their requests by itself"
NO_RAW_PROMPTS = "Raw prompts are not continued here: send messages to /v1/chat/completions"
NO_EMBEDDINGS = "This server makes no embeddings: run llama-server --embedding beside it"
OF_THE_ENGINE = (
    "llama-server's own paths are not served: /v1/models describes the models, /metrics counts "
    "running turns, /v1/chat/completions/input_tokens the tokens of a conversation"
)
GEMINI = "Gemini's API is not served: use /v1/chat/completions"
ABSENT_VERSIONS = {
    "/v1/threads": NO_THREADS,
    "/threads": NO_THREADS,
    "/v1beta/models": GEMINI,
}
"""As `ABSENT`, for paths whose ending may be a path of the application: `/models/NAME` has any
name, and `/threads/ID/messages` is not `/messages`."""
ABSENT = {
    "/assistants": NO_THREADS,
    "/apply-template": OF_THE_ENGINE,
    "/tokenize": OF_THE_ENGINE,
    "/detokenize": OF_THE_ENGINE,
    "/props": OF_THE_ENGINE,
    "/slots": OF_THE_ENGINE,
    "/conversations": NO_THREADS,
    "/realtime": f"{TEXT_ONLY}, over HTTP: use /v1/responses or /v1/chat/completions as a stream",
    "/audio": TEXT_ONLY,
    "/images": TEXT_ONLY,
    "/videos": TEXT_ONLY,
    "/moderations": "This server judges no texts: ask a model, with a typed answer",
    "/vector_stores": "This server stores no documents",
    "/containers": "This server runs no code: offer a tool that your program executes",
    "/skills": "This server runs no code: offer a tool that your program executes",
    "/completion": NO_RAW_PROMPTS,
    "/completions": NO_RAW_PROMPTS,
    "/embed": NO_EMBEDDINGS,
    "/embedding": NO_EMBEDDINGS,
    "/embeddings": NO_EMBEDDINGS,
    "/fim": NO_RAW_PROMPTS,
    "/infill": NO_RAW_PROMPTS,
    "/rerank": "This server does not rank documents",
    "/reranking": "This server does not rank documents",
    "/docs": "The paths of this server are in /openapi.json, for programs",
    "/fine_tuning": "This server trains no models",
    "/messages/batches": NO_BATCHES,
    "/batches": NO_BATCHES,
    "/files": "This server keeps no files: send what is in them with the request",
    "/complete": "Use /v1/messages",
    "/models": GEMINI,
}
"""APIs that clients know from other servers, by how their paths begin, and what to do instead."""


def explain_unknown_path(path: str, method: str, routers: Sequence[APIRouter]) -> str:
    """Returns what to do about a path that the application does not have, as a sentence."""
    advice = _find_advice(path, ABSENT_VERSIONS)
    if advice is not None:
        return advice
    known = _find_known_end(path, method, routers)
    if known is not None:
        rest = path.removesuffix(known)
        return f"There is {known}: remove {rest!r} from the base URL of the client"
    bare = path
    for version in VERSIONS:
        if path.startswith(f"{version}/"):
            bare = path.removeprefix(version)
            break
    return _find_advice(bare, ABSENT) or "/openapi.json lists the paths of this server"


def _find_advice(path: str, absent: Mapping[str, str]) -> str | None:
    """Returns what to do instead, by how the path begins; None: it is in no known API."""
    for start, advice in absent.items():
        if f"{path}/".startswith(f"{start}/"):
            return advice
    return None


def _find_known_end(path: str, method: str, routers: Sequence[APIRouter]) -> str | None:
    """Returns the longest ending of a path that is a path of the application: clients append paths
    to a base URL, which may have one `/v1` too many, or be a whole path."""
    _, *segments = path.rsplit("/", MAX_SEGMENTS)
    for number in range(len(segments)):
        end = "/" + "/".join(segments[number:])
        if end not in ("/", path) and _is_served(end, routers, method):
            return end
    return None


def _is_served(path: str, routers: Sequence[APIRouter], method: str) -> bool:
    for router in routers:
        for route in router.routes:
            if not isinstance(route, Route) or not route.path_regex.match(path):
                continue
            if method in (route.methods or ()):
                return True
    return False
