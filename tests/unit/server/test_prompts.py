"""The prompts: served as they are written, and nothing they name is missing or called otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pydantic
import pytest
from mcp.client import Client

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import schema
from rooflens.server.mcp import app, resources, toolbox
from rooflens.server.mcp.resources import offered_only
from rooflens.tests import ROOT
from rooflens.tools.sql import unlimited_query

TOOLS = {tool.name: tool for tool in toolbox.TOOLS}
NAMES = ("answer_question", "compare_versions", "explain_profile", "optimize_program", "plan_counters")
_NO_NAMES = ("subsystem.quantity", "rooflens://schema", '"*"')


def spans(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def calls(text: str) -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Every call that a text shows, as the tool's name and its arguments."""
    for span in spans(text):
        if re.match(r"[a-z_]+\(", span):
            call = ast.parse(span, mode="eval").body
            assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args, span
            yield call.func.id, {str(word.arg): word.value for word in call.keywords}


def fields(model: Any) -> Iterator[str]:
    """Names of a result's fields, at any depth."""
    if get_origin(model) is not None:
        for part in get_args(model):
            yield from fields(part)
    elif is_dataclass(model):
        for name, hint in get_type_hints(model).items():
            yield name
            yield from fields(hint)
    elif isinstance(model, type) and issubclass(model, pydantic.BaseModel):
        for name, field in model.model_fields.items():
            yield name
            yield from fields(field.annotation)


@pytest.mark.anyio
@pytest.mark.parametrize("era", ("auto", "legacy"))
async def test_a_client_gets_every_prompt_with_what_the_user_gave(samples: Store, era: str) -> None:
    async with Client(app.build(samples), mode=era) as client:
        listed = (await client.list_prompts()).prompts
        assert tuple(p.name for p in listed) == NAMES
        for prompt in listed:
            assert prompt.title and prompt.description and prompt.arguments
            given = {argument.name: f"value of {argument.name}" for argument in prompt.arguments}
            for arguments in ({}, given):
                (message,) = (await client.get_prompt(prompt.name, arguments)).messages
                written = (ROOT / "prompts" / f"{prompt.name}.md").read_text().split("+++\n", 2)[2]
                words = offered_only(written, [t.name for t in toolbox.tools(allow_exec=False)]).rstrip()
                assert message.role == "user" and message.content.text.startswith(words)
                assert all((f"- {name}: {value}" in message.content.text) == bool(arguments)
                           for name, value in given.items())  # fmt: skip


@pytest.mark.parametrize(("read_only", "allow_exec"), [(False, True), (False, False), (True, False)])
def test_no_prompt_names_a_tool_that_is_not_offered(read_only: bool, allow_exec: bool) -> None:
    names = {t.name for t in toolbox.tools(read_only=read_only, allow_exec=allow_exec)}
    for written in resources.prompts():
        text = written.fill({}, names)
        assert set(re.findall(r"\w+", text)) & TOOLS.keys() <= names, written.name
        assert "{{" not in text and "}}" not in text and not re.search(r"[ \t]+$", text, re.MULTILINE), written.name


def test_words_for_servers_without_a_tool_stand_in_for_those_with_it() -> None:
    text = "1. {{run: Do `run`.}}\n   {{!run: Ask.}} Then look.{{plot:\n2. Draw.}}\n3. End."
    assert offered_only(text, ["run", "plot"]) == "1. Do `run`. Then look.\n2. Draw.\n3. End."
    assert offered_only(text, []) == "1. Ask. Then look.\n3. End."


@pytest.mark.parametrize("written", resources.prompts(), ids=lambda w: w.name)
def test_every_call_in_a_prompt_is_one_the_server_takes(written: resources.PromptTemplate) -> None:
    found = list(calls(written.text))
    assert found
    for tool, arguments in found:
        assert tool in TOOLS, tool
        literal = {}
        for name, value in arguments.items():
            assert name in TOOLS[tool].arguments.model_fields, f"{tool} has no {name}"
            if not any(isinstance(node, ast.Name) for node in ast.walk(value)):
                literal[name] = ast.literal_eval(value)
        # Validated one by one, since names in capitals stand for values that the reader has.
        for name, value in literal.items():
            field = TOOLS[tool].arguments.model_fields[name]
            pydantic.TypeAdapter(pydantic.create_model("one", value=(field.annotation, ...))).validate_python(
                {"value": value}
            )


@pytest.mark.parametrize("written", resources.prompts(), ids=lambda w: w.name)
def test_every_name_in_a_prompt_exists(written: resources.PromptTemplate, samples: Store) -> None:
    known = {*TOOLS, *_NO_NAMES, *schema()}
    for tool in TOOLS.values():
        known |= {*tool.arguments.model_fields, *fields(tool.result)}
    for span in spans(written.text):
        if span.startswith("SELECT"):
            unlimited_query.query(samples, samples.scan()[0], span.replace('"dram__bytes_read.sum"', '"TCC_HIT_sum"'))
        elif "(" in span:
            continue
        elif "=" in span:
            name = span.split("=")[0]
            assert any(name in tool.arguments.model_fields for tool in TOOLS.values()), span
        elif "." in span and span not in known:
            assert span in catalog.variants(), span
        else:
            assert span in known, span


OF_PROMPTS = {
    "rooflens": "optimize_program",
    "rooflens-read-a-profile": "explain_profile",
    "rooflens-compare-versions": "compare_versions",
    "rooflens-plan-counters": "plan_counters",
}
"""Skills with the text of a prompt."""


@pytest.mark.parametrize("entry", resources.skills(), ids=lambda one: str(one["frontmatter"]["name"]))
def test_a_skill_keeps_the_limits_of_skills_and_has_the_text_of_its_prompt(entry: dict[str, Any]) -> None:
    stated = entry["frontmatter"]
    assert set(stated) == {"name", "description"} and re.fullmatch(r"[a-z0-9-]{1,64}", stated["name"])
    assert len(stated["description"]) <= 1024 and ": " not in stated["description"]
    start, _, text = (ROOT / "skills" / stated["name"] / "SKILL.md").read_text().split("---\n", 2)
    assert start == "" and len(text.splitlines()) < 500
    if stated["name"] in OF_PROMPTS:
        prompt = next(p for p in resources.prompts() if p.name == OF_PROMPTS[stated["name"]])
        assert text == prompt.fill({}, [*TOOLS, resources.ANY_SERVER])


def test_a_skill_without_frontmatter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("# No head\n")
    with pytest.raises(ValueError, match=r"SKILL\.md does not start"):
        resources._skill_entry(tmp_path / "SKILL.md")


def test_a_prompt_without_a_head_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare.md").write_text("# No head\n")
    monkeypatch.setattr(resources, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"bare\.md"):
        resources.prompts.__wrapped__()
