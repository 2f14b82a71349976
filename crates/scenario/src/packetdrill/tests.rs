use super::*;

/// A server that sends ten segments of 1000 bytes; `rest` follows at 0.2 s.
fn script(rest: &str) -> String {
    format!(
        "`sysctl -q net.ipv4.tcp_timestamps=0 net.ipv4.tcp_congestion_control=reno`\n\
         0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
         +0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
         +.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n\
         +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>\n\
         +.1 < . 1:1(0) ack 1 win 320\n\
         +0 accept(3, ..., ...) = 4\n\
         +0 write(4, ..., 10000) = 10000\n\
         {rest}"
    )
}

fn verdict(rest: &str) -> Verdict {
    run(&script(rest), Path::new(".")).verdict
}

#[test]
fn a_script_of_right_expectations_passes() {
    let text = "+0 > P. 1:10001(10000) ack 1\n\
                +.1 < . 1:1(0) ack 1 win 320 <sack 1001:4001,nop,nop>\n\
                +0 > . 1:1001(1000) ack 1\n\
                +0 %{ assert tcpi_ca_state == TCP_CA_Recovery }%\n\
                +.1 < . 1:1(0) ack 10001 win 320\n\
                * close(4) = 0\n\
                +0 > F. 10001:10001(0) ack 1\n\
                +.1 < F. 1:1(0) ack 10002 win 320\n\
                +0~+0.01 > . 10002:10002(0) ack 2\n";
    let outcome = run(&script(text), Path::new("."));
    assert_eq!(outcome.verdict, Verdict::Passed);
    let [snippet] = outcome.snippets.as_slice() else { panic!("one snippet") };
    assert_eq!(snippet.line, 13);
    for pair in [
        ("tcpi_ca_state", 3),
        ("tcpi_sacked", 3),
        ("tcpi_lost", 1),
        ("tcpi_retrans", 1),
        ("tcpi_unacked", 10),
    ] {
        assert!(snippet.values.contains(&pair), "{pair:?} is not in {:?}", snippet.values);
    }
}

#[test]
fn a_wrong_expectation_fails_at_its_line() {
    for (rest, line, why) in [
        ("+0 > P. 1:9501(9500) ack 1\n", 10, "1:10001(10000)"),
        ("+0 > . 1:1001(1000) ack 1\n+0 > . 1001:2002(1001) ack 1\n", 11, "expected . 1001:2002"),
        ("+.005 > P. 1:10001(10000) ack 1\n", 10, "sent at 0.200000 s"),
        ("+0 > [ect0] P. 1:10001(10000) ack 1\n", 10, "[noecn]"),
        ("+0 > P. 1:10001(10000) ack 1 <sack 1:2>\n", 10, "<1:2>"),
        ("+0 > P. 1:10001(10000) ack 1\n+1 > . 9001:10001(1000) ack 1\n", 11, "sent at"),
        ("+0 read(4, ..., 10) = 5\n", 10, "read waits"),
        ("+0 > P. 1:10001(10000) ack 1\n+0 > P. 10001:10002(1) ack 1\n", 11, "nothing was sent"),
    ] {
        let Verdict::Failed(at, found) = verdict(rest) else {
            panic!("{rest} must fail: {:?}", verdict(rest))
        };
        assert_eq!(at, line, "{rest}: {found}");
        assert!(found.contains(why), "{rest}: {found}");
    }
}

/// PSH and lengths of single segments count only where the script demands it.
/// A call that no kernel would answer so.
#[test]
fn impossible_calls_fail_at_their_line() {
    for (rest, why) in [
        ("+0 write(9, ..., 1000) = 1000\n", "no open socket has the descriptor \"9\""),
        ("+0 setsockopt(5, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0\n", "descriptor \"5\""),
        ("+0 write(3, ..., 1000) = 1000\n", "the socket 3 is not connected"),
        ("+0 read(4, ..., 1000) = 0\n", "read waits"),
        ("+0 shutdown(4, SHUT_WR) = 0\n+0 write(4, ..., 1000) = 1000\n", "EPIPE"),
        ("+0 close(4) = 0\n+0 write(4, ..., 1000) = 1000\n", "descriptor \"4\""),
        ("+0 close(4) = 0\n+0 close(4) = 0\n", "descriptor \"4\""),
    ] {
        let found = verdict(rest);
        let line = 9 + rest.lines().count();
        assert!(
            matches!(&found, Verdict::Failed(at, text) if *at == line && text.contains(why)),
            "{rest}: {found:?}"
        );
    }
    for rest in [
        "+0 close(3) = 0\n+0 > P. 1:10001(10000) ack 1\n",
        "+0 shutdown(4, SHUT_WR) = 0\n+0 write(4, ..., 1000) = -1 EPIPE (Broken pipe)\n",
        "+.1 < F. 1:1(0) ack 1 win 320\n+0 read(4, ..., 1000) = 0\n",
        "+0 read(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)\n",
    ] {
        assert_eq!(verdict(rest), Verdict::Passed, "{rest}");
    }
}

#[test]
fn strict_segments_are_compared_in_full() {
    let text = script("+0 > . 1:1001(1000) ack 1\n+0 > . 1001:10001(9000) ack 1\n");
    assert_eq!(run(&text, Path::new(".")).verdict, Verdict::Passed);
    let strict = run(&format!("--strict_segments\n{text}"), Path::new(".")).verdict;
    assert!(matches!(strict, Verdict::Failed(12, _)), "{strict:?}");
}

#[test]
fn blocking_calls_end_at_their_time() {
    let calls = "+0 > P. 1:10001(10000) ack 1\n+0...0.100 read(4, ..., 2000) = 1000\n\
                 +.1 < P. 1:1001(1000) ack 10001 win 320\n+0 > . 10001:10001(0) ack 1001\n+.1 read(4, ..., 9) = -1 EAGAIN (x)\n";
    assert_eq!(verdict(calls), Verdict::Passed);
    let early = calls.replace("0...0.100", "0...0.050");
    assert!(matches!(verdict(&early), Verdict::Failed(11, _)), "{:?}", verdict(&early));
}

#[test]
fn the_tolerance_is_the_scripts() {
    let late = "+.005 > P. 1:10001(10000) ack 1\n";
    assert!(matches!(verdict(late), Verdict::Failed(..)));
    let text = format!("--tolerance_usecs=6000\n{}", script(late));
    assert_eq!(run(&text, Path::new(".")).verdict, Verdict::Passed);
}

#[test]
fn what_the_model_leaves_out_is_not_applicable() {
    for (rest, line, why) in [
        ("+0 epoll_create(1) = 5\n", 10, "epoll_create"),
        ("+0 write(4, ..., 100) = 50\n", 10, "returns 50 of 100"),
        ("+0 sendto(4, ..., 1000, MSG_FASTOPEN, ..., ...) = 1000\n", 10, "Fast Open"),
        ("+0 setsockopt(4, SOL_TCP, TCP_MD5SIG, [1], 4) = 0\n", 10, "TCP_MD5SIG"),
        ("+0 > R. 1:1(0) ack 1\n", 10, "RST"),
        ("+0 `tc qdisc del dev tun0 root`\n", 10, "tc qdisc"),
        ("+0 < icmp unreachable\n", 10, "icmp"),
    ] {
        let Verdict::NotApplicable(at, found) = verdict(rest) else { panic!("{rest}: {:?}", verdict(rest)) };
        assert_eq!(at, line, "{rest}: {found}");
        assert!(found.contains(why), "{rest}: {found}");
    }
}

/// Sequence numbers of the script need not begin at zero, and timestamps are compared if their tick is known.
#[test]
fn numbers_and_timestamps_are_translated() {
    let text = "--tcp_ts_tick_usecs=1000\n\
                0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                +0 connect(3, ..., ...) = -1 EINPROGRESS (in progress)\n\
                +0 > S 77:77(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 8>\n\
                +.1 < S. 5000:5000(0) ack 78 win 5000 <mss 1012,sackOK,TS val 9 ecr 100>\n\
                +0 > . 78:78(0) ack 5001 <nop,nop,TS val 200 ecr 9>\n\
                +.1 write(3, ..., 1000) = 1000\n\
                +0 > P. 78:1078(1000) ack 5001 <nop,nop,TS val VALUE ecr 9>\n";
    let run_with = |value: &str| run(&text.replace("VALUE", value), Path::new(".")).verdict;
    assert_eq!(run_with("300"), Verdict::Passed);
    assert!(matches!(run_with("400"), Verdict::Failed(8, _)), "{:?}", run_with("400"));
}
