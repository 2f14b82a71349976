//! Orders to the agent in the kernel (`python/pauseframe/kernel/agent`) and its reports: Ethernet frames on the first device.

use pauseframe_fabric::{ExternalStackExchange, ExternalStackOrder};

/// IEEE 802: for local experiments.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FRAME_HEADER: usize = 16;
const MESSAGE: usize = 64;
/// Messages in a frame.
const MESSAGES_MAX: usize = 22;
/// Client ports of connections begin here, and as many follow.
const FIRST_CLIENT: u32 = 1024;
const CLIENTS: u32 = 60_000;
/// Server ports of each transport: one for each so many flows.
const SERVERS: u32 = 100;

/// What the agent is to do.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// The application at an endpoint key (flow * 2 + side), on the host with this number, does something.
    Order {
        /// Position of the host.
        host: u16,
        /// Where.
        endpoint_key: u32,
        /// The IPv4 address of the other host, where a connection opens.
        peer: [u8; 4],
        /// Nanoseconds to the first write.
        delay: u64,
        /// What.
        order: ExternalStackOrder,
    },
    /// Programs of the user start.
    Begin,
    /// All ends report what they have counted.
    CountAll,
    /// The agent writes down all sockets and counters, with this time in nanoseconds.
    Sample(u64),
}

/// What the agent reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// It takes orders.
    Ready,
    /// The connection at an endpoint key is established.
    Connected(u32),
    /// An end has received all bytes that it waited for.
    Complete(u32),
    /// A connection failed with an error number.
    Failed(u32, u32),
    /// Nothing of a connection is under way any more.
    Drained(u32),
    /// What an end has counted since its last report.
    Counted {
        /// Where.
        endpoint_key: u32,
        /// The flow that it carried.
        flow: u32,
        /// Bytes that the application has read.
        delivered: u64,
        /// Segments that were sent again.
        retransmits: u32,
        /// Expiries of the retransmission timer; 0 for kernels that do not count them by connection (before 6.7).
        timeouts: u32,
    },
    /// A program ended with a status.
    ProgramEnded(u32, u32),
    /// All counters are reported.
    CountedAll,
}

/// The ports of the connection that `flow` opens: client and server.
pub fn ports(flow: u32, transport: u16) -> (u16, u16) {
    let client = FIRST_CLIENT + flow % CLIENTS;
    let server = SERVERS * (1 + u32::from(transport)) + flow / CLIENTS;
    (client as u16, server as u16)
}

/// The endpoint key (flow * 2 + side) that a segment from port `from` to port `to` goes to, if both are ports of a flow.
pub fn endpoint_key_of_ports(from: u16, to: u16) -> Option<u32> {
    let (side, client, server) = if u32::from(to) < FIRST_CLIENT { (1, from, to) } else { (0, to, from) };
    let (client, server) = (u32::from(client), u32::from(server));
    let is_flow =
        (SERVERS..FIRST_CLIENT).contains(&server) && (FIRST_CLIENT..FIRST_CLIENT + CLIENTS).contains(&client);
    is_flow.then(|| (server % SERVERS * CLIENTS + client - FIRST_CLIENT) * 2 + side)
}

fn encode(command: &Command, into: &mut Vec<u8>) {
    let of_exchange = |exchange: &ExternalStackExchange, values: &mut [u64; 7]| {
        values[..4].copy_from_slice(&[
            exchange.writes,
            exchange.expects,
            exchange.reply,
            exchange.reply_delay,
        ]);
        values[6] = u64::from(exchange.flow);
    };
    let (mut host_number, mut side, mut at, mut values) = (0_u16, 0, 0, [0_u64; 7]);
    let op = match command {
        Command::Order { host, endpoint_key, peer, delay, order } => {
            (host_number, at) = (*host, *endpoint_key);
            match order {
                ExternalStackOrder::Open(opening) => {
                    side = opening.side;
                    of_exchange(&opening.exchange, &mut values);
                    let (client, server) = ports(endpoint_key / 2, opening.transport);
                    let peer = u64::from(u32::from_be_bytes(*peer));
                    values[4] = peer << 32 | u64::from(client) << 16 | u64::from(server);
                    values[5] = delay << 16 | u64::from(opening.transport);
                    1
                }
                ExternalStackOrder::Continue(exchange) => {
                    of_exchange(exchange, &mut values);
                    2
                }
                ExternalStackOrder::EndExchange => 3,
                ExternalStackOrder::Close => 4,
                ExternalStackOrder::Stop => 5,
                ExternalStackOrder::Free => 6,
            }
        }
        Command::Begin => 7,
        Command::CountAll => 8,
        Command::Sample(time) => {
            values[0] = *time;
            9
        }
    };
    into.extend_from_slice(&[op, side]);
    into.extend_from_slice(&host_number.to_le_bytes());
    into.extend_from_slice(&at.to_le_bytes());
    into.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Hosts listen before any of these connections opens. The opening of an end is the first of its commands, so no other one passes it.
pub fn sort_listeners_first(commands: &mut [Command]) {
    let listens = |command: &Command| matches!(command, Command::Order { order: ExternalStackOrder::Open(opening), .. } if opening.side == 1);
    commands.sort_by_key(|command| !listens(command));
}

/// Frames with these commands.
pub fn frames(commands: &[Command]) -> Vec<Vec<u8>> {
    let frame = |commands: &[Command]| {
        let mut frame = vec![0xff; 6];
        frame.extend_from_slice(&[2, 0xff, 0xff, 0, 0, 0]);
        frame.extend_from_slice(&ETHER_TYPE);
        frame.extend_from_slice(&(commands.len() as u16).to_le_bytes());
        for command in commands {
            encode(command, &mut frame);
        }
        frame
    };
    commands.chunks(MESSAGES_MAX).map(frame).collect()
}

/// The reports in a frame of the agent; `None` if it is no such frame.
pub fn reports(frame: &[u8]) -> Option<Vec<Report>> {
    if frame.get(12..14)? != ETHER_TYPE {
        return None;
    }
    let count = u16::from_le_bytes([*frame.get(14)?, *frame.get(15)?]);
    let messages = frame[FRAME_HEADER..].chunks_exact(MESSAGE).take(usize::from(count));
    messages.map(report).collect()
}

fn report(message: &[u8]) -> Option<Report> {
    let endpoint_key = u32::from_le_bytes(message[4..8].try_into().ok()?);
    let value = |at: usize| {
        message[8 + 8 * at..].iter().take(8).rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    Some(match message[0] {
        64 => Report::Ready,
        66 => Report::Connected(endpoint_key),
        67 => Report::Complete(endpoint_key),
        68 => Report::Failed(endpoint_key, value(0) as u32),
        69 => Report::Drained(endpoint_key),
        70 => Report::Counted {
            endpoint_key,
            flow: value(0) as u32,
            delivered: value(1),
            retransmits: value(2) as u32,
            timeouts: value(3) as u32,
        },
        71 => Report::ProgramEnded(endpoint_key, value(0) as u32),
        72 => Report::CountedAll,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_fabric::ExternalStackOpeningParameters;
    use pauseframe_units::{NodeId, Time};

    #[test]
    fn ports_name_the_flow_and_the_side() {
        for flow in [0, 1, 59_999, 60_000, 5_999_999] {
            let (client, server) = ports(flow, 8);
            assert_eq!(endpoint_key_of_ports(client, server), Some(flow * 2 + 1));
            assert_eq!(endpoint_key_of_ports(server, client), Some(flow * 2));
        }
        assert_eq!(endpoint_key_of_ports(40_000, 5201), None, "both are ports of programs");
        assert_eq!(endpoint_key_of_ports(22, 40_000), None, "a well-known port below those of transports");
    }

    #[test]
    fn listeners_go_first() {
        let exchange = ExternalStackExchange { flow: 0, writes: 0, expects: 0, reply: 0, reply_delay: 0 };
        let order =
            |endpoint_key, order| Command::Order { host: 0, endpoint_key, peer: [0; 4], delay: 0, order };
        let opening = |endpoint_key: u32| {
            let side = (endpoint_key & 1) as u8;
            let (peer, transport, start) = (NodeId(0), 0, Time::ZERO);
            let opening = ExternalStackOpeningParameters { side, peer, transport, start, exchange };
            order(endpoint_key, ExternalStackOrder::Open(opening))
        };
        let mut commands = vec![
            order(8, ExternalStackOrder::Free),
            opening(2),
            opening(3),
            order(2, ExternalStackOrder::Close),
            opening(4),
            opening(5),
        ];
        sort_listeners_first(&mut commands);
        let keys: Vec<u32> = commands
            .iter()
            .map(|command| match command {
                Command::Order { endpoint_key, .. } => *endpoint_key,
                _ => unreachable!("all are orders"),
            })
            .collect();
        assert_eq!(keys, [3, 5, 8, 2, 2, 4]);
    }

    #[test]
    fn orders_fill_frames_and_no_frame_is_longer_than_an_mtu() {
        let frames = frames(&[Command::Begin; 45]);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [1424, 1424, 80]);
        assert!(frames.iter().all(|frame| reports(frame).is_none()), "an order is no report");
    }
}
