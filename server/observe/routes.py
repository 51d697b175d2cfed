"""The path of the metrics."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from server.http.openapi import describe_errors, describe_text

router = APIRouter()


@router.get(
    "/metrics",
    responses=describe_text("text/plain", "The counters") | describe_errors(401),
    response_class=Response,
)
async def show_metrics(request: Request) -> Response:
    """The counters for Prometheus, summed over all loaded models."""
    text = request.app.state.counters.write(request.app.state.models.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
