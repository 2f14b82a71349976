//! Mechanisms of Linux's TCP. Each can be switched off to see its effect, and a test shows that the conformance scripts of a mechanism fail without
//! it (`tests/all/conformance.rs`).

macro_rules! mechanisms {
    ($($variant:ident = $name:literal, $doc:literal;)+) => {
        /// A mechanism of Linux's TCP beyond the RFCs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mechanism {
            $(#[doc = $doc] $variant,)+
        }

        impl Mechanism {
            /// All of them, by name.
            pub const NAMES: &[(&'static str, Mechanism)] = &[$(($name, Mechanism::$variant),)+];
        }
    };
}

mechanisms! {
    AckOfPush = "ack_of_push", "Pushed data are acknowledged when the reader has them (`__tcp_cleanup_rbuf`)";
    AckOfRequest = "ack_of_request", "An ACK that is due goes out before the application's reply (`__tcp_ack_snd_check`)";
    AlphaOfRequest = "alpha_of_request", "An ACK of nothing new ends DCTCP's window too, as a request does (`tcp_in_ack_event`)";
    DctcpLoss = "dctcp_loss", "A loss halves DCTCP's window as it is now, after a cut for ECE too (`dctcp_react_to_loss`)";
    FinWithData = "fin_with_data", "A FIN goes out with or behind data that are not acknowledged (`tcp_send_fin`)";
    DuplicatesDelivered = "duplicates_delivered", "Without SACK a duplicate ACK stands for a delivered packet (`tcp_add_reno_sack`)";
    EmptyProbe = "empty_probe", "The probe of a closed window carries no data (`tcp_xmit_probe_skb`)";
    Frto = "frto", "A timeout is taken back when the originals arrive (`tcp_process_loss`)";
    GroCe = "gro_ce", "GRO merges no frame with CE with one without (`inet_gro_receive`)";
    GroPush = "gro_push", "PSH ends what GRO merges (`tcp_gro_receive`)";
    GrowthAtEnd = "growth_at_end", "The ACK that ends a recovery opens the window like any other (`tcp_cong_control`)";
    PacketCounting = "packet_counting", "Windows and PRR count packets, however short (`tcp_cwnd_reduction`)";
    PrrFromWindow = "prr_from_window", "PRR reduces the window, not what is in flight (`tcp_init_cwnd_reduction`)";
    PushOfFullBuffer = "push_of_full_buffer", "A write that fills the send buffer pushes (`tcp_push`)";
    RecoveryAgain = "recovery_again", "A recovery ends into another one while a loss found during it is not repaired, even if it was sent again (`tcp_time_to_recover`)";
    RttOfSack = "rtt_of_sack", "Where the cumulative ACK gives no round-trip time, SACK does, and restarts the timer (`tcp_ack_update_rtt`, `tcp_clean_rtx_queue`)";
    RttOfTimestamp = "rtt_of_timestamp", "The ACK of a retransmission is timed by the echoed timestamp (`tcp_ack_update_rtt`)";
    SackOfOldAck = "sack_of_old_ack", "The SACK option of an ACK that was overtaken counts (`tcp_ack`, `old_ack`)";
    SmallQueues = "small_queues", "A socket keeps a millisecond of its rate in its host (`tcp_small_queue_check`)";
    TsoAutosize = "tso_autosize", "A super-packet holds a millisecond of the flow's rate (`tcp_tso_autosize`)";
    TsoDefer = "tso_defer", "A small super-packet waits for the next ACK (`tcp_tso_should_defer`)";
    TsoHalfWindow = "tso_half_window", "A super-packet holds half of the window at most (`tcp_cwnd_test`)";
    TsoPush = "tso_push", "The last of a super-packet's frames has PSH (`__tcp_transmit_skb`)";
}

/// Mechanisms that are switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DisabledMechanisms(u32);

impl DisabledMechanisms {
    /// All mechanisms are on.
    pub const NOTHING: DisabledMechanisms = DisabledMechanisms(0);

    pub(crate) fn with(self, mechanism: Mechanism) -> DisabledMechanisms {
        DisabledMechanisms(self.0 | 1 << mechanism as u32)
    }

    #[inline]
    pub(crate) fn is_disabled(self, mechanism: Mechanism) -> bool {
        self.0 & 1 << mechanism as u32 != 0
    }
}
