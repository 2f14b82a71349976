"""Swift's delay-based window (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020)."""

import math

import pauseframe as pf


@pf.congestion_control("swift")
class Swift:
    """Swift's delay-based window (Kumar et al., SIGCOMM 2020)"""

    base_target = pf.constant("25 us", "Target delay of a large window (§3.2)", range=("1 us", "10 ms"))
    fs_range = pf.constant("50 us", "What flow scaling adds to it for a small window (§3.2)", range=("0 us", "10 ms"))
    fs_max_cwnd = pf.constant(100.0, "Window in segments from which it adds nothing", range=(1.0, 10000.0))
    ai = pf.constant(1.0, "Segments added in a round trip below the target (§3.1)", range=(0.0, 100.0))
    beta = pf.constant(0.8, "Strength of the decrease above the target (§3.1)", range=(0.0, 1.0))
    max_mdf = pf.constant(0.5, "Largest share of the window given up at once (§3.1)", range=(0.01, 0.5))

    last_decrease: int = 0
    now: int = 0
    rtt: int = 0
    credit: float = 0.0

    def on_ack(self, window, ack):
        self.now = ack.now
        if ack.rtt > 0:
            self.rtt = ack.rtt
        window.ssthresh = min(window.ssthresh, window.cwnd)  # Swift has no slow start

    def increase(self, window, ack):
        target = self.base_target + flow_scaling(self, window.cwnd / window.mss)
        if self.rtt < target:
            self.credit += self.ai * window.mss * ack.acked / window.cwnd
            grown = min(int(self.credit), ack.acked)
            self.credit -= grown
            window.cwnd += grown
        elif self.now - self.last_decrease >= self.rtt:
            excess = (self.rtt - target) / self.rtt
            window.cwnd = max(int(window.cwnd * max(1 - self.beta * excess, 1 - self.max_mdf)), window.mss)
            window.ssthresh = window.cwnd
            self.last_decrease = self.now

    def reduced(self, window, cause):
        self.last_decrease = self.now
        return max(int(window.cwnd * (1 - self.max_mdf)), window.mss)


def flow_scaling(self, segments):
    """The addition to the target, in picoseconds: fs_range for one segment, nothing from fs_max_cwnd segments on."""
    largest = 1 / math.sqrt(self.fs_max_cwnd)
    share = (1 / math.sqrt(segments) - largest) / max(1 - largest, 1e-9)
    return self.fs_range * min(max(share, 0.0), 1.0)
