//! Connections are opened, and segments go into and out of TCP.

use super::{LifetimeCounters, TcpEnd};
use crate::context::Context;
use crate::endpoint::life::SendReliable;
use crate::endpoint::node::{BorrowedHost, EndpointToken};
use crate::endpoint::state::{Protocol, Reliable, plugin_seed};
use crate::frame::{CompactTcpSegment, FrameContent, Packet, PacketId};
use crate::order::{EndpointOpeningParameters, MultipathRole};
use pauseframe_engine::mix_bits;
use pauseframe_transport::{CachePolicy, Connection, EcnCodepoint, Segment, TcpFlags};
use pauseframe_units::{NodeId, Priority, Span};

/// IPv4 header, bytes.
const IPV4_HEADER_BYTES: u32 = 20;

/// Unacknowledged bytes of a connection, capped to 32 bits: its rank in a pFabric queue.
#[inline(never)]
fn pfabric_rank(connection: &Connection) -> u32 {
    u32::try_from(connection.unacked_bytes()).unwrap_or(u32::MAX)
}

/// Opening, and what connections leave for the next ones.
impl<'n> BorrowedHost<'n> {
    /// Opens or accepts a connection.
    pub(in crate::endpoint) fn open_tcp(
        &mut self,
        endpoint_key: u32,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let (spec, exchange, now) = (opening.spec, opening.exchange, ctx.now());
        let mut connection = self.new_connection(endpoint_key, &opening, ctx);
        let seed = plugin_seed(ctx.settings.seed, endpoint_key);
        connection.identify_plugin(endpoint_key / 2, seed);
        let frame = ctx.settings.overhead.wire_size(ctx.settings.mtu, Priority::default());
        let time = self.ports.port_state(self.port).rate.serialise(frame);
        // Ports that packets take in turn send at once.
        connection.set_frame_time(Span(time.0 / opening.ways.len().max(1) as u64));
        if connection.is_established()
            && let Some(metrics) = self.cached_metrics(opening.ports[1], spec.transport, ctx)
        {
            connection.inherit_metrics(metrics);
        }
        let (side, told) = (endpoint_key & 1, LifetimeCounters::default());
        let (connection_key, is_held) = match opening.multipath {
            MultipathRole::Subflow { of, is_first } => {
                (of * 2 + side, side == 0 && !is_first && !connection.is_established())
            }
            _ => (u32::MAX, false),
        };
        let tcp = TcpEnd { connection, told, connected: None, received: 0, connection_key, is_held };
        let mut end = self.new_endpoint(Protocol::Tcp(tcp), endpoint_key, opening);
        end.is_subflow = connection_key != u32::MAX;
        if !end.is_subflow {
            end.begin_exchange::<TcpEnd>(&exchange, spec.start, now);
        }
        let end = self.add_endpoint(end);
        if side == 0 {
            TcpEnd::send_available(self, end, ctx);
            self.endpoint_mut(end).schedule_timer::<TcpEnd>(ctx);
        }
        if self.endpoint_mut(end).is_subflow {
            self.wake_connection(end, ctx);
        }
    }

    fn new_connection(
        &self,
        endpoint_key: u32,
        opening: &EndpointOpeningParameters,
        ctx: &Context,
    ) -> Connection {
        let (flow, side) = (endpoint_key / 2, endpoint_key & 1);
        let iss =
            |side: u32| mix_bits(ctx.settings.seed ^ mix_bits(u64::from(flow) * 2 + u64::from(side))) as u32;
        let node = self.node_id(ctx);
        let config = ctx.host_tcp_config(node, opening.spec.transport);
        if side == 0 {
            return Connection::open(config, iss(0), iss(1), ctx.now());
        }
        let connection = Connection::accept(config, iss(1), iss(0));
        if ctx.settings.refusing.contains(&node) {
            connection.without_listener()
        } else if ctx.settings.silent.contains(&node) {
            connection.without_answers()
        } else {
            connection
        }
    }

    /// Applies the metrics of earlier connections between the two hosts to one that has just been established.
    #[cold]
    fn inherit_metrics(&mut self, end: EndpointToken<'n>, ctx: &Context) {
        let state = self.endpoint_mut(end);
        let (to, transport) = (state.nodes[1], state.transport);
        if !state.connection().is_some_and(Connection::is_established) {
            return;
        }
        if let Some(metrics) = self.cached_metrics(to, transport, ctx).copied() {
            TcpEnd::of_mut(&mut self.endpoint_mut(end).protocol).connection.inherit_metrics(&metrics);
        }
    }

    /// Saves the TCP metrics of this end for the next connection between the two hosts, whichever of them opens it.
    pub(in crate::endpoint) fn cache_metrics(&mut self, end: EndpointToken<'n>, ctx: &Context) {
        let state = self.endpoint_mut(end);
        let (to, transport) = (state.nodes[1], state.transport);
        let config = ctx.settings.transports[usize::from(transport)].tcp();
        let caches = config.is_some_and(|config| config.cache != CachePolicy::None);
        if caches && state.connection().is_some() {
            let (tcp, metrics) = self.connection_and_metrics(end, to, transport, ctx);
            tcp.connection.cache_metrics(metrics);
        }
    }
}

/// Segments.
impl<'n> BorrowedHost<'n> {
    /// Passes a segment from the stack to TCP and handles the results.
    #[inline]
    pub(in crate::endpoint) fn deliver_segment(
        &mut self,
        index: PacketId,
        carried: &CompactTcpSegment,
        ctx: &mut Context,
    ) {
        let (segment, to) = (ctx.packets.unpack_segment(carried), carried.to);
        ctx.packets.remove(index);
        let Some(end) = self.find_endpoint(to) else {
            return; // A late duplicate of a flow that is over.
        };
        let now = ctx.now();
        let state = self.endpoint_mut(end);
        let (workload, is_subflow) = (state.workload, state.is_subflow);
        let tcp = TcpEnd::of_mut(&mut state.protocol);
        let was_established = tcp.connection.is_established();
        if segment.flags.contains(TcpFlags::SYN) && to & 1 == 0 && !was_established {
            tcp.connected.get_or_insert(now);
        }
        tcp.connection.on_segment(&segment, carried.ecn, now);
        if !was_established {
            self.inherit_metrics(end, ctx);
        }
        let state = self.endpoint_mut(end);
        let tcp = TcpEnd::of_mut(&mut state.protocol);
        // A limited reassembly list may discard bytes that are then received again: those count once.
        let received = tcp.connection.received_bytes();
        if let Some(received) = received.checked_sub(tcp.received).filter(|received| *received > 0) {
            tcp.received += received;
            // An MPTCP connection counts what comes first by any subflow.
            if !is_subflow {
                self.count_goodput(workload, received, ctx);
            }
        }
        self.update_endpoint::<TcpEnd>(end, ctx);
    }

    /// Picks the VLAN of the endpoint's next packet.
    #[cold]
    fn pick_next_vlan(&mut self, end: EndpointToken<'n>, ctx: &Context) {
        let state = self.endpoint_mut(end);
        let (among, class) = (std::mem::take(&mut state.vlans), state.class);
        let Some((draws, id)) = self.vlan_picker() else { return };
        let (vlan, class) = draws.pick(id, &among, class, ctx);
        let (state, host) = self.endpoint_and_host(end);
        (state.vlan, state.class, state.vlans) = (vlan, class, among);
        state.nic_queue = host.nic_queue_for(state.key(), NodeId(state.route), class);
    }

    #[inline(always)]
    fn send_segment(
        &mut self,
        end: EndpointToken<'n>,
        (segment, ecn): &(Segment, EcnCodepoint),
        ctx: &mut Context,
    ) {
        if ctx.hot.vlan_per_packet {
            self.pick_next_vlan(end, ctx);
        }
        let way = self.way_out(end, ctx);
        let state = self.endpoint_mut(end);
        let connection = &TcpEnd::of(&state.protocol).connection;
        let is_last_of_turn = !connection.is_mid_super_packet();
        let priority = ctx.settings.transports[usize::from(state.transport)].priority;
        let options = connection.dss_bytes(segment.len);
        let header = segment.header_len(connection.has_timestamps()) + options;
        let ip = IPV4_HEADER_BYTES + header + segment.len;
        // A packet without data (SYN, ACK) has rank 0 and precedes all others.
        let ranked = ctx.hot.ranked != 0 && segment.len > 0;
        let carried = CompactTcpSegment {
            to: state.peer,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            remaining: if ranked { pfabric_rank(connection) } else { 0 },
            options: ctx.packets.add_tcp_options(segment.options),
            stamps: segment.stamps,
            len: segment.len as u16,
            ecn: *ecn,
            flags: segment.flags,
        };
        let size = ctx.settings.overhead.frame_size(ip, priority) as u16;
        let packet = Packet {
            at: ctx.now(),
            route: way.route,
            vlan: state.vlan,
            ..Packet::new(FrameContent::Segment(carried), size, state.class)
        };
        let index = ctx.packets.insert(packet);
        self.send_through_stack(way, index, ctx);
        if !ctx.hot.stackless {
            self.sibling_mut(way.host).has_more_frames = !is_last_of_turn;
        }
        if is_last_of_turn {
            self.count_turn(ctx);
        }
    }

    #[inline(always)]
    fn poll_segment(&mut self, end: EndpointToken<'n>, ctx: &Context) -> Option<(Segment, EcnCodepoint)> {
        TcpEnd::of_mut(&mut self.endpoint_mut(end).protocol).connection.poll_transmit(ctx.now())
    }
}

impl SendReliable for TcpEnd {
    #[inline(always)]
    fn send_available<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = host.endpoint_mut(end);
        if state.blocked || state.is_subflow && TcpEnd::of(&state.protocol).is_held {
            return;
        }
        loop {
            let way = host.way_out(end, ctx);
            let (state, nic) = host.endpoint_and_port(end, way);
            let connection = &TcpEnd::of(&state.protocol).connection;
            if !nic.has_room(way.nic_queue, ctx, || connection.small_queue_share())
                && !connection.is_mid_super_packet()
            {
                host.block_endpoint(end, way);
                return;
            }
            // Passed by reference to avoid a copy.
            let Some(sent) = &host.poll_segment(end, ctx) else { return };
            host.send_segment(end, sent, ctx);
        }
    }

    /// Sends one segment or super-packet. With a queue for each flow it sends all that has room and leaves the round robin.
    fn send_turn<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) -> bool {
        let stays = if ctx.settings.nic_queue.has_flow_shares() {
            host.endpoint_mut(end).blocked = false;
            TcpEnd::send_available(host, end, ctx);
            false
        } else if let Some(sent) = &host.poll_segment(end, ctx) {
            host.send_segment(end, sent, ctx);
            while TcpEnd::of(&host.endpoint_mut(end).protocol).connection.is_mid_super_packet() {
                let Some(sent) = &host.poll_segment(end, ctx) else { break };
                host.send_segment(end, sent, ctx);
            }
            true
        } else {
            host.endpoint_mut(end).blocked = false;
            false
        };
        host.endpoint_mut(end).schedule_timer::<TcpEnd>(ctx);
        stays
    }
}
