"""A class of traffic: its code point, its queue, and whether switches may mark it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL = 48, 6
"""Code point and priority of routing protocols (CS6), which are also those of CNPs by default."""


@dataclass(frozen=True)
class TrafficClass:
    """The traffic of one transport: its code point, its queue, and whether switches may mark it."""

    path: str
    """Table of the scenario: `transport`, or `transports.NAME`."""
    kind: str
    """tcp, rdma or udp."""
    priority: int
    """802.1p priority, traffic class and queue."""
    dscp: int
    lossless: bool
    ecn: bool
    """Data packets are ECN-capable (RFC 3168)."""
    keys: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the transport."""
        return self.path.removeprefix("transports.")
