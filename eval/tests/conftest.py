"""The scripts of eval/ as modules, and one run of them for all tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from rooflens.server.mcp import calls
from rooflens.tests import ROOT
from rooflens.tests.support.fixtures import *  # noqa: F403
from rooflens.tools.isolation.channel import Channel

EVAL = ROOT / "eval"
sys.path.insert(0, str(EVAL))


class _Heard:
    """The end of a channel to which a call in this process says its messages."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}

    def send(self, message: dict[str, Any]) -> None:
        self.reply = message.get("reply", self.reply)


@pytest.fixture(scope="module", autouse=True)
def answered_here() -> Iterator[None]:
    """Calls are answered in this process, which knows the catalogue from the call before: what is asked for here is
    what the tools say, and not how a server runs them."""

    async def reply(self: calls.Calls, call: calls.Call, told: calls.Told) -> calls.Reply:
        heard = _Heard()
        calls.perform(cast("Channel", heard), vars(call))
        return calls.Reply(**json.loads(json.dumps(heard.reply)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls.Calls, "reply", reply)
        yield
