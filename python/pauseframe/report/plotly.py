"""HTML pages from templates and pages of one figure, with plotly.js for two-dimensional charts, compressed."""

from __future__ import annotations

import base64
import json
import math
import zlib
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pauseframe._core import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

BUNDLE = "plotly-cartesian-4.1.1"
# The title is not Plotly's, which does not break lines.
PAGE = """
body { display: flex; flex-direction: column; height: 100vh; margin: 0; }
#canvas { flex: 1; min-height: 0; }
h1 { font: 600 1.1rem system-ui, sans-serif; margin: 1rem 1.25rem 0; overflow-wrap: anywhere; }
"""


def render(template: str, figures: Sequence[Mapping[str, Any]], **context: Any) -> str:
    """A page made from a template of this package; the template refers to a figure by its number."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("pauseframe.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["load_plotly"] = library
    html: str = environment.get_template(template).render(version=__version__, figures=script_json(figures), **context)
    return html


def library() -> Markup:
    """Script elements that load plotly.js. Other scripts of the page wait for the promise `plotlyLoaded`."""
    from markupsafe import Markup

    text = files("pauseframe.report").joinpath("assets", f"{BUNDLE}.min.js").read_bytes()
    packed = base64.b64encode(zlib.compress(text, 9)).decode("ascii")
    loader = files("pauseframe.report").joinpath("templates", "load_plotly.js").read_text(encoding="utf-8")
    head = f"plotly.js {BUNDLE.rpartition('-')[2]}, MIT License, Copyright 2012-2026 Plotly, Inc.; deflate, base64"
    return Markup(
        f'<!-- {head} -->\n<script type="application/zlib" id="plotly">{packed}</script>\n<script>{loader}</script>'
    )


def page(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], *, title: str = "", style: str = "") -> str:
    """A page of one figure: one file that needs no network."""
    figure = script_json({"data": traces, "layout": layout})
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title or "pauseframe")}</title>
<link rel="icon" href="data:,">
<style>{PAGE}{style}</style>
</head>
<body>
{f"<h1>{escape(title)}</h1>" if title else ""}
<div id="canvas"></div>
<script type="application/json" id="figure">{figure}</script>
{library()}
<script>
const figure = JSON.parse(document.getElementById("figure").textContent);
const config = {{ responsive: true, displaylogo: false }};
plotlyLoaded.then(() => Plotly.newPlot("canvas", figure.data, figure.layout, config));
</script>
</body>
</html>
"""


def script_json(value: Any) -> Markup:
    """JSON that may stand inside a script element; what is not a number becomes null."""
    from markupsafe import Markup

    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
