"""The MCP prompts, one Markdown file each."""
