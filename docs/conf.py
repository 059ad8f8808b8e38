"""How the site is built from these pages: Sphinx with MyST and Furo. `make site` does it; broken links end it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import llms  # noqa: E402

project = "rooflens"
html_title = "rooflens"
extensions = ["myst_parser"]
exclude_patterns = ["*.py"]
myst_heading_anchors = 3
nitpicky = True
smartquotes = False
# A command over several lines is more than the lexer of consoles knows; it is shown all the same.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]

SOURCE_URL = os.environ.get("ROOFLENS_SOURCE_URL", "").rstrip("/")
"""Where files of the repository are shown (https://HOST/OWNER/rooflens/blob/main); without it they are only named."""


def setup(app: Any) -> dict[str, bool]:
    """Pages may name files of the repository beyond them; llms.txt and llms-full.txt are written beside the pages."""
    app.connect("source-read", _name_files_beyond)
    app.connect("build-finished", lambda app, failed: failed or llms.write(HERE, Path(app.outdir)))
    return {"parallel_read_safe": True}


def _name_files_beyond(app: Any, page: str, source: list[str]) -> None:
    folder = (HERE / page).parent

    def named(link: re.Match[str]) -> str:
        words, target = link.groups()
        path, _, anchor = target.partition("#")
        file = (folder / path).resolve()
        if file.is_relative_to(HERE) or not file.is_relative_to(ROOT):
            return link[0]
        inside = file.relative_to(ROOT).as_posix()
        if SOURCE_URL:
            return f"[{words}]({SOURCE_URL}/{inside}{'#' + anchor if anchor else ''})"
        return words if words.strip("`") == inside else f"{words} (`{inside}` in the repository)"

    source[0] = re.sub(r"(?<!!)\[([^\]]*)\]\((\.\./[^)\s]+)\)", named, source[0])
