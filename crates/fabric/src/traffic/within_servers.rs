//! Flows and messages between hosts of a server: they take scale-up links and no port of the network. Datagrams are
//! none of them: a source sends these at its rate through its NIC.

use super::Traffic;
use super::scale_up::{Piece, ScaleUpLinks};
use crate::flow::{ApplicationMessage, FlowRecord, FlowSpec, FlowStatus, KeptConnection};
use crate::settings::Settings;
use crate::throughput::ThroughputSeries;
use pauseframe_engine::Fingerprint;
use pauseframe_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

/// What a piece of a transfer is.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// The request of a flow, or all its data.
    Request,
    Reply,
    Message {
        token: u32,
        notify: bool,
    },
}

/// What happens to a flow when the time has come.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The last byte of a piece has arrived.
    Arrived { load: Load, bytes: u64 },
    /// The last byte of a message with `notify` has left.
    Sent { token: u32 },
    /// The reply of a flow begins.
    Replies,
}

/// The traffic on scale-up links.
#[derive(Debug)]
pub(super) struct TrafficWithinServers {
    links: ScaleUpLinks<Load>,
    /// Transfers by flow * 2 + side.
    transfers: BTreeMap<u32, u32>,
    /// The flow and side of each transfer.
    owners: Vec<u32>,
    /// By time and order: what happens to flows, given as flow * 2 + side.
    events: BTreeMap<(Time, u64), (u32, Event)>,
    count: u64,
    ended: Vec<(u32, Piece<Load>)>,
    /// By flow and side: bytes of the piece under way that are in the record already.
    counted: BTreeMap<u32, u64>,
    /// Bytes that hosts received; a piece counts when it ends.
    throughput: ThroughputSeries,
    tally: Fingerprint,
    ends: u64,
}

impl TrafficWithinServers {
    pub(super) fn from_settings(settings: &Settings, workloads: usize) -> Option<Box<TrafficWithinServers>> {
        let links = ScaleUpLinks::new(settings.scale_up.as_ref()?);
        Some(Box::new(TrafficWithinServers {
            links,
            transfers: BTreeMap::new(),
            owners: Vec::new(),
            events: BTreeMap::new(),
            count: 0,
            ended: Vec::new(),
            counted: BTreeMap::new(),
            throughput: ThroughputSeries::new(workloads),
            tally: Fingerprint::default(),
            ends: 0,
        }))
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        [event, self.links.next_end()].into_iter().flatten().min()
    }

    pub(super) fn settle(&mut self) {
        self.links.settle();
    }

    /// What is under way comes later by so much.
    pub(super) fn stand_still(&mut self, by: Span) {
        self.links.stand_still(by);
        let events = std::mem::take(&mut self.events);
        self.events = events.into_iter().map(|((at, order), event)| ((at + by, order), event)).collect();
    }

    /// Something will happen to the flow of `key` (flow * 2 + side).
    fn schedule(&mut self, at: Time, key: u32, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), (key, event));
    }

    fn close(&mut self, key: u32, now: Time) -> u64 {
        let sent = self.transfers.remove(&key).map_or(0, |transfer| self.links.close(transfer, now));
        sent - self.counted.remove(&key).unwrap_or(0).min(sent)
    }
}

impl Traffic {
    /// Whether a flow takes scale-up links.
    pub(super) fn goes_within_server(&self, spec: &FlowSpec) -> bool {
        self.within_servers.is_some() && self.ideal.is_within_server(spec)
    }

    pub(super) fn is_within_server(&self, flow: u32) -> bool {
        self.within_servers.is_some() && self.goes_within_server(&self.records.flow_record(flow).spec)
    }

    /// Hash and number of all ends of pieces.
    pub(crate) fn tally_within_servers(&self) -> (Fingerprint, u64) {
        self.within_servers.as_ref().map_or_else(Default::default, |within| (within.tally, within.ends))
    }

    pub(crate) fn throughput_within_servers(&self) -> Option<&ThroughputSeries> {
        self.within_servers.as_ref().map(|within| &within.throughput)
    }

    pub(super) fn open_within_server(&mut self, spec: &FlowSpec, now: Time) {
        let flow = self.record_within_server(spec, now);
        if let Some(stop) = spec.stop {
            self.stops.push(Reverse((stop.max(now), flow)));
        }
        self.push_piece(flow * 2, Piece { bytes: spec.size, token: Load::Request }, now);
    }

    fn record_within_server(&mut self, spec: &FlowSpec, now: Time) -> u32 {
        let flow = self.records.len() as u32;
        let ideal = self.ideal.ideal_fct(spec);
        self.records.push(&FlowRecord::new(*spec, ideal, now));
        self.new_hosts.push([spec.source, spec.destination]);
        self.active += 1;
        flow
    }

    /// Sends a message over scale-up links if its hosts share a server.
    pub(super) fn sent_within_server(
        &mut self,
        workload: u16,
        message: &ApplicationMessage,
        now: Time,
    ) -> bool {
        let ApplicationMessage { connection, from, to, bytes, token, notify, transport } = *message;
        let kept = Some(KeptConnection { number: connection, first: true, last: false });
        let spec = FlowSpec { start: now, transport, workload, kept, ..FlowSpec::new(from, to, 0) };
        if !self.goes_within_server(&spec) {
            return false;
        }
        let flow = self.kept.get(&(workload, connection)).copied().unwrap_or_else(|| {
            let flow = self.record_within_server(&spec, now);
            // Its duration depends on the application, so it has no ideal time.
            self.records.update(flow, |record| record.ideal = Span::ZERO);
            self.kept.insert((workload, connection), flow);
            flow
        });
        let is_forward = self.records.update(flow, |FlowRecord { spec, .. }| {
            let is_forward = spec.source == from;
            *(if is_forward { &mut spec.size } else { &mut spec.reply }) += bytes;
            is_forward
        });
        let piece = Piece { bytes, token: Load::Message { token, notify } };
        self.push_piece(flow * 2 + u32::from(!is_forward), piece, now);
        true
    }

    /// Appends a piece to the transfer of flow and side.
    fn push_piece(&mut self, key: u32, piece: Piece<Load>, now: Time) {
        let Some(within) = &mut self.within_servers else { return };
        let transfer = within.transfers.get(&key).copied().unwrap_or_else(|| {
            let spec = self.records.flow_record(key / 2).spec;
            let ends =
                if key & 1 == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] };
            let links = self.plan.settings.scale_up.as_ref();
            let [from, to] = ends.map(|host| links.and_then(|links| links.place_of_host(host)));
            let ((server, from), (_, to)) = from.zip(to).expect("hosts of a server have places in it");
            let transfer = within.links.open(server, from, to);
            within.owners.resize(within.owners.len().max(transfer as usize + 1), 0);
            within.owners[transfer as usize] = key;
            within.transfers.insert(key, transfer);
            transfer
        });
        within.links.push(transfer, piece, now);
    }

    /// What is due on scale-up links at `now`.
    pub(super) fn act_within_servers(&mut self, now: Time) {
        self.end_pieces(now);
        while let Some(within) = &mut self.within_servers {
            let due = within.events.first_entry().filter(|entry| entry.key().0 == now);
            let Some((key, event)) = due.map(OccupiedEntry::remove) else { return };
            self.on_server_event(key, event, now);
        }
    }

    /// Pieces whose last byte leaves at `now` arrive after the latency of the links; applications react later.
    fn end_pieces(&mut self, now: Time) {
        let Some(within) = &mut self.within_servers else { return };
        let latency = self.plan.settings.scale_up.as_ref().map_or(Span::ZERO, |links| links.latency);
        within.links.take_ended(now, &mut within.ended);
        let mut ended = std::mem::take(&mut within.ended);
        for (transfer, piece) in ended.drain(..) {
            let key = within.owners[transfer as usize];
            let spec = self.records.flow_record(key / 2).spec;
            let is_answered = self.closed_loop[usize::from(spec.workload)];
            let reaction = if is_answered { self.answered.delay } else { Span::ZERO };
            let arrival = now + latency;
            within.tally.add_event(arrival, u64::from(key));
            within.ends += 1;
            let before = within.counted.get(&key).copied().unwrap_or(0);
            within.throughput.add_goodput(spec.workload, piece.bytes - before, arrival);
            let reacts = match piece.token {
                Load::Request if spec.reply > 0 => Span::ZERO,
                _ => reaction,
            };
            if let Load::Message { token, notify: true } = piece.token {
                within.schedule(now + reaction, key, Event::Sent { token });
            }
            let counted = within.counted.remove(&key).unwrap_or(0);
            let arrived = Event::Arrived { load: piece.token, bytes: piece.bytes - counted };
            within.schedule(arrival + reacts, key, arrived);
            if !matches!(piece.token, Load::Message { .. }) {
                within.close(key, now);
            }
        }
        within.ended = ended;
    }

    fn on_server_event(&mut self, key: u32, event: Event, now: Time) {
        let flow = key / 2;
        let spec = self.records.flow_record(flow).spec;
        let workload = usize::from(spec.workload);
        match event {
            Event::Replies => {
                self.push_piece(flow * 2 + 1, Piece { bytes: spec.reply, token: Load::Reply }, now);
                return;
            }
            Event::Sent { token } => self.workloads[workload].on_message_sent(token, now),
            Event::Arrived { load, bytes } => {
                self.records.update(flow, |record| record.delivered += bytes);
                let reaction = if self.closed_loop[workload] { self.answered.delay } else { Span::ZERO };
                match load {
                    Load::Message { token, .. } => self.workloads[workload].on_message_delivered(token, now),
                    Load::Request if spec.reply > 0 => {
                        let Some(within) = &mut self.within_servers else { return };
                        within.schedule(now.saturating_add(spec.reply_delay), key, Event::Replies);
                        return;
                    }
                    Load::Request | Load::Reply => {
                        self.end_flow(flow, FlowStatus::Finished, Time(now.0 - reaction.0));
                    }
                }
            }
        }
        self.send_messages(spec.workload, now);
        self.schedule_next_start(spec.workload, now);
    }

    /// Stops a long flow.
    pub(super) fn stop_within_server(&mut self, flow: u32, now: Time) {
        let Some(within) = &mut self.within_servers else { return };
        let sent = within.close(flow * 2, now) + within.close(flow * 2 + 1, now);
        let workload = self.records.flow_record(flow).spec.workload;
        within.throughput.add_goodput(workload, sent, now);
        self.records.update(flow, |record| record.delivered += sent);
        self.end_flow(flow, FlowStatus::Stopped, now);
        self.schedule_next_start(workload, now);
    }

    /// Counts what has left so far of pieces under way, for records of a run that ends now.
    pub(super) fn count_bytes_within_servers(&mut self, now: Time) {
        let Some(within) = &mut self.within_servers else { return };
        for (key, transfer) in &within.transfers {
            let sent = within.links.sent_of_first(*transfer, now);
            let before = within.counted.insert(*key, sent).unwrap_or(0);
            let workload = self.records.update(key / 2, |record| {
                record.delivered += sent - before;
                record.spec.workload
            });
            within.throughput.add_goodput(workload, sent - before, now);
        }
    }
}
