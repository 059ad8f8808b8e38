"""Reading one message: what is well formed passes, everything else gets the error it is owed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from rooflens.server.mcp import messages
from rooflens.tests.support.malformed import MALFORMED


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_gets_the_error_it_is_owed(name: str) -> None:
    raw, expected = MALFORMED[name]
    found = messages.read(raw)
    assert isinstance(found, messages.Refused)
    assert (found.answer and (found.answer.error.code, found.answer.id)) == expected
    if found.answer:
        assert json.loads(messages.encode_message(found.answer))["id"] == (expected or (0, 0))[1]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r', JSONRPCRequest),
        (b'{"jsonrpc":"2.0","id":"x","method":"a","params":{"t":"\\ud83d\\ude00"}}', JSONRPCRequest),
        (b'{"jsonrpc":"2.0","method":"a","params":{}}', JSONRPCNotification),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', JSONRPCResponse),
    ],
)
def test_a_well_formed_message_passes(raw: bytes, kind: type) -> None:
    assert isinstance(messages.read(raw), kind)


def _answered(found: object) -> None:
    """What was read is a message, or is refused with the error of JSON-RPC that fits, which can be written."""
    if not isinstance(found, messages.Refused):
        assert isinstance(found, JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError)
    elif found.answer:
        said = json.loads(messages.encode_message(found.answer))
        assert said["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST) and said["error"]["message"]


@given(st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes) -> None:
    _answered(messages.read(raw))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), inner)
        ),
    )
)
def test_no_json_raises_and_every_answer_can_be_written(value: object) -> None:
    found = messages.read(json.dumps(value).encode())
    _answered(found)
    if not isinstance(value, dict) and not isinstance(value, list):
        assert isinstance(found, messages.Refused) and found.answer
