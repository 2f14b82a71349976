//! The connection cache: what a connection leaves to the next one to the same peer.
//!
//! Linux 6.1 (`net/ipv4/tcp_metrics.c`): the RTT, which gives the RTO of the first flight; ssthresh only with
//! `tcp_no_ssthresh_metrics_save` = 0. FreeBSD 9 (`tcp_hostcache.c`, `tcp_mss`): RTT, its deviation and ssthresh,
//! averaged with what was known. cee §III-B says of its port that the congestion window is inherited as well: half of
//! the last one, as that kernel has it under `TCP_METRICS_CWND`, but never less than without a cache (the kernel's comment
//! wants it "bigger than RFC3390 suggests"; its code, disabled as broken, has a floor of one segment, and a lone segment waits for
//! the delayed ACK of 100 ms, that is for the RTO). Left out: the reordering metric, expiry (an hour), FreeBSD's
//! minimum of four RTT samples.

use crate::config::CachePolicy;
use crate::connection::Connection;
use crate::recovery::Phase;
use pauseframe_units::Span;

/// What is known of a peer. Windows in bytes; 0 or zero time: nothing yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Round-trip time.
    pub rtt: Span,
    /// Its deviation.
    pub rttvar: Span,
    /// Slow start threshold.
    pub ssthresh: u64,
    /// Congestion window.
    pub cwnd: u64,
}

impl Connection {
    /// Starts from what earlier connections to this peer left, once the handshake is over. Call it right after `open` or
    /// `accept`.
    pub fn inherit(&mut self, metrics: &Metrics) {
        if self.config.cache == CachePolicy::Off || *metrics == Metrics::default() {
            return;
        }
        self.life_mut().inherited = Some(*metrics);
        if self.is_established() {
            self.apply_inheritance();
        }
    }

    /// `tcp_init_metrics`; FreeBSD `cc_conn_init`.
    pub(crate) fn apply_inheritance(&mut self) {
        let Some(metrics) = self.life.as_mut().and_then(|life| life.inherited.take()) else { return };
        let rto = &self.config.rto;
        let sender = &mut self.sender;
        let mss = u64::from(sender.window.mss);
        match self.config.cache {
            CachePolicy::Off => {}
            CachePolicy::Linux | CachePolicy::LinuxSsthresh => {
                if metrics.rtt > sender.rtt.srtt().unwrap_or_default() {
                    sender.rtt.set_rto(metrics.rtt + (metrics.rtt * 2).max(rto.min), rto);
                }
                if self.config.cache == CachePolicy::LinuxSsthresh && metrics.ssthresh > 0 {
                    sender.window.ssthresh = metrics.ssthresh;
                }
            }
            CachePolicy::Freebsd | CachePolicy::Cee => {
                if metrics.rtt > Span::ZERO {
                    let rttvar = if metrics.rttvar > Span::ZERO { metrics.rttvar } else { metrics.rtt };
                    sender.rtt.inherit(metrics.rtt, rttvar, rto);
                }
                if metrics.ssthresh > 0 {
                    sender.window.ssthresh = metrics.ssthresh.max(2 * mss);
                }
                if self.config.cache == CachePolicy::Cee && metrics.cwnd > 0 {
                    // What the handshake left is the initial window, or a segment after a lost SYN.
                    let floor = sender.window.cwnd.max(mss);
                    sender.window.cwnd = (metrics.cwnd / 2).min(u64::from(sender.snd_wnd)).max(floor);
                }
            }
        }
    }

    /// Adds what this connection has learnt to what is known of its peer.
    pub fn remember(&self, metrics: &mut Metrics) {
        match self.config.cache {
            CachePolicy::Off => {}
            CachePolicy::Linux | CachePolicy::LinuxSsthresh => self.remember_linux(metrics),
            CachePolicy::Freebsd | CachePolicy::Cee => self.remember_freebsd(metrics),
        }
    }

    /// `tcp_update_metrics`.
    fn remember_linux(&self, metrics: &mut Metrics) {
        let Some(srtt) = self.srtt() else { return };
        // A longer time counts at once, a shorter one by an eighth.
        let shorter = metrics.rtt.0.saturating_sub(srtt.0);
        metrics.rtt = if shorter == 0 { srtt } else { Span(metrics.rtt.0 - shorter / 8) };
        let deviation = Span(shorter / 2).max(self.sender.rtt.rttvar());
        metrics.rttvar = if deviation >= metrics.rttvar {
            deviation
        } else {
            Span(metrics.rttvar.0 - (metrics.rttvar.0 - deviation.0) / 4)
        };
        let (cwnd, ssthresh) = (self.cwnd(), self.ssthresh());
        if ssthresh == u64::MAX {
            // The first slow start is not over.
            if metrics.ssthresh > 0 {
                metrics.ssthresh = metrics.ssthresh.max(cwnd / 2);
            }
            metrics.cwnd = metrics.cwnd.max(cwnd);
        } else if cwnd >= ssthresh && self.sender.phase == Phase::Open {
            metrics.ssthresh = (cwnd / 2).max(ssthresh);
            metrics.cwnd = average(metrics.cwnd, cwnd);
        } else {
            metrics.cwnd = average(metrics.cwnd, ssthresh);
            if metrics.ssthresh > 0 {
                metrics.ssthresh = metrics.ssthresh.max(ssthresh);
            }
        }
    }

    /// `tcp_discardcb` and `tcp_hc_update`.
    fn remember_freebsd(&self, metrics: &mut Metrics) {
        let Some(srtt) = self.srtt() else { return };
        metrics.rtt = Span(average(metrics.rtt.0, srtt.0));
        metrics.rttvar = Span(average(metrics.rttvar.0, self.sender.rtt.rttvar().0));
        if self.ssthresh() != u64::MAX {
            metrics.ssthresh = average(metrics.ssthresh, self.ssthresh());
        }
        metrics.cwnd = average(metrics.cwnd, self.cwnd());
    }
}

/// The mean of what was known and what is, or what is.
fn average(known: u64, new: u64) -> u64 {
    if known == 0 { new } else { known / 2 + new / 2 }
}
