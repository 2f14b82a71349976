"""CUBIC (RFC 9438) with HyStart as a plug-in: the same trajectory as the built-in one, which computes as Linux 6.1."""

import pauseframe as pf

SCALE = 1024
OFFSET_MAX = 1 << 18
NONE = -1
INFINITE = 1 << 62

ACK_DELTA = 2_000
SAMPLES_MIN = 8
GSO_MAX_SIZE = 65_536


@pf.congestion_control("cubic_py")
class Cubic:
    """CUBIC (RFC 9438) with HyStart in Python"""

    beta = pf.constant(0.7, "Share of the window kept at congestion (RFC 9438 §4.6: 0.7)", range=(0.1, 0.99))
    c = pf.constant(0.4, "C in segments per second cubed (RFC 9438 §5.1: 0.4)", range=(0.01, 1000.0))
    fast_convergence = pf.constant(True, "Leave room when the window at congestion has shrunk (RFC 9438 §4.7)")
    friendly = pf.constant(True, "Never slower than Reno (RFC 9438 §4.3)")
    hystart = pf.constant(True, "Leave slow start by HyStart, before a loss")
    hystart_low_window = pf.constant(16, "Smallest window at which HyStart looks, in segments", range=(2, 1_000_000))
    tick = pf.constant("1 ms", "Clock tick (Linux with HZ 1000: 1 ms)", range=("1 us", "100 ms"))

    beta_scaled: int = 0
    c_scaled: int = 0
    friendly_scale: int = 0
    cnt: int = 0
    acked: int = 0
    w_max: int = 0
    origin: int = 0
    k: int = 0
    epoch_start: int = NONE
    w_est: int = 0
    w_est_acked: int = 0
    last_cwnd: int = 0
    last_time: int = 0
    delay_min: int = 0

    found: bool = False
    samples: int = 0
    round_start: int = 0
    last_ack: int = 0
    end_seq: int = 0
    rtt_min: int = INFINITE

    def init(self):
        self.beta_scaled = int(self.beta * SCALE + 0.5)
        self.c_scaled = max(int(self.c * SCALE / 10 + 0.5), 1) * 10
        self.friendly_scale = 8 * (SCALE + self.beta_scaled) // 3 // (SCALE - self.beta_scaled)

    def on_ack(self, window, ack):
        if ack.rtt == 0:
            return
        if self.epoch_start != NONE and max(ack.now // self.tick - self.epoch_start, 0) < pf.SECOND // self.tick:
            return
        delay = max(ack.rtt // pf.MICROSECOND, 1)
        if self.delay_min == 0 or delay < self.delay_min:
            self.delay_min = delay
        if self.hystart and window.cwnd < window.ssthresh and leaves_slow_start(self, window, ack, delay):
            window.ssthresh = window.cwnd

    def increase(self, window, ack):
        rest = pf.slow_start(window, ack.acked)
        if rest == 0:
            return
        update(self, window.cwnd // window.mss, rest, window.mss, ack.now // self.tick)
        step = self.cnt * window.mss
        if self.acked >= step:
            self.acked = 0
            window.cwnd += window.mss
        self.acked += rest
        if self.acked >= step:
            window.cwnd += self.acked // step * window.mss
            self.acked %= step

    def reduced(self, window, cause):
        cwnd = window.cwnd // window.mss
        self.epoch_start = NONE
        if cwnd < self.w_max and self.fast_convergence:
            self.w_max = cwnd * (SCALE + self.beta_scaled) // (2 * SCALE)
        else:
            self.w_max = cwnd
        return max(cwnd * self.beta_scaled // SCALE, 2) * window.mss

    def forget_earned(self):
        self.acked = 0

    def on_timeout(self):
        self.cnt = 0
        self.w_max = 0
        self.last_cwnd = 0
        self.last_time = 0
        self.delay_min = 0
        self.epoch_start = NONE
        self.found = False
        self.samples = 0
        self.round_start = 0
        self.last_ack = 0
        self.end_seq = 0
        self.rtt_min = INFINITE

    def on_restart(self, idle):
        if self.epoch_start != NONE:
            self.epoch_start += idle // self.tick


def update(self, cwnd, acked, mss, now):
    """Sets `cnt`, the number of ACKed segments per segment of window growth, at most once per tick."""
    self.w_est_acked += acked
    since = max(now - self.last_time, 0)
    if self.last_cwnd == cwnd and since <= pf.SECOND // self.tick // 32 and self.cnt > 0:
        return
    if self.epoch_start == NONE or now != self.last_time:
        self.last_cwnd = cwnd
        self.last_time = now
        if self.epoch_start == NONE:
            self.epoch_start = now
            self.w_est_acked = acked
            self.w_est = cwnd
            self.origin = max(self.w_max, cwnd)
            self.k = cube_root((1 << 40) // self.c_scaled * (self.origin - cwnd))
        goal = target(self, max(now - self.epoch_start, 0))
        self.cnt = cwnd // (goal - cwnd) if goal > cwnd else 100 * cwnd
        if self.w_max == 0:
            self.cnt = min(self.cnt, 20)
    if self.friendly:
        follow_reno(self, cwnd, mss)
    self.cnt = max(self.cnt, 2)


def target(self, ticks):
    """W(t) (RFC 9438 eq. 1) a round trip from now, in segments; t in 1/1024 s."""
    rtt = -(-self.delay_min * pf.MICROSECOND // self.tick)
    t = (ticks + rtt) * self.tick // pf.MICROSECOND * SCALE // pf.MICROSECOND
    offset = min(abs(t - self.k), OFFSET_MAX)
    delta = self.c_scaled * offset**3 >> 40
    return max(self.origin - delta, 0) if t < self.k else self.origin + delta


def follow_reno(self, cwnd, mss):
    """Follows the window that Reno would have."""
    step = max(cwnd * self.friendly_scale >> 3, 1) * mss
    segments = max(self.w_est_acked - 1, 0) // step
    self.w_est += segments
    self.w_est_acked -= segments * step
    if self.w_est > cwnd:
        self.cnt = min(self.cnt, cwnd // (self.w_est - cwnd))


def leaves_slow_start(self, window, ack, delay):
    """HyStart (Ha and Rhee 2008):

    ends slow start if the ACKs of a round span a long time or the RTT grows. Times in microseconds.
    """
    if self.found:
        return False
    now = ack.now // pf.MICROSECOND
    if ack.snd_una > self.end_seq:
        self.round_start = now
        self.last_ack = now
        self.end_seq = ack.snd_nxt
        self.rtt_min = INFINITE
        self.samples = 0
    if window.cwnd >= self.hystart_low_window * window.mss and (
        train_is_long(self, window, ack, now) or delay_is_longer(self, delay)
    ):
        self.found = True
    return self.found


def train_is_long(self, window, ack, now):
    """The ACKs of this round span half of the smallest RTT or more."""
    if max(now - self.last_ack, 0) > ACK_DELTA:
        return False
    self.last_ack = now
    tenths = 20 if window.cwnd < window.ssthresh // 2 else 12
    held = min(4 * GSO_MAX_SIZE * (ack.srtt // pf.MICROSECOND) * 10 // (window.cwnd * tenths), 1_000)
    return now - self.round_start > (self.delay_min + held) // 2


def delay_is_longer(self, delay):
    """The smallest RTT of this round is an eighth above the smallest of all."""
    self.rtt_min = min(self.rtt_min, delay)
    if self.samples < SAMPLES_MIN:
        self.samples += 1
        return False
    return self.rtt_min > self.delay_min + min(max(self.delay_min // 8, 4_000), 16_000)


def cube_root(a):
    """The integer part of the cube root, bit by bit."""
    root = 0
    for shift in range(20, -1, -1):
        larger = root + (1 << shift)
        if larger * larger * larger <= a:
            root = larger
    return root
