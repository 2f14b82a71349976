//! Messages on kept connections: a workload appends bytes to a stream, either way, and is told where it is when they are
//! there.
//!
//! Each end keeps where the messages that it waits for end in its stream: its application learns of one when the last byte is in
//! order; the sender, if it asks, with the first acknowledgement or timer after the last byte was sent (its own would come late, where
//! ACKs are delayed). The first message between two opens the
//! connection; when the workload is over, its connections end.

use crate::event::Event;
use crate::flow::{FlowSpec, FlowStatus, Kept, Message};
use crate::network::Network;
use pauseframe_engine::EventQueue;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// Where messages end in the streams of one connection end, with their tokens.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    /// Of the stream that comes.
    incoming: VecDeque<(u64, u32)>,
    /// Of the stream that goes: those whose sender wants to know that they have gone.
    outgoing: VecDeque<(u64, u32)>,
    /// Bytes appended to the stream that goes.
    appended: u64,
}

/// Takes the messages that end at or before `offset`; the end of the next.
fn passed(line: &mut VecDeque<(u64, u32)>, offset: u64, mut tell: impl FnMut(u32)) -> u64 {
    while let Some(&(_, token)) = line.front().filter(|(end, _)| *end <= offset) {
        line.pop_front();
        tell(token);
    }
    line.front().map_or(u64::MAX, |&(end, _)| end)
}

impl Network {
    /// Sends what a workload has to send.
    pub(crate) fn serve(&mut self, workload: u16, now: Time, queue: &mut EventQueue) {
        while let Some(message) = self.workloads[usize::from(workload)].next_message() {
            self.send_message(workload, message, now, queue);
        }
    }

    /// After a workload has been told of a message: what it sends now, when it wants to be woken, whether it is over.
    fn go_on(&mut self, workload: u16, now: Time, queue: &mut EventQueue) {
        self.serve(workload, now, queue);
        self.schedule_workload(u32::from(workload), now, queue);
        let index = usize::from(workload);
        // Not here: the connection that brought the last message is still at work.
        if self.workloads[index].is_over() && self.workload_at[index] != Some(now) {
            self.workload_at[index] = Some(now);
            queue.push(now, Event::FlowStart(u32::from(workload)).code());
        }
    }

    /// A workload is over: its connections carry no further message.
    pub(crate) fn end_connections(&mut self, workload: u16, now: Time, queue: &mut EventQueue) {
        if !self.workloads[usize::from(workload)].is_over() {
            return;
        }
        let own = (workload, 0)..=(workload, u32::MAX);
        let openers: Vec<u32> = self.kept.range(own).map(|(_, opener)| *opener).collect();
        for opener in openers {
            self.forget_kept(opener);
            self.end_flow(opener, FlowStatus::Finished, now, queue);
            self.close_if_quiet(opener);
        }
    }

    fn send_message(&mut self, workload: u16, message: Message, now: Time, queue: &mut EventQueue) {
        let Message { connection, from, to, bytes, .. } = message;
        let opener = self.kept.get(&(workload, connection)).copied();
        let flow = opener.unwrap_or_else(|| self.open_for_messages(workload, &message, now, queue));
        let side = usize::from(self.records[flow as usize].spec.source != from);
        debug_assert!([from, to].contains(&self.records[flow as usize].spec.destination));
        let slots = self.slots[flow as usize];
        let (here, there) = (slots[side], slots[1 - side]);
        let end = self.end(here);
        let boundaries = end.messages.get_or_insert_default();
        boundaries.appended += bytes;
        let offset = boundaries.appended;
        if message.notify {
            boundaries.outgoing.push_back((offset, message.token));
            end.tells = boundaries.outgoing.front().map_or(u64::MAX, |&(end, _)| end);
        }
        let peer = self.end(there);
        let boundaries = peer.messages.get_or_insert_default();
        boundaries.incoming.push_back((offset, message.token));
        peer.expects = boundaries.incoming.front().map_or(u64::MAX, |&(end, _)| end);
        if opener.is_some() {
            let spec = &mut self.records[flow as usize].spec;
            *(if side == 0 { &mut spec.size } else { &mut spec.reply }) += bytes;
            self.end(here).connection.send(bytes, now);
            self.pump(here, now, queue);
            self.arm_timer(here, now, queue);
        }
    }

    /// The connection of two that have not talked yet, with the first message on it.
    fn open_for_messages(
        &mut self,
        workload: u16,
        message: &Message,
        now: Time,
        queue: &mut EventQueue,
    ) -> u32 {
        let flow = self.records.len() as u32;
        let spec = FlowSpec {
            source: message.from,
            destination: message.to,
            size: message.bytes,
            reply: 0,
            reply_delay: Span::ZERO,
            start: now,
            stop: None,
            transport: message.transport,
            workload,
            query: None,
            kept: Some(Kept { number: message.connection, first: true, last: false }),
        };
        self.open_flow(spec, now, queue);
        // Its time is that of the application, which no idle network knows.
        self.records[flow as usize].ideal = Span::ZERO;
        flow
    }

    /// Messages have come whole to this end.
    pub(crate) fn on_messages(&mut self, slot: u32, now: Time, queue: &mut EventQueue) {
        let Some(end) = self.ends[slot as usize].as_mut() else { return };
        let Some(boundaries) = end.messages.as_mut() else { return };
        let workload = self.records[end.flow as usize].spec.workload;
        let told = &mut self.workloads[usize::from(workload)];
        let delivered = end.connection.delivered();
        end.expects = passed(&mut boundaries.incoming, delivered, |token| told.on_delivered(token, now));
        self.go_on(workload, now, queue);
    }

    /// Messages of this end have been sent.
    #[cold]
    pub(crate) fn on_sent(&mut self, slot: u32, now: Time, queue: &mut EventQueue) {
        let Some(end) = self.ends[slot as usize].as_mut() else { return };
        let sent = end.sent();
        let Some(boundaries) = end.messages.as_mut() else { return };
        let workload = self.records[end.flow as usize].spec.workload;
        let told = &mut self.workloads[usize::from(workload)];
        end.tells = passed(&mut boundaries.outgoing, sent, |token| told.on_sent(token, now));
        self.go_on(workload, now, queue);
    }
}
