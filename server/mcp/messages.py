"""Messages of the protocol: parse one or refuse it, and make the result of a tool call."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    ImageContent,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
    TextContent,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from ...analysis.base.problems import Problem
from ...tools.base.results import Result
from ...tools.plot import PlotResult
from ...tools.rendering import render

BUSY = -32000
"""The error code for too many concurrent calls: the first of the codes for implementations."""
ID_IN_USE = "Invalid request: this id belongs to a request that is not answered yet"
DEEPEST = 100
"""The maximum nesting; deeper messages would break later readers too, not only the parser."""


@dataclass(frozen=True)
class Refused:
    """An unusable message; ``answer`` is the error response, or None for a notification."""

    answer: JSONRPCError | None


def read(raw: bytes) -> JSONRPCMessage | Refused:
    """The request, notification or response in ``raw``.

    Duplicate names, numbers beyond the range of a double and unpaired surrogates are rejected too, because different
    readers interpret them in different ways.
    """
    doubts: list[str] = []
    try:
        content = _parse_json(raw, doubts)
    except RecursionError:
        return refuse_message(PARSE_ERROR, f"Parse error: nested deeper than {DEEPEST} levels")
    except ValueError:
        return refuse_message(PARSE_ERROR, "Parse error: the message is not JSON in UTF-8")
    if not isinstance(content, dict):
        return refuse_message(
            INVALID_REQUEST, "Invalid request: a message is one JSON object, and batches are not supported"
        )
    if _too_deep(content):
        doubts.insert(0, f"the message is nested deeper than {DEEPEST} levels")
    if _half_pairs(raw, content):
        doubts.append("a string contains an unpaired surrogate")
    fault = _fault(content)
    if fault is None and not doubts:
        return jsonrpc_message_adapter.validate_python(content, by_name=False)
    if fault in (None, _PARAMS) and "id" not in content and "method" in content:
        return Refused(None)
    return refuse_message(INVALID_REQUEST, f"Invalid request: {fault or doubts[0]}", _id(content))


def refuse_message(code: int, message: str, ident: RequestId | None = None) -> Refused:
    """An exception with its error response."""
    return Refused(JSONRPCError(jsonrpc="2.0", id=ident, error=ErrorData(code=code, message=message)))


def encode_message(message: JSONRPCMessage) -> bytes:
    """``message`` in UTF-8, without a line break."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _parse_json(raw: bytes, doubts: list[str]) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members_by_name = dict(pairs)
        if len(members_by_name) != len(pairs):
            doubts.append("an object contains a member twice")
        return members_by_name

    def number(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            doubts.append("a number is beyond the range of a double")
        return value

    def no_number(text: str) -> float:
        raise ValueError(f"{text} is not valid JSON")

    return json.loads(raw.decode("utf-8"), object_pairs_hook=members, parse_float=number, parse_constant=no_number)


def _too_deep(content: dict[str, Any]) -> bool:
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        inner = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
        level = [child for child in inner if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _half_pairs(raw: bytes, content: dict[str, Any]) -> bool:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return False
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


_PARAMS = "params must be an object"


def _fault(content: dict[str, Any]) -> str | None:
    """Why an object is not a valid message; None if it is."""
    if content.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "method" not in content:
        try:
            message = jsonrpc_message_adapter.validate_python(content, by_name=False)
        except ValidationError:
            return "it is not a request, a notification or a response"
        return "method is missing" if isinstance(message, JSONRPCRequest | JSONRPCNotification) else None
    if not isinstance(content["method"], str):
        return "method must be a string"
    if "id" in content and not _is_id(content["id"]):
        return "id must be a string or an integer"
    if not isinstance(content.get("params"), dict | None):
        return _PARAMS
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _id(content: dict[str, Any]) -> RequestId | None:
    """The id for the response; null if there is no valid one."""
    ident: RequestId | None = content.get("id")
    if not _is_id(ident):
        return None
    try:
        str(ident).encode()
    except UnicodeEncodeError:
        return None
    return ident


def protocol_result(answer: Result | Problem, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """The protocol's result for the answer of a tool; a Problem becomes an error that the model can read."""
    if isinstance(answer, Problem):
        return CallToolResult(content=[TextContent(type="text", text=render.refusal(answer))], is_error=True)
    document = render.fit_answer(answer, tool, arguments)
    result, words = document.result, TextContent(type="text", text=render.text(document))
    if isinstance(result, PlotResult):
        # The picture with its text; clients that prefer structured content would ignore the picture.
        image = base64.b64encode(result.image).decode()
        picture = ImageContent(type="image", data=image, mime_type="image/png")
        return CallToolResult(content=[picture, words])
    return CallToolResult(content=[words], structured_content=document.content)


def size(result: CallToolResult) -> int:
    """The number of characters of the parts of an answer."""
    return sum(len(str(getattr(part, "text", None) or getattr(part, "data", ""))) for part in result.content)
