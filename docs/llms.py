"""Writes llms.txt, a list of the pages for language models, and llms-full.txt, all that people wrote in one file.

The form is that of llmstxt.org: a title, one paragraph, and links with a word on each, by section.
"""

from __future__ import annotations

import re
from pathlib import Path

SECTIONS = {"tutorial": "Tutorial", "how-to": "How to", "explanation": "Explanation", "reference": "Reference"}
_GENERATED = "<!-- Generated"


def write(pages: Path, site: Path) -> None:
    """Write both into the folder of the site."""
    index = (pages / "index.md").read_text(encoding="utf-8")
    lines = ["# rooflens", "", "> " + " ".join(_first_paragraph(index).split()), ""]
    whole = []
    for folder, title in SECTIONS.items():
        lines += [f"## {title}", ""]
        for page in sorted((pages / folder).glob("*.md")):
            text = page.read_text(encoding="utf-8")
            name = re.search(r"^# (.+)$", text, re.MULTILINE)
            assert name is not None, page
            lines.append(f"- [{name[1]}]({folder}/{page.stem}.html): {_first_sentence(text)}")
            if not text.startswith(_GENERATED):
                whole.append(f"<!-- {folder}/{page.name} -->\n\n{text}")
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def _first_paragraph(text: str) -> str:
    """The first paragraph behind the title."""
    body = text.split("\n# ", 1)[-1] if not text.startswith("# ") else text
    return next(p for p in body.split("\n\n")[1:] if p.strip() and not p.startswith(("#", "<", "|", "```")))


def _first_sentence(text: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(_first_paragraph(text).split()))
    return re.split(r"(?<=[.:?])\s", plain.replace("**", ""), maxsplit=1)[0]
