"""What the simulator hands to the methods of plug-ins. Sizes in bytes, times in picoseconds, rates in bit/s."""

from __future__ import annotations

from ctypes import Array, Structure, c_int64
from typing import TYPE_CHECKING, Any, ClassVar

HOPS_MAX = 8
"""Maximum number of hops with telemetry."""


TELEMETRY = {"hops", "hop_rate", "hop_queue", "hop_bytes", "hop_time"}
"""Fields of `PairAck` that need `telemetry=True`."""


def _whole(name: str, value: Any) -> int:
    """The integer of a number, which compiled code would truncate, and wrap if it does not fit."""
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{name} = {number} has more than 64 bits; compiled code would wrap")
    return number


class _Whole(Structure):
    """A structure whose integer fields also accept floats and truncate them, as compiled code does."""

    __slots__ = ()  # a name that is no field raises

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (int, float)) and isinstance(getattr(self, name, None), int):
            value = _whole(name, value)
        super().__setattr__(name, value)


class _Given(_Whole):
    """A structure that the simulator fills, of which a method may set the fields in `writable`."""

    __slots__ = ()
    writable: ClassVar[frozenset[str]] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.writable:
            known = any(name == field[0] for field in self._fields_)
            what = f"{type(self).__name__.lower()}.{name}"
            raise AttributeError(f"{what} can only be read" if known else f"there is no field {what}")
        super().__setattr__(name, value)


def whole_array(length: int) -> type[Array[c_int64]]:
    """An array whose elements accept what integer fields accept."""

    class WholeArray(c_int64 * length):  # type: ignore[misc] # mypy takes it for a value
        def __setitem__(self, index: Any, value: Any) -> None:
            super().__setitem__(index, value if isinstance(index, slice) else _whole(f"element {index}", value))

    return WholeArray


def _integers(*names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, c_int64) for name in names)


class Window(_Given):
    """The congestion window of a connection (RFC 5681 §2); the C structure `pauseframe_window`."""

    __slots__ = ()
    writable = frozenset({"cwnd", "ssthresh", "pacing_rate", "timer", "random"})
    _fields_ = _integers("cwnd", "ssthresh", "pacing_rate", "mss", "random", "timer")
    if TYPE_CHECKING:
        cwnd: int
        """The window in bytes; less than a segment counts as one segment."""
        ssthresh: int
        """Bytes; the largest integer until the first congestion."""
        pacing_rate: int
        """Bit/s; 0: none."""
        mss: int
        """Bytes of a full segment."""
        random: int
        """A random number of 63 bits, another one in each call, decided by the seed (`pauseframe.uniform`)."""
        timer: int
        """Picoseconds since the start of the run at which `on_timer` is called; 0: never. It stands still while the
        connection has nothing to send or to acknowledge."""


class Ack(_Given):
    """What an ACK tells; the C structure `pauseframe_ack`."""

    __slots__ = ()
    _fields_ = _integers("acked", "ece", "snd_una", "snd_nxt", "now", "rtt", "srtt", "open")
    if TYPE_CHECKING:
        acked: int
        """Bytes newly acknowledged, with stack "linux" by SACK too."""
        ece: int
        """1: the ACK carried ECE."""
        snd_una: int
        """First byte that is not acknowledged."""
        snd_nxt: int
        """Next new byte to send."""
        now: int
        """Picoseconds since the start of the run."""
        rtt: int
        """Round-trip time of the newest acknowledged segment; 0: no sample."""
        srtt: int
        """Smoothed round-trip time; 0 before the first sample."""
        open: int
        """1: no recovery and no reduction is under way."""


class Delivery(_Given):
    """A delivery-rate sample (draft-ietf-ccwg-ratesample, as Linux takes it); `pauseframe_delivery` in C."""

    __slots__ = ()
    _fields_ = _integers(
        "now",
        "acked",
        "lost",
        "in_flight",
        "prior_in_flight",
        "delivered",
        "prior_delivered",
        "interval",
        "rate",
        "app_limited",
        "rtt",
        "min_rtt",
        "srtt",
        "total_lost",
        "recovering",
    )
    if TYPE_CHECKING:
        now: int
        """Picoseconds since the start of the run."""
        acked: int
        """Bytes that this ACK newly delivers, by SACK too."""
        lost: int
        """Bytes that this ACK shows to be lost."""
        in_flight: int
        """Bytes in the network after this ACK."""
        prior_in_flight: int
        """Bytes in the network before this ACK."""
        delivered: int
        """Bytes delivered since the connection began."""
        prior_delivered: int
        """What had been delivered when the newest segment of this ACK was sent: a round trip is over when it reaches
        the value that `delivered` had when the round trip began."""
        interval: int
        """Picoseconds in which `delivered - prior_delivered` bytes arrived; 0: no sample."""
        rate: int
        """The delivery rate of the sample in bit/s; 0: no sample."""
        app_limited: int
        """1: the application, not the network, limited the sample."""
        rtt: int
        """Round-trip time of the newest segment of this ACK; 0: no sample."""
        min_rtt: int
        """Smallest round-trip time of the connection; 0: none yet."""
        srtt: int
        """Smoothed round-trip time; 0 before the first sample."""
        total_lost: int
        """Bytes presumed lost since the connection began."""
        recovering: int
        """1: recovery or a reduction is under way."""


class Pair(_Given):
    """A queue pair of RoCEv2; the C structure `pauseframe_pair`."""

    __slots__ = ()
    writable = frozenset({"rate", "window", "timer", "random"})
    _fields_ = _integers("rate", "window", "timer", "now", "line_rate", "mtu", "base_rtt", "links", "random")
    if TYPE_CHECKING:
        rate: int
        """Bit/s at which it sends; more than the line rate counts as the line rate."""
        window: int
        """Bytes that may be in flight; 0: any number. Needs `window=True` in `rate_control`."""
        timer: int
        """Picoseconds since the start of the run at which `on_timer` is called; 0: never."""
        now: int
        """Picoseconds since the start of the run."""
        line_rate: int
        """Bit/s of the host's link."""
        mtu: int
        """Bytes of payload of a full packet."""
        base_rtt: int
        """Round-trip time of the longest path of the idle network."""
        links: int
        """Links on the path."""
        random: int
        """A random number of 63 bits, another one in each call, decided by the seed (`pauseframe.uniform`)."""


class PairAck(_Given):
    """What an acknowledgement tells a queue pair; the C structure `pauseframe_pair_ack`.

    The arrays have one element for each hop from the sender on, and need `telemetry=True` in `rate_control`.
    """

    __slots__ = ()
    _fields_ = (
        *_integers("acked", "packets", "una", "nxt", "rtt", "hops"),
        *((name, c_int64 * HOPS_MAX) for name in ("hop_rate", "hop_queue", "hop_bytes", "hop_time")),
    )
    if TYPE_CHECKING:
        acked: int
        """Bytes newly acknowledged."""
        packets: int
        """Packets newly acknowledged."""
        una: int
        """Bytes acknowledged since the queue pair began."""
        nxt: int
        """Bytes sent since the queue pair began: a round trip is over when `una` passes the `nxt` of its begin."""
        rtt: int
        """Round-trip time of the last packet; 0: no sample."""
        hops: int
        """Number of hops with telemetry, at most 5."""
        hop_rate: Array[c_int64]
        """Bit/s of the link behind the hop."""
        hop_queue: Array[c_int64]
        """Bytes in its queue when the packet left."""
        hop_bytes: Array[c_int64]
        """Bytes that it sent until then; only differences have a meaning."""
        hop_time: Array[c_int64]
        """When the packet left it, in picoseconds; only differences have a meaning."""
