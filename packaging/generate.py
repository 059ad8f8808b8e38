"""Writes the files with which registries and clients find and start rooflens, from the sources of each fact.

python packaging/generate.py            write the files
python packaging/generate.py --check    exit with status 1 if a file is outdated
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rooflens.server.connect.clients import NAME, Client, StartCommand, clients
from rooflens.server.mcp import resources
from rooflens.server.mcp.toolbox import tools

ROOT = Path(__file__).resolve().parents[1]
DESCRIPTION = ROOT / "packaging" / "description.md"
"""The text for package indexes. The MCP registry looks for its server name in it, as proof of ownership."""
PAGE = ROOT / "docs" / "how-to" / "connect_an_assistant.md"
SKILL_PROMPT = "optimize_program"
"""The prompt whose text is also the skill of the plugin; its slash command refers to the skill."""
NOBODY = "OWNER"
"""Placeholder for the publisher until pyproject.toml names a repository; the registry rejects this name."""
_MARKER = re.compile(r"<!-- mcp-name: \S+ -->")
_CLIENTS = re.compile(r"(<!-- clients: [^>]*-->\n).*(<!-- end of clients -->)", re.DOTALL)
_AUTHOR = {"name": "the rooflens contributors"}


def project() -> dict[str, Any]:
    """Read the table [project] of pyproject.toml."""
    stated: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return stated


def registry_name(repository: str | None) -> str:
    """The name in the MCP registry, which begins with the repository's owner. Raises ValueError unless on GitHub."""
    if repository is None:
        return f"io.github.{NOBODY}/{NAME}"
    parts = urlsplit(repository)
    owner = parts.path.strip("/").split("/")[0]
    if parts.hostname != "github.com" or not owner:
        raise ValueError(
            f"{repository}: the registry verifies names by GitHub or by a domain; add support for this host here"
        )
    return f"io.github.{owner}/{NAME}"


def server_json(about: dict[str, Any]) -> dict[str, Any]:
    """Build server.json for the MCP registry, schema of 2025-12-11."""
    repository = about.get("urls", {}).get("Repository")
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": registry_name(repository),
        "title": NAME,
        "description": about["description"],
        "version": about["version"],
        **({"repository": {"url": repository, "source": "github"}} if repository else {}),
        "packages": [
            {
                "registryType": "pypi",
                "identifier": about["name"],
                "version": about["version"],
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "serve"}],
                "environmentVariables": [
                    {
                        "name": "ROOFLENS_STORE",
                        "description": "Folder of the workload store (default: the user's data folder)",
                        "format": "filepath",
                        "isRequired": False,
                    }
                ],
            }
        ],
    }


def mcpb_manifest(about: dict[str, Any]) -> dict[str, Any]:
    """Build manifest.json of the MCP bundle, version 0.4; uv installs the wheel that the bundle contains."""
    settings = {
        "store": ("directory", "Workload store", "Folder for profiles; if empty, your data folder", {}),
        "allow_exec": (
            "boolean",
            "Allow running programs",
            "Offer the tools that profile and benchmark: any program that the assistant names then runs as you",
            {"default": False},
        ),
        "read_only": ("boolean", "Read only", "Offer no tools that write to the store", {"default": False}),
    }
    return {
        "manifest_version": "0.4",
        "name": about["name"],
        "display_name": NAME,
        "version": about["version"],
        "description": about["description"],
        "author": _AUTHOR,
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "main.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--project", "${__dirname}", "${__dirname}/main.py"],
                "env": {f"ROOFLENS_BUNDLE_{name.upper()}": f"${{user_config.{name}}}" for name in settings},
            },
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools(allow_exec=False)],
        "tools_generated": True,  # tools that run programs need allow_exec
        "prompts_generated": True,
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": about["requires-python"]}},
        "user_config": {
            name: {"type": kind, "title": title, "description": what, "required": False, **more}
            for name, (kind, title, what, more) in settings.items()
        },
    }


def plugin(about: dict[str, Any]) -> dict[str, Any]:
    """Build plugin.json of the Claude Code plugin; its folder is the repository, so it contains what it starts."""
    return {
        "name": NAME,
        "version": about["version"],
        "description": about["description"],
        "author": _AUTHOR,
        "license": about["license"],
        "keywords": about["keywords"],
        "commands": "./packaging/claude/commands/",
        "mcpServers": {NAME: {"command": "${CLAUDE_PLUGIN_ROOT}/packaging/claude/serve.sh"}},
    }


def marketplace(about: dict[str, Any]) -> dict[str, Any]:
    """Build marketplace.json: the repository is a marketplace with only this plugin."""
    return {
        "name": NAME,
        "description": about["description"],
        "owner": _AUTHOR,
        "plugins": [{"name": NAME, "source": "./", "description": about["description"], "category": "development"}],
    }


def command(written: resources.PromptTemplate) -> str:
    """Build a slash command of the plugin from the prompt's text for the server that the plugin starts."""
    if written.name == SKILL_PROMPT:
        text = f"Follow the skill `{NAME}` of this plugin from its first step.\n"
    else:
        text = written.fill({}, {tool.name for tool in tools(allow_exec=False)})
    head = [
        "---",
        f"description: {json.dumps(written.description)}",
        f"argument-hint: {json.dumps(' '.join(f'[{name}]' for name in written.arguments))}",
        "disable-model-invocation: true",
        "---",
    ]
    wanted = [f"- {name}: {what}" for name, what in written.arguments.items()]
    given = ["## Given by the user", "", "Any of these, in the text that follows:", "", *wanted, "", "$ARGUMENTS", ""]
    return "\n".join([*head, text.rstrip(), "", *given])


def for_people(one: Client) -> str:
    """Build the section of the documentation page that explains how to connect one client."""
    launch = StartCommand((NAME, "serve"))
    lines = [f"## {one.title}", ""]
    if own := one.own_command(launch):
        lines += [f"With its own command, if {one.title} is installed:", ""]
        lines += ["```console no-run", f"$ {own}", "```", ""]
    if one.link:
        lines += [
            f"`rooflens connect {one.name}` prints a link that opens {one.title} and asks whether to add the server.",
            "",
        ]
    file = f"`{one.project}` of a project" + (f", or `~/{one.user}` for all your projects" if one.user else "")
    lines += [
        f"Its configuration file, {file}:",
        "",
        f"```{one.format}",
        one.snippet(launch).rstrip(),
        "```",
        "",
        one.after,
        "",
    ]
    tried = f"Tested with version {one.tried}." if one.tried else "Not tested: written according to its documentation."
    return "\n".join([*lines, f"{tried} Documentation: <{one.source}>", ""])


def files() -> dict[Path, str]:
    """Build the text of every generated file."""
    about = project()
    written = {
        ROOT / ".claude-plugin" / "plugin.json": plugin(about),
        ROOT / ".claude-plugin" / "marketplace.json": marketplace(about),
        ROOT / "packaging" / "mcpb" / "manifest.json": mcpb_manifest(about),
        ROOT / "packaging" / "server.json": server_json(about),
    }
    found = {path: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for path, value in written.items()}
    folder = ROOT / "packaging" / "claude" / "commands"
    found |= {folder / f"{one.name.replace('_', '-')}.md": command(one) for one in resources.prompts()}
    marker = f"<!-- mcp-name: {written[ROOT / 'packaging' / 'server.json']['name']} -->"
    found[DESCRIPTION] = _MARKER.sub(marker, DESCRIPTION.read_text(encoding="utf-8"))
    told = "\n".join(for_people(one) for one in clients().values())
    found[PAGE] = _CLIENTS.sub(lambda part: f"{part[1]}\n{told}\n{part[2]}", PAGE.read_text(encoding="utf-8"))
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    wanted = files()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'outdated' if check else 'wrote'} {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
