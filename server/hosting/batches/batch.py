"""Files and batches: what they have, and their forms in OpenAI's API."""

import logging
import re
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from grammars.schema.json_values import JsonObject
from server.errors import refuse
from server.hosting.batches.batch_input import BatchLine, LineFault
from server.http.ids import make_id

LOG = logging.getLogger("constrained.server")
_WINDOW = re.compile(r"([1-9][0-9]{0,3})h")
HOUR = 3600  # seconds
YEAR = 365 * 24 * HOUR
SAVED = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
"""For files and batches that a folder has saved."""


class Expiry(BaseModel):
    """The lifetime of a file, from when it was made."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    anchor: Literal["created_at"] | None = None
    """When it begins."""
    seconds: int = Field(ge=1, le=YEAR)
    """How long it is."""


class BatchRequest(BaseModel):
    """A request to /v1/batches."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    input_file_id: str
    """The file with the requests, one a line."""
    endpoint: str
    """The path that all lines name."""
    completion_window: str
    """The time within which it has to be done, in hours: `24h`."""
    metadata: dict[str, str] | None = Field(default=None, max_length=16)
    """Is repeated in the batch."""
    output_expires_after: Expiry | None = None
    """How long the files that it writes are kept."""

    def read_window(self) -> int:
        """Returns the seconds within which the batch has to be done.

        Raises:
            HttpError: they are not given as hours.
        """
        found = _WINDOW.fullmatch(self.completion_window)
        if found is None:
            message = f"completion_window is {self.completion_window!r}: write hours, such as 24h"
            raise refuse(message, "/completion_window")
        return int(found[1]) * HOUR


class BatchStatus(StrEnum):
    """How far a batch is; the names are OpenAI's."""

    VALIDATING = "validating"
    """Its lines are read, or it waits for an earlier batch of its owner."""
    IN_PROGRESS = "in_progress"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    """The batch did not start because a line is invalid, or it could not be finished."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"


UNFINISHED = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.CANCELLING)


@dataclass
class StoredFile:
    """A file; the file of a batch's results grows.

    Args:
        owner: the hash of the API key of its owner; no other client finds the file.
        name: the client's name for it, or a name made from the batch's id.
        purpose: as in OpenAI's API: `batch` for input, `batch_output` for results.
        lifetime: in seconds; None: until it is deleted.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SAVED

    owner: str
    name: str
    purpose: Literal["batch", "batch_output"]
    lifetime: int | None = None
    content: bytearray = field(default_factory=bytearray)
    id: str = field(default_factory=lambda: make_id("file-"))
    created_at: int = field(default_factory=lambda: int(time.time()))

    @property
    def expires_at(self) -> int | None:
        """When it is deleted, in seconds since 1970; None: never."""
        return None if self.lifetime is None else self.created_at + self.lifetime

    def describe(self) -> JsonObject:
        """Returns the file in OpenAI's form."""
        described: JsonObject = {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }
        if self.expires_at is not None:
            described["expires_at"] = self.expires_at
        return described


@dataclass(eq=False)
class RequestBatch:
    """A batch and how far it is.

    Args:
        owner: the hash of its owner's API key; no other client finds the batch.
        key: the API key of the owner, for its lines.
        request: the client's request.
        window: seconds within which it has to be done.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SAVED

    owner: str
    key: bytes = field(repr=False)
    request: BatchRequest
    window: Annotated[int, Field(gt=0)]
    id: str = field(default_factory=lambda: make_id("batch_"))
    status: BatchStatus = BatchStatus.VALIDATING
    faults: tuple[LineFault, ...] = ()
    waiting: list[BatchLine] = field(default_factory=list[BatchLine], repr=False)
    """Lines that are not done; the next one is the last."""
    total: int = 0
    completed: int = 0
    failed: int = 0
    output: StoredFile | None = None
    errors: StoredFile | None = None
    created_at: int = field(default_factory=lambda: int(time.time()))
    elapsed: float = 0.0
    """Seconds of its window that were over when this server began with it."""
    reached: dict[BatchStatus, int] = field(default_factory=dict[BatchStatus, int])
    """When it came to a status, in seconds since 1970."""

    @property
    def is_finished(self) -> bool:
        """True if it is in a final state."""
        return self.status not in UNFINISHED

    def reach(self, status: BatchStatus) -> None:
        """It has come to a status."""
        self.status = status
        self.reached[status] = int(time.time())

    def fail(self, fault: LineFault) -> None:
        """Nothing more can come of it."""
        self.faults = self.faults or (fault,)
        self.waiting.clear()
        self.reach(BatchStatus.FAILED)
        LOG.warning("%s has failed: %s", self.id, fault.code)

    def describe(self) -> JsonObject:
        """Returns the batch as OpenAI's clients read it."""
        reached = self.reached.get
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.request.endpoint,
            "errors": self._describe_faults(),
            "input_file_id": self.request.input_file_id,
            "completion_window": self.request.completion_window,
            "status": self.status,
            "output_file_id": None if self.output is None else self.output.id,
            "error_file_id": None if self.errors is None else self.errors.id,
            "created_at": self.created_at,
            "in_progress_at": reached(BatchStatus.IN_PROGRESS),
            "expires_at": self.created_at + self.window,
            "finalizing_at": reached(BatchStatus.COMPLETED),
            "completed_at": reached(BatchStatus.COMPLETED),
            "failed_at": reached(BatchStatus.FAILED),
            "expired_at": reached(BatchStatus.EXPIRED),
            "cancelling_at": reached(BatchStatus.CANCELLING),
            "cancelled_at": reached(BatchStatus.CANCELLED),
            "request_counts": {
                "total": self.total,
                "completed": self.completed,
                "failed": self.failed,
            },
            "metadata": self.request.metadata,
        }

    def _describe_faults(self) -> JsonObject | None:
        if not self.faults:
            return None
        return {"object": "list", "data": [fault.describe() for fault in self.faults]}
