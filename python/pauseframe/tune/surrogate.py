"""A Gaussian process: a smooth estimate, with its uncertainty, of a function that was measured at some points.

Matérn kernel with nu = 5/2 and a length for each dimension (Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, sections 2.2, 4.2 and 5.4). Lengths and noise maximise the marginal likelihood.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH, NOISE = 0.5, 0.01
"""Expected length, as a share of a range, and expected noise variance of one seed, as a share of the variance."""
LENGTH_SPREAD, NOISE_SPREAD = 1.0, 3.0
"""Standard deviations of their logarithms: weak priors, because a search begins with few points."""
LEAST_NOISE = 1e-6
STEPS = (3.0, 1.5)
"""Factors by which the fit changes a length or the noise: first coarse, then fine."""


class Surrogate:
    """A Gaussian process through measured points in the unit cube."""

    def __init__(
        self,
        points: Any,
        values: Any,
        noise: Any,
        categorical: Sequence[bool],
        begin: Any = None,
    ) -> None:
        """`noise` is the variance of each value relative to that of one seed; `begin` are the `logs` of another fit."""
        self._points = np.asarray(points, float)
        self._categorical = np.asarray(categorical, bool)
        self._noise = np.asarray(noise, float)
        self._center = float(np.mean(values))
        self._scale = float(np.std(values)) or 1.0
        self._values = (np.asarray(values, float) - self._center) / self._scale
        self.logs = np.log([*[LENGTH] * self._points.shape[1], NOISE]) if begin is None else np.array(begin)
        """Logarithms of the lengths and of the noise."""
        self._fit()
        self._factor()

    def _fit(self) -> None:
        best = self._likelihood(self.logs)
        for factor in STEPS:
            moved = True
            while moved:
                moved = False
                for number in range(len(self.logs)):
                    for step in (math.log(factor), -math.log(factor)):
                        other = self.logs.copy()
                        other[number] += step
                        likelihood = self._likelihood(other)
                        if likelihood > best + 1e-6:
                            self.logs, best, moved = other, likelihood, True

    def _likelihood(self, logs: Any) -> float:
        """Logarithm of the marginal likelihood, with the best variance, plus the priors."""
        lower = self._cholesky(logs)
        white = np.linalg.solve(lower, self._values)
        variance = float(white @ white) / len(white) + 1e-12
        fit = -0.5 * len(white) * math.log(variance) - float(np.log(np.diag(lower)).sum())
        lengths = ((logs[:-1] - math.log(LENGTH)) / LENGTH_SPREAD) ** 2
        noise = (float(logs[-1]) - math.log(NOISE)) / NOISE_SPREAD
        return fit - 0.5 * float(lengths.sum()) - 0.5 * noise**2

    def _cholesky(self, logs: Any) -> Any:
        matrix = self._kernel(self._points, self._points, np.exp(logs[:-1]))
        matrix[np.diag_indices_from(matrix)] += math.exp(logs[-1]) * self._noise + LEAST_NOISE
        return np.linalg.cholesky(matrix)

    def _kernel(self, some: Any, others: Any, lengths: Any) -> Any:
        distance = some[:, None, :] - others[None, :, :]
        distance = np.where(self._categorical, (distance != 0.0) * 1.0, distance) / lengths
        far = np.sqrt(5.0 * (distance**2).sum(axis=2))
        return (1.0 + far + far**2 / 3.0) * np.exp(-far)

    def _factor(self) -> None:
        self._lower = self._cholesky(self.logs)
        white = np.linalg.solve(self._lower, self._values)
        self._variance = max(float(white @ white) / len(white), 1e-12)
        self._weights = np.linalg.solve(self._lower.T, white)

    def believe(self, point: Sequence[float]) -> None:
        """Adds a point with its predicted value, so that the next proposals of a batch go elsewhere."""
        (mean,), _ = self.predict([point])
        variance = self._variance
        self._points = np.vstack([self._points, point])
        self._noise = np.append(self._noise, float(np.min(self._noise)))
        self._values = np.append(self._values, (mean - self._center) / self._scale)
        self._factor()
        self._variance = variance

    def weights(self, points: Any) -> Any:
        """The kernel between points and the measured ones: how much each measured point tells about a point."""
        return self._kernel(np.asarray(points, float), self._points, np.exp(self.logs[:-1]))

    def predict(self, points: Any) -> tuple[Any, Any]:
        """Mean and standard deviation of the function at each point."""
        between = self.weights(points)
        mean = self._center + self._scale * (between @ self._weights)
        known = (np.linalg.solve(self._lower, between.T) ** 2).sum(axis=0)
        deviation = self._scale * np.sqrt(self._variance * np.maximum(1.0 - known, 1e-12))
        return mean, deviation
