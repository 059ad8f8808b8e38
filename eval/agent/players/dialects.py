"""Formats of dialogues for endpoints: OpenAI's chat completions and Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rooflens.eval.agent.players.turn import Call, Message, PlayerFailed, Position, Reply, Usage


@dataclass(frozen=True)
class Dialect:
    """A dialect: the path below the base address, the headers with the key, and the translations in both directions."""

    path: str
    headers: Callable[[str], dict[str, str]]
    request: Callable[[str, Position, int], dict[str, Any]]
    reply: Callable[[Mapping[str, Any]], Reply]


def _openai_request(model: str, position: Position, most_tokens: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": position.rules}]
    for message in position.messages:
        messages += _openai_messages(message)
    body: dict[str, Any] = {"model": model, "messages": messages, "max_completion_tokens": most_tokens}
    if position.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": o.name, "description": o.description, "parameters": o.schema}}
            for o in position.tools
        ]
    return body


def _openai_messages(message: Message) -> list[dict[str, Any]]:
    if message.role == "tools":
        return [{"role": "tool", "tool_call_id": r.id, "content": r.text} for r in message.results]
    if message.role == "game":
        return [{"role": "user", "content": message.text}]
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        said["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for c in message.calls
        ]
    return [said]


def _openai_reply(answer: Mapping[str, Any]) -> Reply:
    said = answer["choices"][0]["message"]
    calls = []
    for one in said.get("tool_calls") or ():
        function = one["function"]
        arguments = json.loads(function.get("arguments") or "{}")
        if not isinstance(arguments, dict):
            raise PlayerFailed(f"the arguments of {function['name']} are not an object")
        calls.append(Call(str(one["id"]), str(function["name"]), arguments))
    return Reply(str(said.get("content") or ""), tuple(calls), _usage(answer, "prompt_tokens", "completion_tokens"))


def _anthropic_request(model: str, position: Position, most_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": most_tokens,
        "system": position.rules,
        "messages": [_anthropic_message(message) for message in position.messages],
    }
    if position.tools:
        body["tools"] = [
            {"name": o.name, "description": o.description, "input_schema": o.schema} for o in position.tools
        ]
    return body


def _anthropic_message(message: Message) -> dict[str, Any]:
    if message.role == "tools":
        blocks = [
            {"type": "tool_result", "tool_use_id": r.id, "content": r.text, "is_error": r.failed}
            for r in message.results
        ]
        return {"role": "user", "content": blocks}
    if message.role == "game":
        return {"role": "user", "content": message.text}
    said: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    said += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.calls]
    # The service refuses an empty turn, so a placeholder is sent.
    return {"role": "assistant", "content": said or [{"type": "text", "text": "(nothing)"}]}


def _anthropic_reply(answer: Mapping[str, Any]) -> Reply:
    text, calls = [], []
    for block in answer["content"]:
        if block["type"] == "text":
            text.append(str(block["text"]))
        elif block["type"] == "tool_use":
            if not isinstance(block["input"], dict):
                raise PlayerFailed(f"the arguments of {block['name']} are not an object")
            calls.append(Call(str(block["id"]), str(block["name"]), block["input"]))
    return Reply("\n".join(text), tuple(calls), _usage(answer, "input_tokens", "output_tokens"))


def _usage(answer: Mapping[str, Any], read: str, written: str) -> Usage | None:
    told = answer.get("usage")
    if not isinstance(told, dict) or not isinstance(told.get(read), int) or not isinstance(told.get(written), int):
        return None
    # Anthropic counts cached tokens separately.
    cached = sum(int(told.get(name) or 0) for name in ("cache_creation_input_tokens", "cache_read_input_tokens"))
    return Usage(told[read] + cached, told[written])


DIALECTS = {
    "openai": Dialect(
        "/chat/completions", lambda key: {"Authorization": f"Bearer {key}"}, _openai_request, _openai_reply
    ),
    "anthropic": Dialect(
        "/messages",
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        _anthropic_request,
        _anthropic_reply,
    ),
}
