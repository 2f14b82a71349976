"""TIMELY (Mittal et al., SIGCOMM 2015, Algorithm 1), one reaction a round trip."""

import pauseframe as pf


@pf.rate_control("timely_py")
class Timely:
    """TIMELY (Mittal et al., SIGCOMM 2015)"""

    low = pf.constant("50 us", "Below this round trip the rate rises")
    high = pf.constant("500 us", "Above this round trip the rate falls")
    minimum = pf.constant("20 us", "Unit of time of the gradient")
    gain = pf.constant(0.875, "Weight of the new difference")
    beta = pf.constant(0.8, "Multiplicative decrease")

    last: int = 0
    difference: float = 0.0
    rises: int = 0
    beyond: int = 0

    def on_ack(self, pair, ack):
        if ack.una <= self.beyond or ack.rtt == 0:
            return
        self.beyond = ack.nxt
        rtt = ack.rtt // 1000
        last = self.last
        self.last = rtt
        if last == 0:
            return
        self.difference = (1.0 - self.gain) * self.difference + self.gain * (rtt - last)
        gradient = self.difference / (self.minimum // 1000)
        if rtt < self.low // 1000:
            rise(self, pair)
        elif rtt > self.high // 1000:
            fall(self, pair, 1.0 - self.beta * (1.0 - self.high // 1000 / rtt))
        elif gradient <= 0.0:
            rise(self, pair)
        else:
            fall(self, pair, max(1.0 - self.beta * gradient, 0.0))


def rise(self, pair):
    step = pair.line_rate // 1000
    pair.rate = min(pair.rate + (step if self.rises < 5 else step * 5), pair.line_rate)
    self.rises += 1


def fall(self, pair, factor):
    pair.rate = max(int(pair.rate * factor), pair.line_rate // 100)
    self.rises = 0
