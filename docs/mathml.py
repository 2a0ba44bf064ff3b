"""Formulas of these pages as MathML, which every browser draws by itself: no script is fetched."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)


def on_page_content(content: str, **_: object) -> str:
    """Draw the formulas that the Markdown extension has found in a page."""

    def drawn(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        return convert(html.unescape(found["tex"]), display=display)

    return FORMULA.sub(drawn, content)
