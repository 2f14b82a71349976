"""How unevenly traffic is spread over equal links, beside what a fair hash of some flows would give."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log

IDLE = 0.02
"""Share of a fair part below which a link counts as unused."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Traffic of a group of equal links."""

    device: str
    counts: dict[str, int]
    """Bytes or packets of each port."""
    what: str
    flows: int | None = None
    """Equal flows that were hashed; None if unknown."""

    @property
    def total(self) -> int:
        """Sum over the links."""
        return sum(self.counts.values())

    @property
    def used(self) -> int:
        """Links with more than 2 % of a fair part."""
        fair = self.total / len(self.counts)
        return sum(count > IDLE * fair for count in self.counts.values())

    @property
    def busiest(self) -> tuple[str, float]:
        """The busiest link, and its traffic relative to a fair part."""
        port = max(self.counts, key=lambda name: self.counts[name])
        return port, self.counts[port] * len(self.counts) / self.total

    @property
    def like_flows(self) -> float:
        """The number of equal flows that a fair hash spreads as unevenly: (n - 1) / CV², from the multinomial variance.

        >>> round(Spread("a", {"x": 60, "y": 40}, "bytes").like_flows)
        25
        """
        n, fair = len(self.counts), self.total / len(self.counts)
        squares = sum((count - fair) ** 2 for count in self.counts.values()) / n
        return (n - 1) * fair**2 / squares if squares else float("inf")

    def chance(self, flows: int) -> float:
        """Upper bound of the probability that a fair hash of equal flows loads a link as the busiest one (Bonferroni).

        >>> round(Spread("a", {"x": 4, "y": 0}, "flows").chance(4), 3)
        0.125
        """
        n = len(self.counts)
        share = self.counts[self.busiest[0]] / self.total
        return min(1.0, n * tail(flows, 1 / n, round(share * flows)))


def tail(trials: int, chance: float, least: int) -> float:
    """P(X >= least) of a binomial distribution.

    >>> round(tail(10, 0.5, 8), 4)
    0.0547
    """
    if least <= 0:
        return 1.0
    return sum(
        exp(
            lgamma(trials + 1)
            - lgamma(k + 1)
            - lgamma(trials - k + 1)
            + k * log(chance)
            + (trials - k) * log(1 - chance)
        )
        for k in range(least, trials + 1)
    )
