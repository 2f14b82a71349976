"""DCTCP (RFC 8257) as a plug-in: the same trajectory as the built-in one."""

import pauseframe as pf


@pf.congestion_control("dctcp_py", exact_ecn=True)
class Dctcp:
    """DCTCP (RFC 8257) in Python"""

    g = pf.constant(1 / 16, "Gain of the estimator (RFC 8257 §4.2: 1/16)", range=(1 / 1024, 1.0))
    alpha_initial = pf.constant(1.0, "First alpha (RFC 8257 §3.3: 1)", range=(0.0, 1.0))
    floor_segments = pf.constant(2, "Smallest window after a cut, in segments (Linux: 2)", range=(1, 1000))
    fixed_point = pf.constant(False, "Linux's arithmetic: alpha in steps of 1/1024, whole segments after a cut")

    estimate: float = 0.0
    bytes_acked: int = 0
    bytes_marked: int = 0
    window_end: int = 0
    earned: int = 0

    def init(self):
        self.estimate = self.alpha_initial

    def on_ack(self, window, ack):
        self.bytes_acked += ack.acked
        if ack.ece:
            self.bytes_marked += ack.acked
        if ack.snd_una >= self.window_end:
            self.estimate = next_estimate(self.estimate, self.g, self.fixed_point, self.bytes_marked, self.bytes_acked)
            self.bytes_acked = 0
            self.bytes_marked = 0
            self.window_end = ack.snd_nxt

    def increase(self, window, ack):
        rest = pf.slow_start(window, ack.acked)
        if rest > 0:
            self.earned += rest
            if self.earned >= window.cwnd:
                self.earned = min(self.earned - window.cwnd, window.cwnd)
                window.cwnd += window.mss

    def reduced(self, window, cause):
        self.earned = 0
        segments = window.cwnd // window.mss
        if cause == pf.ECN and self.fixed_point:
            cut = (segments * int(self.estimate * 1024)) >> 11
            reduced = (segments - cut) * window.mss
        elif cause == pf.ECN:
            reduced = int(window.cwnd * (1 - self.estimate / 2))
        elif self.fixed_point:
            reduced = segments // 2 * window.mss
        else:
            reduced = window.cwnd // 2
        floor = min(self.floor_segments * window.mss, max(window.cwnd, 2 * window.mss))
        return max(reduced, floor)

    def loss_after_ecn(self, window):
        return max(window.cwnd // 2, 2 * window.mss)

    def alpha(self):
        return self.estimate


def next_estimate(estimate, g, fixed_point, marked, acked):
    """Alpha = alpha (1 - g) + g M, once per window (RFC 8257 §3.3); in Linux's arithmetic in units of 1/1024."""
    if not fixed_point:
        return min(max(estimate * (1 - g) + g * (marked / max(acked, 1)), 0.0), 1.0)
    shift = 10
    for candidate in range(9, 0, -1):
        if g >= 1 / (1 << candidate):
            shift = candidate
    scaled = int(estimate * 1024)
    decay = scaled if scaled >> shift == 0 else scaled >> shift
    marks = (marked << (10 - shift)) // max(acked, 1)
    return min(scaled - decay + marks, 1024) / 1024
