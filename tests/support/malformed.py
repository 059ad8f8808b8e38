"""Messages that are no messages, each with the code and the id that its answer must have; None: no answer at all."""

from __future__ import annotations

MALFORMED: dict[str, tuple[bytes, tuple[int, object] | None]] = {
    "no JSON": (b"hello", (-32700, None)),
    "half a message": (b'{"jsonrpc":"2.0","id":1,"meth', (-32700, None)),
    "NUL": (b"\x00\x00", (-32700, None)),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', (-32700, None)),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', (-32700, None)),
    "Infinity": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}', (-32700, None)),
    "too many digits": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"9" * 9000 + b"}}",
                        (-32700, None)),
    "nested 100,000 deep": (b"[" * 100_000 + b"]" * 100_000, (-32700, None)),
    "nested 200 deep": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 200 + b"]" * 200 + b"}}", (-32600, 1)),
    "beyond a double": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}', (-32600, 1)),
    "a member twice": (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', (-32600, 1)),
    "number": (b"5", (-32600, None)),
    "text": (b'"ping"', (-32600, None)),
    "null": (b"null", (-32600, None)),
    "empty batch": (b"[]", (-32600, None)),
    "batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', (-32600, None)),
    "params are a list": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', (-32600, 1)),
    "method is a number": (b'{"jsonrpc":"2.0","id":"a","method":5}', (-32600, "a")),
    "method is a number, no id": (b'{"jsonrpc":"2.0","method":5}', (-32600, None)),
    "other version": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', (-32600, 1)),
    "no version": (b'{"id":1,"method":"ping"}', (-32600, 1)),
    "id is true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', (-32600, None)),
    "id is null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', (-32600, None)),
    "id is an object": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', (-32600, None)),
    "id is a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', (-32600, None)),
    "neither request nor response": (b'{"jsonrpc":"2.0","id":1}', (-32600, 1)),
    "response without an error": (b'{"jsonrpc":"2.0","id":1,"error":5}', (-32600, 1)),
    "half a pair in an argument": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_metrics","arguments":'
        b'{"query":"\\ud800"}}}', (-32600, 1)),
    "half a pair in a method": (b'{"jsonrpc":"2.0","id":1,"method":"\\uDC00"}', (-32600, 1)),
    "half a pair in an id": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', (-32600, None)),
    "notification with a list": (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}', None),
    "notification with half a pair": (b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\\ud800"}}', None),
}  # fmt: skip
NOT_FOR_US: tuple[bytes, ...] = (
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
    b'{"jsonrpc":"2.0","method":"notifications/nobody/knows"}',
)
"""Well-formed, of no consequence, and never answered."""


HOSTILE = "\u202e\u200b\u001b[31m<img src=x onerror=alert(1)>![a](http://e.vil/x)"
"""A text that hides, or acts in a terminal or a page."""

OF_EACH_KIND = (
    "no JSON", "not UTF-8", "nested 100,000 deep", "nested 200 deep", "null", "batch", "method is a number",
    "id is an object", "half a pair in an id", "response without an error", "notification with a list",
)  # fmt: skip
"""One malformed message of each kind of code, id and way through a transport; `messages.read` is tested with all."""
