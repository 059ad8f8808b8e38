"""Players: both dialects against a local endpoint, a local program, and what each does when it is let down."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rooflens.eval.agent.games.dialogue import Dialogue
from rooflens.eval.agent.games.server import Toolbox
from rooflens.eval.agent.games.transcript import Scrubber, Transcript
from rooflens.eval.agent.players.command import CommandPlayer
from rooflens.eval.agent.players.endpoint import Address, EndpointPlayer
from rooflens.eval.agent.players.turn import (
    Call,
    Message,
    Offer,
    Player,
    PlayerFailed,
    Position,
    Reply,
    Result,
    Usage,
)

KEY = "a-key-that-nobody-may-see"
OFFER = Offer("list_workloads", "Stored workloads", {"type": "object", "properties": {}})
POSITION = Position(
    "Rules.",
    (
        Message("game", "How many?"),
        Message("player", "", (Call("c1", "list_workloads", {"limit": 3}),)),
        Message("tools", results=(Result("c1", "two", content={"hidden": 1}),)),
    ),
    (OFFER,),
)
OPENAI_CALL = {
    "choices": [
        {
            "message": {
                "content": None,
                "tool_calls": [
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "list_workloads", "arguments": '{"limit": 1}'},
                    }
                ],
            }
        }
    ],
    "usage": {"prompt_tokens": 120, "completion_tokens": 7},
}
ANTHROPIC_CALL = {
    "content": [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c2", "name": "list_workloads", "input": {"limit": 1}},
    ],
    "usage": {"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 7},
}


class Endpoint(ThreadingHTTPServer):
    """Answers each request with the next of ``answers`` (status, headers, body) and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def will_say(self, answer: Any, status: int = 200, **headers: str) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.answers.append((status, headers, body))


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, headers, answer = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content_Length": str(len(answer)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("PLAYER_KEY", KEY)
    with Endpoint() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def player(endpoint: Endpoint, dialect: str = "openai") -> EndpointPlayer:
    return EndpointPlayer(Address(endpoint.base, dialect, "some-model", "PLAYER_KEY"))


@pytest.mark.anyio
async def test_openai_gets_messages_tools_and_key_and_its_calls_and_usage_come_back(endpoint: Endpoint) -> None:
    endpoint.will_say(OPENAI_CALL)
    reply = await player(endpoint).reply(POSITION)
    assert reply == Reply("", (Call("c2", "list_workloads", {"limit": 1}),), Usage(120, 7))
    path, headers, body = endpoint.asked[0]
    assert path == "/v1/chat/completions" and headers["authorization"] == f"Bearer {KEY}"
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "list_workloads", "arguments": '{"limit": 3}'}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "two"}
    assert body["tools"][0]["function"]["parameters"] == OFFER.schema
    assert "hidden" not in json.dumps(body)


@pytest.mark.anyio
async def test_anthropic_gets_blocks_and_cached_tokens_count(endpoint: Endpoint) -> None:
    endpoint.will_say(ANTHROPIC_CALL)
    reply = await player(endpoint, "anthropic").reply(POSITION)
    assert reply == Reply("Looking.", (Call("c2", "list_workloads", {"limit": 1}),), Usage(120, 7))
    path, headers, body = endpoint.asked[0]
    assert path == "/v1/messages" and headers["x-api-key"] == KEY and "anthropic-version" in headers
    assert body["system"] == "Rules." and [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "c1", "name": "list_workloads", "input": {"limit": 3}}
    ]
    assert body["messages"][2]["content"][0]["tool_use_id"] == "c1"
    assert body["tools"] == [{"name": OFFER.name, "description": OFFER.description, "input_schema": OFFER.schema}]


@pytest.mark.anyio
async def test_without_tools_none_are_offered_and_without_usage_tokens_are_estimated(endpoint: Endpoint) -> None:
    endpoint.will_say({"choices": [{"message": {"content": "ANSWER: 2"}}]})
    with Transcript(None, "t", Scrubber({})) as transcript:
        dialogue = Dialogue(player(endpoint), "Rules.", transcript)
        assert await dialogue.say("How many?") == "ANSWER: 2"
    assert "tools" not in endpoint.asked[0][2]
    assert dialogue.cost.estimated and dialogue.cost.tokens > 0


@pytest.mark.anyio
async def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint) -> None:
    endpoint.will_say({}, 429, Retry_After="0")
    endpoint.will_say({}, 503, Retry_After="0")
    endpoint.will_say(OPENAI_CALL)
    assert (await player(endpoint).reply(POSITION)).calls
    assert len(endpoint.asked) == 3


@pytest.mark.anyio
async def test_a_redirect_does_not_take_the_key_elsewhere(endpoint: Endpoint) -> None:
    endpoint.will_say({}, 307, Location=endpoint.base.replace("127.0.0.1", "localhost"))
    with pytest.raises(PlayerFailed, match="HTTP 307"):
        await player(endpoint).reply(POSITION)
    assert len(endpoint.asked) == 1


@pytest.mark.anyio
async def test_an_error_that_repeats_the_key_is_told_without_it(endpoint: Endpoint) -> None:
    endpoint.will_say(f"bad key {KEY}".encode(), 401)
    with pytest.raises(PlayerFailed) as failed:
        await player(endpoint).reply(POSITION)
    assert "HTTP 401" in str(failed.value) and KEY not in str(failed.value)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "answer",
    [
        b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"content": [1]}', b"[" * 100_000,
        b'{"choices": [{"message": null}], "content": null}',
        b'{"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "x", "arguments": "[1]"}}]}}]}',
        b'{"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "x", "arguments": "{"}}]}}]}',
        b'{"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "x", "arguments": "'
        + b"[" * 100_000 + b'"}}]}}]}',
    ],
)  # fmt: skip
async def test_an_answer_of_another_shape_fails_with_words(endpoint: Endpoint, dialect: str, answer: bytes) -> None:
    endpoint.will_say(answer)
    with pytest.raises(PlayerFailed):
        await player(endpoint, dialect).reply(POSITION)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (Address("ftp://host/v1", "openai", "m"), "not an http"),
        (Address("https://me:secret@host/v1", "openai", "m"), "--key-env"),
        (Address("http://example.org/v1", "openai", "m", "PLAYER_KEY"), "https only"),
        (Address("https://example.org/v1", "openai", "m", "NO_SUCH_VARIABLE"), "not set"),
        (Address("https://example.org/v1", "morse", "m"), "not one of"),
    ],
)
def test_an_address_that_is_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch, address: Address, said: str) -> None:
    monkeypatch.setenv("PLAYER_KEY", KEY)
    with pytest.raises(PlayerFailed, match=said) as failed:
        EndpointPlayer(address)
    assert KEY not in str(failed.value)


@pytest.mark.anyio
async def test_an_answer_that_breaks_off_fails_with_words(endpoint: Endpoint) -> None:
    endpoint.will_say(b'{"choices"', Content_Length="4000")
    with pytest.raises(PlayerFailed):
        await player(endpoint).reply(POSITION)


@pytest.mark.anyio
async def test_a_key_with_a_line_end_is_sent_without_and_one_of_two_lines_is_never_shown(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYER_KEY", f"{KEY}\n")
    endpoint.will_say(OPENAI_CALL)
    await player(endpoint).reply(POSITION)
    assert endpoint.asked[0][1]["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("PLAYER_KEY", f"{KEY}\nX-Other: 1")
    with pytest.raises(PlayerFailed) as failed:
        player(endpoint)
    assert KEY not in str(failed.value)


def program(folder: Path, body: str) -> list[str]:
    path = folder / "player.py"
    path.write_text("import json, sys\n" + textwrap.dedent(body))
    return [sys.executable, "-S", str(path)]


@pytest.mark.anyio
async def test_a_program_is_asked_line_by_line(tmp_path: Path) -> None:
    player = CommandPlayer(
        program(
            tmp_path,
            """
            for number, line in enumerate(sys.stdin):
                asked = json.loads(line)
                calls = [{"name": asked["tools"][0]["name"], "arguments": {"n": number}}]
                usage = {"read": 5, "written": 6}
                print(json.dumps({"text": asked["rules"], "calls": calls, "usage": usage}), flush=True)
            """,
        )
    )
    first, second = await player.reply(POSITION), await player.reply(POSITION)
    await player.close()
    assert first == Reply("Rules.", (Call("call_0", "list_workloads", {"n": 0}),), Usage(5, 6))
    assert second.calls[0].arguments == {"n": 1}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('hello', flush=True); sys.stdin.read()", "not JSON"),
        ("print('[1]', flush=True); sys.stdin.read()", "something other"),
        ('print(\'{"calls": [{"arguments": {}}]}\', flush=True); sys.stdin.read()', "needs a name"),
        ('print(\'{"calls": [{"name": "x", "arguments": 3}]}\', flush=True); sys.stdin.read()', "not an object"),
        ("sys.exit(3)", "ended without a reply"),
    ],
)
async def test_a_program_that_replies_with_nonsense_fails_with_words(tmp_path: Path, body: str, said: str) -> None:
    player = CommandPlayer(program(tmp_path, body))
    with pytest.raises(PlayerFailed, match=said):
        await player.reply(POSITION)
    await player.close()


@pytest.mark.anyio
async def test_a_program_that_never_replies_is_given_up(tmp_path: Path) -> None:
    player = CommandPlayer(program(tmp_path, "sys.stdin.read()"), timeout_s=0.2)
    with pytest.raises(PlayerFailed, match="no reply within"):
        await player.reply(POSITION)
    await player.close()


@pytest.mark.anyio
async def test_a_program_that_is_not_there_fails_with_words() -> None:
    with pytest.raises(PlayerFailed, match="cannot be started"):
        await CommandPlayer(["no_such_program_here"]).reply(POSITION)


class Restless:
    """Calls a tool for ever."""

    name = "restless"

    async def reply(self, position: Position) -> Reply:
        return Reply(calls=(Call("c", "list_workloads", {}),))

    async def close(self) -> None:
        pass


@pytest.mark.anyio
async def test_calls_beyond_the_budget_are_not_made_and_the_game_ends() -> None:
    made: list[str] = []

    class Counting(Toolbox):
        async def call(self, call: Call) -> Result:
            made.append(call.name)
            return Result(call.id, "nothing")

    restless: Player = Restless()
    with Transcript(None, "t", Scrubber({})) as transcript:
        tools = Counting(None, (OFFER,), "", {})  # type: ignore[arg-type]
        dialogue = Dialogue(restless, "Rules.", transcript, tools, most_calls=4)
        assert await dialogue.say("How many?") == ""
    assert len(made) == 4
    assert dialogue.problem is not None and "budget" in dialogue.problem
