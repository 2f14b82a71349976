"""HTML pages from templates, and pages of one figure. uPlot draws axes; templates/figures.js paints the figures."""

from __future__ import annotations

import json
import math
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pauseframe._core import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

UPLOT = "uPlot-1.6.32"
# The title breaks lines, and the figure fills the window.
PAGE = """
body { margin: 0; padding: 0 1rem; }
h1 { font: 600 1.1rem system-ui, sans-serif; margin: 1rem .25rem; overflow-wrap: anywhere; }
"""


def render(template: str, figures: Sequence[Mapping[str, Any]], **context: Any) -> str:
    """A page made from a template of this package; the template refers to a figure by its number."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("pauseframe.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["dotted"] = _dotted
    scripts = figure_scripts(figures)
    html: str = environment.get_template(template).render(version=__version__, figure_scripts=scripts, **context)
    return html


def _dotted(key: str) -> Markup:
    """A dotted key that breaks after its dots in a narrow cell."""
    from markupsafe import Markup

    return Markup("<wbr>").join(re.split(r"(?<=[._=,])(?=\w)", key))


def asset(name: str) -> str:
    """The text of a JavaScript library or its style sheet."""
    return files("pauseframe.report").joinpath("assets", name).read_text(encoding="utf-8")


def figure_scripts(figures: Sequence[Mapping[str, Any]]) -> Markup:
    """The elements that draw figures: uPlot, the figures as JSON, and the scripts of this package."""
    from markupsafe import Markup

    own = "\n".join(_template(name) for name in ("figures.js", "report.js"))
    return Markup(
        f"<style>{asset(f'{UPLOT}.min.css')}</style>\n<script>{asset(f'{UPLOT}.min.js')}</script>\n"
        f'<script type="application/json" id="figures">{script_json(figures)}</script>\n<script>{own}</script>'
    )


def page(parts: Sequence[tuple[str, Mapping[str, Any]]], *, title: str = "") -> str:
    """A page of figures with their captions: one file that needs no network."""
    body = "\n".join(
        f'{f"<h3>{escape(caption)}</h3>" if caption else ""}<div class="canvas" data-figure="{number}"></div>'
        for number, (caption, _) in enumerate(parts)
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title or "pauseframe")}</title>
<link rel="icon" href="data:,">
<style>{_template("report.css")}{PAGE}</style>
</head>
<body>
{f"<h1>{escape(title)}</h1>" if title else ""}
{body}
{figure_scripts([figure for _, figure in parts])}
</body>
</html>
"""


def script_json(value: Any) -> Markup:
    """JSON that may stand inside a script element; what is not a number becomes null."""
    from markupsafe import Markup

    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _template(name: str) -> str:
    return files("pauseframe.report").joinpath("templates", name).read_text(encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
