//! The receive buffer and the window that it allows: fixed, Linux's dynamic right-sizing, or FreeBSD's growth.
//!
//! Linux is 6.1 with `tcp_adv_win_scale` 1: half of the buffer is window, the other half pays for `sk_buff`s
//! (`tcp_init_buffer_space`, `tcp_grow_window`, `tcp_rcv_space_adjust`, `__tcp_select_window`). Kernels from 6.6 on
//! measure that share (`scaling_ratio`) instead; that is left out, as are memory pressure and `tcp_clamp_window`.
//! FreeBSD is `tcp_do_segment` of version 9: a step a round trip while almost a buffer arrives in it.

use crate::config::{ReceiveBuffer, TcpConfig};
use crate::segment::{Segment, TIMESTAMPS_OPTION_BYTES};
use pauseframe_units::{Span, Time};

/// What an `sk_buff` takes beyond its data: 256 for itself, 512 for its head (`SKB_TRUESIZE` of a packet whose data lie
/// in page fragments; the reference runs agree: a full 6 MiB buffer announces 3,144,704 bytes).
const SKB_OVERHEAD_BYTES: u64 = 768;
/// `SKB_TRUESIZE(MAX_TCP_HEADER)`, for what a buffer must hold to give a window of one segment.
const SKB_LINEAR_BYTES: u64 = 192 + 576;
/// The window field of a SYN is not scaled.
const MAX_SYN_WINDOW: u64 = 65_535;

/// The buffer of one connection.
#[derive(Clone, Debug)]
pub(crate) enum ReceiveBufferState {
    /// This many bytes.
    Fixed { size: u32, mss: u32 },
    /// Linux.
    Linux(LinuxReceiveBuffer),
    /// FreeBSD.
    Freebsd(FreebsdReceiveBuffer),
}

impl ReceiveBufferState {
    /// `opens`: this side sends the SYN.
    pub(super) fn new(config: &TcpConfig, mss: u32, opens: bool) -> ReceiveBufferState {
        let (initial, max) = (config.receive_buffer_initial, config.receive_buffer_max);
        match config.receive_buffer {
            ReceiveBuffer::Fixed => ReceiveBufferState::Fixed { size: config.receive_window, mss },
            ReceiveBuffer::Linux => {
                // `tcp_connect_init`: when the SYN leaves, it is not known whether segments will have timestamps.
                let syn_mss = mss + if opens && config.timestamps { TIMESTAMPS_OPTION_BYTES } else { 0 };
                let sizes = [u64::from(initial), u64::from(max)];
                ReceiveBufferState::Linux(LinuxReceiveBuffer::new(sizes, mss, syn_mss))
            }
            ReceiveBuffer::Freebsd => ReceiveBufferState::Freebsd(FreebsdReceiveBuffer {
                size: initial,
                max: max.max(initial),
                step: config.receive_buffer_step,
                mss,
                since: None,
                count: 0,
            }),
        }
    }

    /// The window of a SYN, or the first window without a handshake.
    pub(super) fn initial_receive_window(&self) -> u32 {
        match self {
            ReceiveBufferState::Fixed { size, .. } => *size,
            ReceiveBufferState::Linux(linux) => linux.syn_window(),
            ReceiveBufferState::Freebsd(freebsd) => freebsd.size.min(MAX_SYN_WINDOW as u32),
        }
    }

    /// The largest possible window.
    pub(super) fn max_window(&self) -> u32 {
        match self {
            ReceiveBufferState::Fixed { size, .. } => *size,
            // As `tcp_select_initial_window`, which looks at the whole of tcp_rmem[2].
            ReceiveBufferState::Linux(linux) => linux.max.min(1 << 30) as u32,
            ReceiveBufferState::Freebsd(freebsd) => freebsd.max,
        }
    }

    /// The window beyond RCV.NXT while `held` bytes wait for the reader or above a gap.
    pub(super) fn select_window(&self, held: u64) -> u32 {
        match self {
            // What waits above a gap lies within the window.
            ReceiveBufferState::Fixed { size, mss } => fixed_buffer_window(*size, *mss, held),
            ReceiveBufferState::Linux(linux) => linux.select_window(held),
            ReceiveBufferState::Freebsd(freebsd) => fixed_buffer_window(freebsd.size, freebsd.mss, held),
        }
    }

    /// The window while its right edge stays where it is, with `rest` bytes unused: Linux rounds it up (`tcp_select_window`).
    pub(super) fn same_edge_window(&self, rest: u32) -> u32 {
        match self {
            ReceiveBufferState::Linux(linux) => rest.next_multiple_of(1 << linux.scale),
            ReceiveBufferState::Fixed { .. } | ReceiveBufferState::Freebsd(_) => rest,
        }
    }

    /// Whether a window update should be sent now. `rest`: unused bytes of the announced window.
    pub(super) fn needs_window_update(&self, held: u64, rest: u32) -> bool {
        let offer = self.select_window(held);
        match self {
            // `tcp_cleanup_rbuf`.
            ReceiveBufferState::Linux(linux) => {
                2 * u64::from(rest) <= linux.clamp && offer > 0 && u64::from(offer) >= 2 * u64::from(rest)
            }
            // RFC 9293 §3.8.6.2.2, with BSD's two segments (`tcp_output`).
            ReceiveBufferState::Fixed { size, mss }
            | ReceiveBufferState::Freebsd(FreebsdReceiveBuffer { size, mss, .. }) => {
                offer.saturating_sub(rest) >= (2 * mss).min(size / 2).max(1)
            }
        }
    }

    /// The handshake is over.
    pub(super) fn on_established(&mut self, now: Time) {
        if let ReceiveBufferState::Linux(linux) = self {
            linux.measured_at = now;
        }
    }

    /// Processes in-order data up to `rcv_nxt`. `announced`: window of the last ACK; `held`: bytes waiting, including this segment. True if the
    /// window will grow.
    pub(super) fn on_data(
        &mut self,
        segment: &Segment,
        frame: u32,
        now: Time,
        rcv_nxt: u64,
        announced: u64,
        held: u64,
    ) -> bool {
        match self {
            ReceiveBufferState::Fixed { .. } => false,
            ReceiveBufferState::Linux(linux) => {
                linux.measure_timestamp_rtt(segment, now);
                linux.measure_window_rtt(now, rcv_nxt, announced);
                segment.len >= 128 && linux.grow_window(u64::from(segment.len), u64::from(frame), held)
            }
            ReceiveBufferState::Freebsd(freebsd) => {
                freebsd.on_data(segment);
                false
            }
        }
    }

    /// Processes a segment above a gap, while `held` bytes waited before it. True if the window will grow: Linux grows
    /// it in `tcp_data_queue_ofo`, of whatever length the segment is.
    pub(super) fn on_ofo_data(&mut self, len: u32, frame: u32, held: u64) -> bool {
        match self {
            ReceiveBufferState::Linux(linux) => linux.grow_window(u64::from(len), u64::from(frame), held),
            ReceiveBufferState::Fixed { .. } | ReceiveBufferState::Freebsd(_) => false,
        }
    }

    /// The application has read up to `read`.
    pub(super) fn on_read(&mut self, read: u64, now: Time) {
        if let ReceiveBufferState::Linux(linux) = self {
            linux.adjust_space(read, now);
        }
    }

    /// An ACK with timestamp `stamp` leaves.
    pub(super) fn on_timestamp_sent(&mut self, stamp: u32) {
        if let ReceiveBufferState::Freebsd(freebsd) = self {
            freebsd.since.get_or_insert(stamp);
        }
    }

    /// Bytes that the buffer has.
    #[cfg(test)]
    pub(super) fn size(&self) -> u64 {
        match self {
            ReceiveBufferState::Fixed { size, .. } => u64::from(*size),
            ReceiveBufferState::Linux(linux) => linux.size,
            ReceiveBufferState::Freebsd(freebsd) => u64::from(freebsd.size),
        }
    }

    /// The round-trip time that the receiver has measured, if it has.
    pub(super) fn rcv_rtt(&self) -> Option<Span> {
        match self {
            ReceiveBufferState::Linux(linux) => (linux.rtt8 > Span::ZERO).then(|| linux.rtt8 / 8),
            _ => None,
        }
    }
}

/// The smallest shift that lets every window up to `largest` be written in 16 bits, at most 14 (RFC 7323 §2.3).
pub(super) fn window_scale_for(largest: u32) -> u8 {
    (32 - (largest >> 16).leading_zeros()).min(14) as u8
}

/// RFC 9293 §3.8.6.2.2: what is free, or nothing where that is less than a segment.
fn fixed_buffer_window(size: u32, mss: u32, held: u64) -> u32 {
    let free = u64::from(size).saturating_sub(held) as u32;
    if free < mss.min(size / 2) { 0 } else { free }
}

/// The part of `space` bytes of buffer that counts as window: `tcp_win_from_space` with `tcp_adv_win_scale` 1.
fn window_from_space(space: u64) -> u64 {
    space - space / 2
}

/// What `held` bytes occupy in full segments.
fn truesize(held: u64, mss: u64) -> u64 {
    held + held.div_ceil(mss) * SKB_OVERHEAD_BYTES
}

/// The fields of `tcp_sock` that determine the window.
#[derive(Clone, Debug)]
pub(crate) struct LinuxReceiveBuffer {
    /// `sk_rcvbuf`.
    size: u64,
    /// `tcp_rmem[2]`.
    max: u64,
    mss: u64,
    /// The window of a SYN is a multiple of it.
    syn_mss: u64,
    /// `window_clamp`.
    clamp: u64,
    /// `rcv_ssthresh`: the window grows up to the clamp as full segments come.
    ssthresh: u64,
    /// `rcvq_space`: bytes read in the last interval, where and when this one began.
    space: u64,
    measured_from: u64,
    measured_at: Time,
    /// `rcv_rtt_est`: eight times the round-trip time, the window that is being timed, the last echo used.
    rtt8: Span,
    timed_to: u64,
    timed_from: Time,
    last_echo: u32,
    scale: u8,
}

impl LinuxReceiveBuffer {
    fn new([initial, max]: [u64; 2], mss: u32, syn_mss: u32) -> LinuxReceiveBuffer {
        let (mss, syn_mss) = (u64::from(mss), u64::from(syn_mss));
        let (full, max) = (window_from_space(initial), max.max(initial));
        // `tcp_init_buffer_space`: one segment is reserved.
        let clamp = if full > 2 * mss { (full - mss).max(2 * mss) } else { full };
        let scale = window_scale_for(max.min(1 << 30) as u32);
        let mut buffer = LinuxReceiveBuffer {
            size: initial,
            max,
            mss,
            syn_mss,
            clamp,
            ssthresh: 0,
            space: 0,
            measured_from: 0,
            measured_at: Time::ZERO,
            rtt8: Span::ZERO,
            timed_to: 0,
            timed_from: Time::MAX,
            last_echo: 0,
            scale,
        };
        let syn = u64::from(buffer.syn_window());
        buffer.ssthresh = syn.min(clamp);
        // TCP_INIT_CWND segments.
        buffer.space = buffer.ssthresh.min(10 * mss);
        buffer
    }

    /// `tcp_select_initial_window`: whole segments.
    fn syn_window(&self) -> u32 {
        let full = window_from_space(self.size);
        let whole = if full > self.syn_mss { full - full % self.syn_mss } else { full };
        whole.min(MAX_SYN_WINDOW) as u32
    }

    /// `__tcp_select_window`.
    fn select_window(&self, held: u64) -> u32 {
        let space = window_from_space(self.size.saturating_sub(truesize(held, self.mss)));
        let allowed = window_from_space(self.size);
        let full = self.clamp.min(allowed);
        if space < full / 2 && (space < allowed / 16 || space < self.mss.min(full)) {
            return 0;
        }
        // Rounded up, so that the shift loses nothing.
        (space.min(self.ssthresh) as u32).next_multiple_of(1 << self.scale)
    }

    /// `tcp_grow_window`.
    fn grow_window(&mut self, len: u64, frame: u64, held: u64) -> bool {
        let space = window_from_space(self.size.saturating_sub(truesize(held, self.mss)));
        let room = self.clamp.min(space).saturating_sub(self.ssthresh);
        if room == 0 {
            return false;
        }
        let step = if window_from_space(frame + SKB_OVERHEAD_BYTES) <= frame {
            2 * self.mss
        } else {
            self.growth_step(frame)
        };
        if step == 0 {
            return false;
        }
        self.ssthresh += room.min(step.max(2 * len));
        true
    }

    /// `__tcp_grow_window`: segments with high overhead grow the window less, especially a large one.
    fn growth_step(&self, len: u64) -> u64 {
        let mut size = window_from_space(len + SKB_OVERHEAD_BYTES) / 2;
        let mut window = window_from_space(self.max) / 2;
        while self.ssthresh <= window {
            if size <= len {
                return 2 * self.mss;
            }
            (size, window) = (size / 2, window / 2);
        }
        0
    }

    /// `tcp_rcv_rtt_measure_ts`: the clock of RFC 7323 timestamps, which counts milliseconds, and at least one.
    fn measure_timestamp_rtt(&mut self, segment: &Segment, now: Time) {
        let echo = segment.stamps.echo;
        if echo == 0 || std::mem::replace(&mut self.last_echo, echo) == echo {
            return;
        }
        let delta = crate::segment::timestamp_at(now).wrapping_sub(echo);
        if u64::from(segment.len) < self.mss || delta >= i32::MAX as u32 / 1000 {
            return; // Later ones are not of our clock.
        }
        let sample = Span::from_ms(u64::from(delta.max(1)));
        self.rtt8 = if self.rtt8 == Span::ZERO { sample * 8 } else { self.rtt8 - self.rtt8 / 8 + sample };
    }

    /// `tcp_rcv_rtt_measure`: receiving a whole window takes at least a round trip; keeps the minimum.
    fn measure_window_rtt(&mut self, now: Time, rcv_nxt: u64, announced: u64) {
        if self.timed_from != Time::MAX {
            if rcv_nxt < self.timed_to {
                return;
            }
            let sample = now.saturating_since(self.timed_from).max(Span::from_us(1)) * 8;
            if self.rtt8 == Span::ZERO || sample < self.rtt8 {
                self.rtt8 = sample;
            }
        }
        self.timed_to = rcv_nxt + announced;
        self.timed_from = now;
    }

    /// `tcp_rcv_space_adjust`: once per round trip, if the application read more than in any earlier one.
    fn adjust_space(&mut self, read: u64, now: Time) {
        if self.rtt8 == Span::ZERO || now.saturating_since(self.measured_at) < self.rtt8 / 8 {
            return;
        }
        let copied = read - self.measured_from;
        if copied > self.space {
            // Twice for losses, 16 segments for variation, and as much again as the flow has grown, twice.
            let window = 2 * copied + 16 * self.mss;
            let growth = u128::from(window) * u128::from(copied - self.space) / u128::from(self.space.max(1));
            let window = window.saturating_add(u64::try_from(2 * growth).unwrap_or(u64::MAX));
            let size = (window / self.mss).saturating_mul(self.min_size()).min(self.max);
            if size > self.size {
                self.size = size;
                self.clamp = window_from_space(size);
            }
            self.space = copied;
        }
        self.measured_from = read;
        self.measured_at = now;
    }

    /// The buffer that gives a window of one segment, in steps of 128 bytes.
    fn min_size(&self) -> u64 {
        let mut space = self.mss + SKB_LINEAR_BYTES;
        while window_from_space(space) < self.mss {
            space += 128;
        }
        space
    }
}

/// The fields of FreeBSD's `tcpcb` and `sockbuf`.
#[derive(Clone, Debug)]
pub(crate) struct FreebsdReceiveBuffer {
    /// `sb_hiwat`.
    size: u32,
    /// `net.inet.tcp.recvbuf_max`.
    max: u32,
    /// `net.inet.tcp.recvbuf_inc`.
    step: u32,
    mss: u32,
    /// `rfbuf_ts`: stamp of the ACK whose echo ends the round trip that is being measured.
    since: Option<u32>,
    /// `rfbuf_cnt`: bytes since.
    count: u32,
}

impl FreebsdReceiveBuffer {
    /// The automatic sizing of `tcp_do_segment`; it needs timestamps.
    fn on_data(&mut self, segment: &Segment) {
        let Some(since) = self.since.filter(|_| segment.stamps.echo != 0) else { return };
        // Strictly later, and within a second.
        if (1..1000).contains(&segment.stamps.echo.wrapping_sub(since)) {
            if self.count > self.size / 8 * 7 {
                self.size = self.size.saturating_add(self.step).min(self.max);
            }
            self.since = None;
            self.count = 0;
        } else {
            self.count = self.count.saturating_add(segment.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Timestamps;

    const MSS: u32 = 1448;

    /// `__tcp_grow_window` by hand: half of 64 KB is window, half of that 16 KB; 896 bytes of `sk_buff` count half of it, 224.
    /// That fits 128 bytes of data after one halving, for windows up to 8 KB, and 224 bytes at once.
    #[test]
    fn segments_with_much_overhead_grow_small_windows_only() {
        let mut buffer = LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS);
        for (len, ssthresh, step) in [
            (128, 8192, 2 * 1448),
            (128, 8193, 0),
            (256, 16_384, 2 * 1448),
            (255, 8192, 2 * 1448),
            (255, 8193, 0),
            (768, 16_384, 2 * 1448),
            (768, 16_385, 0),
            // 770 / 4 = 192, 96, 48: three halvings of 16 KB.
            (2, 128, 2 * 1448),
            (2, 129, 0),
        ] {
            buffer.ssthresh = ssthresh;
            assert_eq!(buffer.growth_step(len), step, "{len} {ssthresh}");
        }
    }

    /// `tcp_event_data_recv` looks at segments of 128 bytes and more. `tcp_grow_window`: half of 65,536 less a segment is
    /// the clamp of the window, and 768 bytes are half of what their `sk_buff` takes: they grow any window by two segments,
    /// smaller ones not one above a quarter of the buffer.
    #[test]
    fn full_segments_grow_large_windows() {
        for (len, ssthresh, grown) in [
            (127, 1000, 0),
            (128, 1000, 2 * 1448),
            (767, 16_384, 2 * 1448),
            (767, 16_385, 0),
            (768, 16_385, 2 * 1448),
            (1448, 16_385, 2 * 1448),
            (2896, 16_385, 2 * 2896),
            (1448, 31_000, 320),
            (1448, 31_320, 0),
        ] {
            let mut linux = LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS);
            linux.ssthresh = ssthresh;
            let mut buffer = ReceiveBufferState::Linux(linux);
            let segment = Segment { len, ..Segment::default() };
            let grows = buffer.on_data(&segment, len, Time::ZERO, u64::from(len), 0, 0);
            let ReceiveBufferState::Linux(linux) = buffer else { panic!("it is Linux's") };
            assert_eq!((grows, linux.ssthresh), (grown > 0, ssthresh + grown), "{len} {ssthresh}");
        }
    }

    #[test]
    fn a_buffer_for_one_segment_grows_by_128_bytes() {
        // Half of 2216 + 6 * 128 = 2984 bytes is the first window of a segment.
        assert_eq!(LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS).min_size(), 2984);
        // Half of 536 + 768 bytes is more than one.
        assert_eq!(LinuxReceiveBuffer::new([65_536, 65_536], 536, 536).min_size(), 1304);
    }

    /// `tcp_do_segment`: a step if more than seven eighths of the buffer came within the round trip, up to the maximum.
    #[test]
    fn a_freebsd_buffer_grows_if_almost_a_buffer_arrives_in_a_round_trip() {
        let grown = |size, bytes, echo| {
            let (max, step) = (10_000, 1500);
            let mut buffer = FreebsdReceiveBuffer { size, max, step, mss: MSS, since: Some(5), count: 0 };
            let data =
                |echo, len| Segment { len, stamps: Timestamps { value: 1, echo }, ..Segment::default() };
            buffer.on_data(&data(5, bytes));
            buffer.on_data(&data(echo, 0));
            (buffer.size, buffer.since, buffer.count)
        };
        assert_eq!(grown(8000, 7000, 6), (8000, None, 0));
        assert_eq!(grown(8000, 7001, 6), (9500, None, 0));
        assert_eq!(grown(9500, 9000, 6), (10_000, None, 0));
        // No later echo, one of more than a second, and none at all.
        for echo in [5, 1005, 0] {
            assert_eq!(grown(8000, 7001, echo), (8000, Some(5), 7001), "{echo}");
        }
        assert_eq!(grown(8000, 7001, 1004), (9500, None, 0));
    }

    /// `tcp_cleanup_rbuf`: at least twice what is left, and only while that is at most half of the clamp. 22 segments fit
    /// the half of 64 KiB that is window, 31,856 bytes; the clamp has one less than 32,768, 31,320 bytes. 10 segments that wait with 768 bytes of
    /// overhead each leave half of 65,536 - 22,160 = 43,376 bytes.
    #[test]
    fn linux_announces_a_window_of_twice_what_is_left() {
        let buffer = ReceiveBufferState::Linux(LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS));
        for (held, rest, announces) in [
            (0, 15_660, true),
            (0, 15_661, false),
            (14_480, 10_844, true),
            (14_480, 10_845, false),
            // Nothing to offer.
            (65_536, 0, false),
        ] {
            assert_eq!(buffer.needs_window_update(held, rest), announces, "{held} {rest}");
        }
    }

    /// RFC 9293 §3.8.6.2.2: the smaller of a segment and half of the buffer, or nothing.
    #[test]
    fn a_fixed_buffer_offers_no_less_than_a_segment() {
        for (size, held, window) in
            [(10_000, 10_000 - 1448, 1448), (10_000, 10_001 - 1448, 0), (2000, 1000, 1000), (2000, 1001, 0)]
        {
            assert_eq!(fixed_buffer_window(size, MSS, held), window, "{size} {held}");
        }
    }

    /// RFC 7323 §2.3: at most 14, though a window of 2^30 bytes has 31 bits.
    #[test]
    fn the_largest_window_shifted_has_sixteen_bits() {
        for (largest, shift) in [
            (0, 0),
            (65_535, 0),
            (65_536, 1),
            (131_071, 1),
            (131_072, 2),
            (1 << 29, 14),
            (1 << 30, 14),
            (u32::MAX, 14),
        ] {
            assert_eq!(window_scale_for(largest), shift, "{largest}");
        }
    }

    /// `__tcp_select_window`: below half of the full window none that is less than a 16th of the buffer's, or than a segment or all of it. The
    /// buffer without what waits, which takes 768 bytes more for each segment, is halved.
    #[test]
    fn linux_closes_a_window_that_would_be_silly() {
        for (size, held, window) in [
            // Of 32,768 a 16th: (65,536 - 39,937 - 28 * 768) / 2.
            (65_536, 39_937, 2048),
            (65_536, 39_938, 0),
            // A segment is more than the 16th of 16,384.
            (32_768, 19_121, 1448),
            (32_768, 19_122, 0),
            // The whole window is less than a segment: half of it.
            (2000, 233, 500),
            (2000, 234, 0),
        ] {
            let buffer = LinuxReceiveBuffer::new([size, size], MSS, MSS);
            assert_eq!(buffer.select_window(held), window, "{size} {held}");
        }
    }

    /// RFC 9293 §3.8.6.2.2: an update for two segments (BSD) or half of the buffer.
    #[test]
    fn a_fixed_buffer_announces_half_of_it_at_most() {
        for (size, rest, announces) in [
            (10_000, 10_000 - 2896, true),
            (10_000, 10_001 - 2896, false),
            (2000, 1000, true),
            (2000, 1001, false),
            (1, 0, true),
            (1, 1, false),
        ] {
            let buffer = ReceiveBufferState::Fixed { size, mss: MSS };
            assert_eq!(buffer.needs_window_update(0, rest), announces, "{size} {rest}");
        }
    }

    /// `tcp_rcv_rtt_measure_ts`: an echo counts once, whatever the length of its segment, and none of half an hour.
    #[test]
    fn the_receiver_times_each_echo_once() {
        const LONGEST: u64 = i32::MAX as u64 / 1000;
        for (lens, ms, is_timed) in [
            (&[1448][..], 100, true),
            (&[100, 1448], 100, false),
            (&[1448], LONGEST - 1, true),
            (&[1448], LONGEST, false),
        ] {
            let mut buffer = LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS);
            // The clock of timestamps begins at 1.
            let stamps = Timestamps { value: 1, echo: 1 };
            for len in lens {
                let segment = Segment { len: *len, stamps, ..Segment::default() };
                buffer.measure_timestamp_rtt(&segment, Time::ZERO + Span::from_ms(ms));
            }
            assert_eq!(buffer.rtt8 > Span::ZERO, is_timed, "{lens:?} {ms}");
        }
    }

    /// `tcp_rcv_rtt_measure_ts`: from a full segment on. The clock of timestamps begins at 1: at 9 ms it shows 10.
    #[test]
    fn the_receiver_times_full_segments() {
        for (len, rtt) in [(1447, None), (1448, Some(5)), (2896, Some(5))] {
            let mut buffer = LinuxReceiveBuffer::new([65_536, 65_536], MSS, MSS);
            let stamps = Timestamps { value: 1, echo: 5 };
            let segment = Segment { len, stamps, ..Segment::default() };
            buffer.measure_timestamp_rtt(&segment, Time::ZERO + Span::from_ms(9));
            let measured = ReceiveBufferState::Linux(buffer).rcv_rtt();
            assert_eq!(measured, rtt.map(Span::from_ms), "{len}");
        }
    }
}
