"""The files by which others find and start rooflens are fresh, agree, and pass the checks of those who read them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rooflens.server.cli import parser
from rooflens.server.mcp.resources import prompts
from rooflens.server.mcp.toolbox import tools
from rooflens.tests import ROOT
from rooflens.tests.support.waiting import END_S

OFFERED = {tool.name for tool in tools(allow_exec=False)}


def script(path: str) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text())


GENERATE = script("packaging/generate.py")
SERVER, MANIFEST = read("packaging/server.json"), read("packaging/mcpb/manifest.json")
PLUGIN, MARKETPLACE = read(".claude-plugin/plugin.json"), read(".claude-plugin/marketplace.json")


def test_the_files_are_fresh(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    status = GENERATE.main()
    assert (status, capsys.readouterr().out) == (0, ""), "run `make docs`"


def test_server_json_keeps_the_registrys_limits_and_its_arguments_start_the_server() -> None:
    # Limits of its schema: ServerDetail and Package.
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])
    assert 1 <= len(SERVER["description"]) <= 100
    (package,) = SERVER["packages"]
    assert package["registryType"] == "pypi" and package["transport"] == {"type": "stdio"}
    assert parser().parse_args([one["value"] for one in package["packageArguments"]])


def test_the_linter_of_registry_files_finds_nothing(tmp_path: Path) -> None:
    linter = shutil.which("skillsaw") or pytest.skip("needs the program skillsaw, which has the registry's schema")
    shutil.copy(ROOT / "packaging" / "server.json", tmp_path)
    done = subprocess.run([linter, "lint", str(tmp_path)], capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0 and "mcp-registry" in done.stdout, done.stdout


def test_the_description_on_an_index_proves_the_name_and_leads_nowhere_else() -> None:
    text = (ROOT / "packaging" / "description.md").read_text()
    assert f"<!-- mcp-name: {SERVER['name']} -->" in text
    assert not re.search(r"\]\((?!https?:|#|mailto:)", text)


def test_the_bundle_offers_its_settings_and_forbids_execution_by_itself() -> None:
    main = script("packaging/mcpb/main.py")
    variables = MANIFEST["server"]["mcp_config"]["env"]
    assert {one["default"] for one in MANIFEST["user_config"].values() if one["type"] == "boolean"} == {False}
    assert main.options({}) == main.options(variables) == []  # unanswered: empty, or the placeholders themselves
    answers = {"store": "/a b", "allow_exec": "true", "read_only": "true"}
    given = {name: answers[re.sub(r"\W|user_config", "", value)] for name, value in variables.items()}
    assert main.options(given) == ["--store", "/a b", "--allow-exec", "--read-only"]
    assert parser().parse_args(["serve", *main.options(given)]).read_only
    assert main.options({**given, "ROOFLENS_BUNDLE_ALLOW_EXEC": "false"}) == ["--store", "/a b", "--read-only"]
    assert {tool["name"] for tool in MANIFEST["tools"]} == OFFERED


def test_the_bundles_own_program_takes_the_manifest() -> None:
    mcpb = shutil.which("mcpb") or pytest.skip("needs the program mcpb (npm @anthropic-ai/mcpb) on PATH")
    manifest = ROOT / "packaging" / "mcpb" / "manifest.json"
    done = subprocess.run([mcpb, "validate", str(manifest)], capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_claude_code_takes_marketplace_and_plugin(tmp_path: Path) -> None:
    claude = shutil.which("claude") or pytest.skip("needs the program claude on PATH")
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    environment = {"HOME": str(tmp_path), "PATH": str(Path(claude).parent) + ":/usr/bin:/bin", **quiet}
    for manifest in ("marketplace.json", "plugin.json"):
        words = [claude, "plugin", "validate", "--strict", str(ROOT / ".claude-plugin" / manifest)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=END_S, env=environment, cwd=tmp_path)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_each_prompt_is_a_command_and_says_its_text_once() -> None:
    folder = ROOT / PLUGIN["commands"]
    assert {path.stem for path in folder.glob("*.md")} == {one.name.replace("_", "-") for one in prompts()}
    for one in prompts():
        start, head, text = (folder / f"{one.name.replace('_', '-')}.md").read_text().split("---\n", 2)
        assert start == "" and "disable-model-invocation: true" in head and "$ARGUMENTS" in text
        assert all(f"- {name}: " in text for name in one.arguments)
        named = set(re.findall(r"\w+", text)) & {tool.name for tool in tools(allow_exec=True)}
        assert named <= OFFERED, "the plugin starts a server that does not run programs"
        if one.name == GENERATE.SKILL_PROMPT:
            assert (ROOT / "skills" / "rooflens" / "SKILL.md").is_file() and len(text.splitlines()) < 15


@pytest.mark.parametrize("there", ["rooflens", "uvx", None])
def test_the_plugin_starts_what_is_installed_else_its_own_copy(tmp_path: Path, there: str | None) -> None:
    (command,) = [server["command"] for server in PLUGIN["mcpServers"].values()]
    launcher = command.replace("${CLAUDE_PLUGIN_ROOT}", str(ROOT))
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("dirname", "sh"):
        (binaries / name).symlink_to(str(shutil.which(name)))
    if there:
        (binaries / there).write_text(f'#!/bin/sh\nprintf "%s\\n" {there} "$@"\n')
        (binaries / there).chmod(0o755)
    done = subprocess.run([launcher], env={"PATH": str(binaries)}, capture_output=True, text=True, timeout=END_S)
    words = done.stdout.splitlines()
    if there == "rooflens":
        assert words == ["rooflens", "serve"]
    elif there == "uvx":
        assert words[-2:] == ["rooflens", "serve"] and Path(words[words.index("--from") + 1]).resolve() == ROOT
    else:
        assert done.returncode == 127 and "pip install" in done.stderr and not words


def test_the_images_differ_only_in_what_they_start_from() -> None:
    files = sorted((ROOT / "packaging" / "docker").glob("*ockerfile"))
    endings = {file.read_text().split("# The rest is the same in all images.\n")[1] for file in files}
    assert len(files) == 3 and len(endings) == 1
    (ending,) = endings
    assert "\nUSER 10001\n" in ending and "\nHEALTHCHECK " in ending and 'ENTRYPOINT ["rooflens"]' in ending
    for file in files:
        bases = re.findall(r"^ARG (?!PROFILER)\w+=(.+)$", file.read_text(), re.MULTILINE)
        assert bases and all(re.search(r":\d+\.\d+", base) for base in bases), "a base is pinned to a release"


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    linter = shutil.which("hadolint") or pytest.skip("needs the program hadolint on PATH")
    files = [str(file) for file in (ROOT / "packaging" / "docker").glob("*ockerfile")]
    done = subprocess.run([linter, *files], capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0, done.stdout


def test_an_image_gets_all_that_the_wheel_is_built_from() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())
    about, packed = stated["project"], stated["tool"]["setuptools"]
    folders = {name.split(".")[1] for name in packed["packages"] if "." in name}
    files = {"__init__.py", "__main__.py", *(p.split("/")[0] for p in packed["package-data"].get("rooflens", ()))}
    parts = {about["readme"], *about["license-files"], *folders, *files}
    assert allowed >= {"pyproject.toml", "MANIFEST.in", *parts}
