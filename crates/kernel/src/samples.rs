//! Samples of sockets and counters, which the agent writes as lines into a file of the run's folder.

use crate::control;
use pauseframe_fabric::{ExternalCounterSample, ExternalSocketSample, ExternalStackSamples};
use pauseframe_units::{NodeId, Time};

const PICOSECONDS: u64 = 1_000;
/// In units of DCTCP's alpha.
const ALPHA_ONE: f64 = 1024.0;

/// The samples in `text`; lines that are no samples are skipped. `hosts`: their nodes by number.
pub(crate) fn parse(text: &str, hosts: &[NodeId]) -> ExternalStackSamples {
    let mut samples = ExternalStackSamples::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.first() {
            Some(&"s") => samples.sockets.extend(socket(&fields, hosts)),
            Some(&"c") => samples.counters.extend(counter(&fields, hosts)),
            _ => {}
        }
    }
    // The kernel lists sockets in the order of a hash.
    samples
        .sockets
        .sort_by_key(|sample| (sample.time, sample.host, sample.port, sample.peer, sample.peer_port));
    samples
}

fn number<T: std::str::FromStr>(fields: &[&str], at: usize) -> Option<T> {
    fields.get(at)?.parse().ok()
}

fn begin(fields: &[&str], hosts: &[NodeId]) -> Option<(Time, NodeId)> {
    let time = Time(number::<u64>(fields, 1)?.checked_mul(PICOSECONDS)?);
    Some((time, *hosts.get(number::<usize>(fields, 2)?)?))
}

fn socket(fields: &[&str], hosts: &[NodeId]) -> Option<ExternalSocketSample> {
    let (time, host) = begin(fields, hosts)?;
    let [ten, a, b, c] = number::<u32>(fields, 4)?.to_be_bytes();
    let peer = (ten == 10).then(|| NodeId(u32::from_be_bytes([0, a, b, c])))?;
    let (port, peer_port) = (number(fields, 3)?, number(fields, 5)?);
    let alpha: i32 = number(fields, 20)?;
    Some(ExternalSocketSample {
        time,
        host,
        port,
        peer,
        peer_port,
        // The segments that reach this socket are sent from the peer's port.
        endpoint_key: control::endpoint_key_of_ports(peer_port, port),
        state: number(fields, 6)?,
        congestion_control: (*fields.get(7)?).to_owned(),
        cwnd: number(fields, 8)?,
        ssthresh: number(fields, 9)?,
        mss: number(fields, 10)?,
        srtt_us: number(fields, 11)?,
        rttvar_us: number(fields, 12)?,
        rto_us: number(fields, 13)?,
        unacked: number(fields, 14)?,
        retransmits: number(fields, 15)?,
        ca_state: number(fields, 16)?,
        acked_bytes: number(fields, 17)?,
        received_bytes: number(fields, 18)?,
        send_queue_bytes: number(fields, 19)?,
        alpha: (alpha >= 0).then(|| f64::from(alpha) / ALPHA_ONE),
    })
}

fn counter(fields: &[&str], hosts: &[NodeId]) -> Option<ExternalCounterSample> {
    let (time, host) = begin(fields, hosts)?;
    Some(ExternalCounterSample { time, host, name: (*fields.get(3)?).to_owned(), value: number(fields, 4)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_agent_become_samples() {
        let text = "s\t1000\t1\t100\t167772165\t1031\t1\tdctcp\t12\t7\t1448\t130\t20\t201000\t3\t2\t0\t9000\t1\t500\t512\n\
                    c\t1000\t0\tTcpExtTCPTimeouts\t4\n\
                    s\t1000\t0\t22\t3232235777\t1031\t1\n";
        let samples = parse(text, &[NodeId(4), NodeId(5)]);
        let [socket] = &samples.sockets[..] else { panic!("a socket of another network has no peer here") };
        assert_eq!((socket.time, socket.host, socket.peer), (Time(1_000_000), NodeId(5), NodeId(5)));
        assert_eq!((socket.endpoint_key, socket.cwnd, socket.alpha), (Some(15), 12, Some(0.5)));
        let [counter] = &samples.counters[..] else { panic!("one counter") };
        assert_eq!((counter.host, counter.name.as_str(), counter.value), (NodeId(4), "TcpExtTCPTimeouts", 4));
    }
}
