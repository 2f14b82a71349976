//! Between an MPTCP connection and its subflows: events, data, opening and closing.

use super::MultipathEnd;
use crate::context::Context;
use crate::endpoint::life::SendReliable;
use crate::endpoint::node::{BorrowedHost, EndpointToken};
use crate::endpoint::state::{Protocol, Reliable};
use crate::endpoint::tcp::TcpEnd;
use crate::order::{EndpointCounters, EndpointOpeningParameters, MultipathRole};
use pauseframe_transport::{ConnectionFailure, MultipathConnection};

impl<'n> BorrowedHost<'n> {
    /// Opens one end of an MPTCP connection; orders to open its subflows follow.
    pub(in crate::endpoint) fn open_multipath(
        &mut self,
        endpoint_key: u32,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let (spec, exchange, now) = (opening.spec, opening.exchange, ctx.now());
        let MultipathRole::Connection { first_part, mappings } = &opening.multipath else {
            unreachable!("a subflow is an endpoint of TCP")
        };
        let side = (endpoint_key & 1) as usize;
        let config = ctx.settings.transports[usize::from(spec.transport)].tcp();
        let of_side = mappings.iter().map(|both| [both[side].clone(), both[1 - side].clone()]);
        let end = MultipathEnd {
            connection: MultipathConnection::new(
                of_side,
                config.map(|config| config.rto.min).unwrap_or_default(),
            ),
            first: first_part * 2 + side as u32,
            noted: 0,
            counted: EndpointCounters::default(),
            holds_further: side == 0,
            subflows_close: false,
        };
        let mut end = self.new_endpoint(Protocol::Multipath(Box::new(end)), endpoint_key, opening);
        end.begin_exchange::<MultipathEnd>(&exchange, spec.start, now);
        let end = self.add_endpoint(end);
        self.endpoint_mut(end).schedule_timer::<MultipathEnd>(ctx);
    }

    /// Something has happened at a subflow: its connection looks at it now. At another port of the host it does so by a timer event.
    #[cold]
    pub(in crate::endpoint) fn wake_connection(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = self.endpoint_mut(end);
        let (key, connection_key) = (state.key(), TcpEnd::of(&state.protocol).connection_key);
        let id = self.host_id();
        let Some(connection) = self.own_endpoint_mut(connection_key) else { return };
        MultipathEnd::of_mut(&mut connection.protocol).note_event_at(key);
        if connection.host != id {
            connection.schedule_timer_at(ctx.now(), ctx);
        } else if let Some(connection) = self.find_endpoint(connection_key) {
            self.observe_subflows(connection, ctx);
            self.update_endpoint::<MultipathEnd>(connection, ctx);
        }
    }

    /// A subflow is gone, at its end or before: its connection learns why.
    #[cold]
    pub(in crate::endpoint) fn leave_connection(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = self.endpoint_mut(end);
        let key = state.key();
        let subflow = TcpEnd::of_mut(&mut state.protocol);
        let failure = subflow.failure().unwrap_or(ConnectionFailure::Reset);
        let (counters, connection_key) = (subflow.take_counters(), subflow.connection_key);
        let Some(connection) = self.own_endpoint_mut(connection_key) else { return };
        let multipath = MultipathEnd::of_mut(&mut connection.protocol);
        multipath.counted.add_counts(&counters);
        multipath.connection.lose_subflow(((key - multipath.first) / 2) as usize, failure);
        connection.schedule_timer_at(ctx.now(), ctx);
    }

    /// Takes in what has happened at subflows since the last look, and counts the bytes that have arrived first.
    pub(in crate::endpoint) fn observe_subflows(&mut self, end: EndpointToken<'n>, ctx: &Context) {
        let state = self.endpoint_mut(end);
        let workload = state.workload;
        let Protocol::Multipath(mut multipath) = std::mem::replace(&mut state.protocol, Protocol::Free)
        else {
            unreachable!("the endpoint is one of MPTCP")
        };
        let mut arrived = 0;
        let mut noted = std::mem::take(&mut multipath.noted);
        while noted != 0 {
            let number = noted.trailing_zeros();
            noted &= noted - 1;
            let Some(subflow) = self.own_endpoint_mut(multipath.first + 2 * number) else { continue };
            let tcp = TcpEnd::of_mut(&mut subflow.protocol);
            multipath.counted.add_counts(&tcp.take_counters());
            arrived += multipath.connection.observe(number as usize, tcp.connection.subflow_view());
            // RFC 6356 §4: the others may learn of this window with their own next acknowledgement.
            tcp.connection.couple_window(multipath.connection.coupling());
        }
        self.endpoint_mut(end).protocol = Protocol::Multipath(multipath);
        if arrived > 0 {
            self.count_goodput(workload, arrived, ctx);
        }
    }

    /// Writes to the subflows what they have room for, opens further ones and closes them all at the end.
    fn write_to_subflows(&mut self, multipath: &mut MultipathEnd, ctx: &mut Context) {
        let now = ctx.now();
        while let Some(next) = multipath.connection.next_assignment(now) {
            let key = multipath.first + 2 * next.subflow as u32;
            let Some(subflow) = self.own_endpoint_mut(key) else { break };
            TcpEnd::of_mut(&mut subflow.protocol).connection.write(next.bytes, now);
            self.send_on_subflow(key, ctx);
            let Some(subflow) = self.own_endpoint_mut(key) else { break };
            let view = TcpEnd::of_mut(&mut subflow.protocol).connection.subflow_view();
            multipath.connection.observe(next.subflow, view);
        }
        if multipath.holds_further && multipath.connection.is_first_established() {
            multipath.holds_further = false;
            for key in multipath.subflows() {
                let Some(subflow) = self.own_endpoint_mut(key) else { continue };
                TcpEnd::of_mut(&mut subflow.protocol).is_held = false;
                self.send_on_subflow(key, ctx);
            }
        }
        if !multipath.subflows_close && multipath.connection.may_close_subflows() {
            multipath.subflows_close = true;
            self.close_subflows(multipath, ctx);
        }
    }

    /// A subflow sends what it may; at another port of the host by a timer event.
    fn send_on_subflow(&mut self, key: u32, ctx: &mut Context) {
        let id = self.host_id();
        let Some(subflow) = self.own_endpoint_mut(key) else { return };
        if subflow.host != id {
            subflow.schedule_timer_at(ctx.now(), ctx);
        } else if let Some(subflow) = self.find_endpoint(key) {
            TcpEnd::send_available(self, subflow, ctx);
            self.endpoint_mut(subflow).schedule_timer::<TcpEnd>(ctx);
        }
    }

    fn close_subflows(&mut self, multipath: &MultipathEnd, ctx: &mut Context) {
        let now = ctx.now();
        for key in multipath.subflows() {
            let Some(subflow) = self.own_endpoint_mut(key) else { continue };
            let tcp = TcpEnd::of_mut(&mut subflow.protocol);
            if tcp.connection.is_established() {
                subflow.close::<TcpEnd>(false, now);
            } else {
                // It comes too late to be of use, and would send no FIN.
                tcp.connection.abandon();
            }
            subflow.schedule_timer_at(now, ctx);
        }
    }
}

impl SendReliable for MultipathEnd {
    fn send_available<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) {
        host.observe_subflows(end, ctx);
        let state = host.endpoint_mut(end);
        let Protocol::Multipath(mut multipath) = std::mem::replace(&mut state.protocol, Protocol::Free)
        else {
            unreachable!("the endpoint is one of MPTCP")
        };
        host.write_to_subflows(&mut multipath, ctx);
        host.endpoint_mut(end).protocol = Protocol::Multipath(multipath);
    }

    fn send_turn<'n>(_host: &mut BorrowedHost<'n>, _end: EndpointToken<'n>, _ctx: &mut Context) -> bool {
        unreachable!("it has no packets")
    }
}
