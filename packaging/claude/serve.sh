#!/bin/sh
# Starts the server of the Claude Code plugin: the installed rooflens, or else the copy that is part of the plugin.
if command -v rooflens >/dev/null 2>&1; then
  exec rooflens serve "$@"
fi
if command -v uvx >/dev/null 2>&1; then
  exec uvx --quiet --from "$(dirname "$0")/../.." rooflens serve "$@"
fi
echo "Neither rooflens nor uvx is on the PATH. Install one of them: pip install PATH_OF_ROOFLENS, or pip install uv." >&2
exit 127
