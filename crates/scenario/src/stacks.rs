//! Stacks: the values that an operating system (or a simulator) sets beneath any transport preset and
//! congestion control.
//!
//! The file's own value takes precedence over the preset's, the preset's over the stack's, and the stack's
//! over the default. A stack describes how TCP behaves, a preset which TCP is used. Left out: `freebsd9`
//! limits the retransmissions of a SYN by a timer of 75 s and not by a count; `ns3` does not set its receive
//! buffer of 128 KiB, which the papers cannot have used (the windows of bolt are 300 KB).

use pauseframe_schema::row::{Row, RowValue, set};

const RFC_SACK: RowValue = set("sack", "true", "RFC 2018; tcp_sack = 1");

/// All stacks; the first is the default.
pub const STACKS: &[Row] = &[
    Row {
        name: "linux",
        doc: "Linux 6.1 with its default sysctls, HZ 1000",
        row: &[
            set("initial_window", "10 segments", "RFC 6928 §2; Linux 6.1 include/net/tcp.h TCP_INIT_CWND"),
            RFC_SACK,
            set("dsack", "true", "RFC 2883 §4; Linux ip-sysctl tcp_dsack = 1"),
            set("timestamps", "true", "RFC 7323 §3; Linux ip-sysctl tcp_timestamps = 1"),
            set("limited_transmit", "true", "RFC 3042 §2; Linux 6.1 in state Disorder"),
            set("dup_thresh", "3", "RFC 5681 §3.2; Linux ip-sysctl tcp_reordering = 3"),
            set("rto_initial", "1 s", "RFC 6298 §2.1; Linux 6.1 include/net/tcp.h TCP_TIMEOUT_INIT"),
            set("rto_min", "200 ms", "Linux 6.1 include/net/tcp.h TCP_RTO_MIN = HZ/5"),
            set("rto_max", "120 s", "Linux 6.1 include/net/tcp.h TCP_RTO_MAX"),
            set("rto_granularity", "1 ms", "Linux jiffies at HZ 1000"),
            set("rto_form", "linux", "Linux 6.1 tcp_input.c tcp_rtt_estimator, __tcp_set_rto"),
            set("timer_wheel", "true", "Linux 6.1 kernel/time/timer.c calc_wheel_index"),
            set(
                "delayed_ack_form",
                "linux",
                "Linux 6.1 tcp_input.c tcp_event_data_recv, __tcp_ack_snd_check",
            ),
            set("delayed_ack_segments", "2", "RFC 5681 §4.2; Linux 6.1 tcp_input.c __tcp_ack_snd_check"),
            set("delayed_ack_timeout", "40 ms", "Linux 6.1 include/net/tcp.h TCP_ATO_MIN = HZ/25"),
            set("quick_acks", "16", "Linux 6.1 include/net/tcp.h TCP_MAX_QUICKACKS"),
            set(
                "sack_compression",
                "true",
                "Linux ip-sysctl tcp_comp_sack_nr = 44, tcp_comp_sack_delay_ns = 1 ms",
            ),
            set("receive_buffer", "linux", "Linux 6.1 tcp_input.c tcp_rcv_space_adjust, tcp_grow_window"),
            set("receive_buffer_initial", "131072 B", "Linux ip-sysctl tcp_rmem[1] = 131072"),
            set("receive_buffer_max", "6291456 B", "Linux ip-sysctl tcp_rmem[2] = 6 MiB"),
            set("send_buffer", "linux", "Linux 6.1 tcp_input.c tcp_sndbuf_expand, tcp.c tcp_sendmsg_locked"),
            set("send_buffer_initial", "16384 B", "Linux ip-sysctl tcp_wmem[1] = 16 KiB"),
            set("send_buffer_max", "4194304 B", "Linux ip-sysctl tcp_wmem[2] = 4 MiB"),
            set("small_segments", "nagle", "RFC 9293 §3.7.4; Linux 6.1 tcp_output.c tcp_nagle_check"),
            set("small_queues", "true", "Linux 6.1 tcp_output.c tcp_small_queue_check"),
            set("syn_retries", "6", "Linux ip-sysctl tcp_syn_retries = 6"),
            set("retries", "15", "Linux ip-sysctl tcp_retries2 = 15"),
            set("rack", "true", "Linux tcp_recovery = 1 (RFC 8985)"),
            set("tlp", "true", "Linux tcp_early_retrans = 3 (RFC 8985 §7)"),
            set("count_packets", "true", "Linux 6.1 include/net/tcp.h: snd_cwnd, tcp_packets_in_flight"),
            set("prr", "true", "Linux (RFC 6937, RFC 9937)"),
            set("undo", "true", "Linux tcp_dsack = 1 (RFC 3708)"),
            set("frto", "true", "Linux tcp_frto = 2 (RFC 5682)"),
            set("rto_growth", "delivered", "Linux: the newly delivered packets count"),
            set("idle_restart", "linux", "Linux tcp_slow_start_after_idle = 1"),
            set("fin", "true", "RFC 9293 §3.6"),
            set("cache", "linux", "Linux 6.1 tcp_metrics.c; ip-sysctl tcp_no_ssthresh_metrics_save = 1"),
            set("dctcp_fixed_point", "true", "Linux 6.1 tcp_dctcp.c: alpha in 1/1024, whole segments"),
        ],
    },
    Row {
        name: "freebsd9",
        doc: "FreeBSD 9 with its default sysctls, hz 1000",
        row: &[
            set("initial_window", "3 segments", "RFC 3390 §1 (4380 B); FreeBSD net.inet.tcp.rfc3390 = 1"),
            set("sack", "true", "RFC 2018; FreeBSD net.inet.tcp.sack.enable = 1"),
            set("dsack", "false", "FreeBSD 9 tcp_sack.c sends none"),
            set("timestamps", "true", "RFC 7323; FreeBSD net.inet.tcp.rfc1323 = 1"),
            set("limited_transmit", "true", "RFC 3042; FreeBSD net.inet.tcp.rfc3042 = 1"),
            set("dup_thresh", "3", "RFC 5681 §3.2; FreeBSD tcp_input.c tcprexmtthresh"),
            set("rto_initial", "3 s", "FreeBSD 9 tcp_timer.h TCPTV_RTOBASE"),
            set("rto_min", "30 ms", "FreeBSD 9 tcp_timer.h TCPTV_MIN = hz/33"),
            set("rto_max", "64 s", "FreeBSD 9 tcp_timer.h TCPTV_REXMTMAX"),
            set("rto_granularity", "1 ms", "FreeBSD hz = 1000"),
            set("rto_form", "freebsd", "FreeBSD 9 tcp_var.h TCP_REXMTVAL, tcp_timer.h TCPT_RANGESET"),
            set("rto_slop", "200 ms", "FreeBSD 9 net.inet.tcp.rexmit_slop (TCPTV_CPU_VAR = hz/5)"),
            set("delayed_ack_form", "fixed", "FreeBSD 9 tcp_input.c DELAY_ACK"),
            set("delayed_ack_segments", "2", "RFC 5681 §4.2; FreeBSD 9 tcp_input.c DELAY_ACK"),
            set("delayed_ack_timeout", "100 ms", "FreeBSD net.inet.tcp.delacktime = 100"),
            set(
                "receive_buffer",
                "freebsd",
                "FreeBSD 9 tcp_input.c tcp_do_segment, net.inet.tcp.recvbuf_auto = 1",
            ),
            set("receive_buffer_initial", "65536 B", "FreeBSD net.inet.tcp.recvspace = 65536"),
            set("receive_buffer_max", "262144 B", "FreeBSD 9.0 net.inet.tcp.recvbuf_max = 262144"),
            set("receive_buffer_step", "16384 B", "FreeBSD net.inet.tcp.recvbuf_inc = 16384"),
            set(
                "ecn_hides_loss",
                "true",
                "FreeBSD 9 tcp_input.c: CC_ECN sets snd_recover, below which dup ACKs are ignored",
            ),
            set(
                "window_validation",
                "false",
                "FreeBSD 9 tcp_input.c cc_ack_received: CCF_CWND_LIMITED while cwnd is at most snd_wnd",
            ),
            set("retries", "12", "FreeBSD 9 tcp_timer.h TCP_MAXRXTSHIFT"),
            set("fin", "true", "RFC 9293 §3.6"),
            set("cache", "freebsd", "FreeBSD 9 tcp_hostcache.c, tcp_input.c cc_conn_init"),
        ],
    },
    Row {
        name: "ns3",
        doc: "ns-3 as bolt ran it",
        row: &[
            set("initial_window", "10 segments", "bolt §IV"),
            set("timestamps", "true", "ns-3 ns3::TcpSocketBase::Timestamp"),
            set("rto_initial", "3 s", "ns-3 ns3::TcpSocket::ConnTimeout"),
            set("rto_min", "2 ms", "bolt §IV"),
            set("rto_max", "60 s", "RFC 6298 §2.5"),
            set("rto_granularity", "1 ms", "ns-3 ns3::TcpSocketBase::ClockGranularity"),
            set("rto_form", "rfc", "RFC 6298 §2; ns-3 TcpSocketBase::EstimateRtt"),
            set("delayed_ack_form", "fixed", "ns-3 TcpSocketBase::ReceivedData"),
            set("delayed_ack_segments", "2", "ns-3 ns3::TcpSocket::DelAckCount"),
            set("delayed_ack_timeout", "200 ms", "ns-3 ns3::TcpSocket::DelAckTimeout"),
            set("syn_retries", "6", "ns-3 ns3::TcpSocket::ConnCount"),
            set("retries", "6", "ns-3 ns3::TcpSocket::DataRetries"),
            set("fin", "true", "RFC 9293 §3.6"),
        ],
    },
    Row {
        name: "none",
        doc: "No operating system: the text of the RFCs, with the timers of Linux where they leave the value open",
        row: &[],
    },
];
