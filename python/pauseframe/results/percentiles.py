"""The common rule for percentiles: a percentile with fewer than ten samples beyond it is marked as unsure.

Terminal, reports, `compare`, `reproduce` and the demo all use this file, and show the mark in the same way: a question
mark after the number, greyed where the medium has colours, and one line that explains the mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ENOUGH_BEYOND = 10
"""Minimum number of samples beyond a percentile; with fewer, the next run would give another value."""
MARK = "?"
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Quantiles by the names that summaries use."""
TITLES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9"}
EXPLANATION = f"{MARK}: fewer than {ENOUGH_BEYOND} samples lie beyond this percentile."


def beyond(samples: float, share: float) -> float:
    """Expected number of `samples` beyond the percentile of `share`, on the side of the nearer extreme.

    >>> round(beyond(1613, 0.999), 1), beyond(40, 0.5)
    (1.6, 20.0)
    """
    return samples * min(share, 1 - share)


def is_few(beyond: float) -> bool:
    """True if the number of samples beyond a percentile is too small."""
    return beyond < ENOUGH_BEYOND * (1 - 1e-9)  # 1000 samples suffice for p99 despite rounding errors


def is_unsure(samples: float, share: float) -> bool:
    """True if too few samples lie beyond a percentile. The median counts as a percentile too.

    >>> is_unsure(999, 0.99), is_unsure(1000, 0.99), is_unsure(18, 0.5), is_unsure(0, 0.5)
    (True, False, True, True)
    """
    return is_few(beyond(samples, share))


def marked(text: str, samples: float | None, share: float) -> str:
    """The text of a percentile with its mark. If the number of samples is unknown (None), the text gets no mark.

    >>> marked("12.6 ms", 216, 0.999), marked("692 us", 216, 0.9), marked("–", 0, 0.99)
    ('12.6 ms ?', '692 us', '–')
    """
    if samples is None or not any(map(str.isdigit, text)) or not is_unsure(samples, share):
        return text
    return f"{text} {MARK}"


def explanation(texts: Iterable[str]) -> str:
    """The line below a table that explains the mark; empty if no number is marked.

    >>> explanation(["12.6 ms ?", "3"]), explanation(["3"])
    ('?: fewer than 10 samples lie beyond this percentile.', '')
    """
    return EXPLANATION if any(text.endswith(f" {MARK}") or f" {MARK} " in text for text in texts) else ""


def share_of(metric: str) -> float | None:
    """The percentile that a metric of a summary names; None if the metric is not a percentile.

    >>> share_of("fct_us.p999"), share_of("fct_us.p99.to_10KB"), share_of("fct_us.mean"), share_of("drops")
    (0.999, 0.99, None, None)
    """
    return next((SHARES[part] for part in metric.split(".")[1:] if part in SHARES), None)


def too_few(samples: float, beyond: float) -> str:
    """The message that refuses a percentile.

    >>> too_few(1613, 1.613)
    '1,613 samples are too few: only about 1.6 lie beyond the percentile, and 10 are needed'
    """
    return (
        f"{samples:,.0f} samples are too few: only about {beyond:.2g} lie beyond the percentile, and "
        f"{ENOUGH_BEYOND} are needed"
    )


def highest_sure(samples: float) -> str:
    """The name of the highest percentile with enough samples beyond it; the median if none has enough.

    >>> highest_sure(10_800), highest_sure(216), highest_sure(5)
    ('p999', 'p95', 'p50')
    """
    return next((name for name in reversed(SHARES) if not is_unsure(samples, SHARES[name])), "p50")
