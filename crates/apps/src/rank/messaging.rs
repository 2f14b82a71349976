//! Sends and receives of a rank: eager and rendezvous protocols, requests.

use super::matching::Wanted;
use super::{Early, Envelope, Message, NONE, Owner, Part, Rank, Request, World};
use crate::replay::Outbox;
use pauseframe_units::Time;

impl Rank {
    pub(super) fn send(
        &mut self,
        envelope: Envelope,
        to: u32,
        owner: Owner,
        now: Time,
        world: World,
        out: &mut Outbox,
    ) {
        if to == self.id {
            self.own.push_back(envelope);
            self.complete.push_back((owner, true));
            return;
        }
        let header = world.options.envelope;
        let (bytes, part) = if envelope.bytes <= world.options.eager_limit {
            self.complete.push_back((owner, true));
            (header + envelope.bytes, Part::Eager(envelope))
        } else {
            let sender = self.add_request(Request::Send { owner, to, bytes: header + envelope.bytes });
            (header, Part::Announce { envelope, sender })
        };
        out.messages.push(Message { from: self.id, to, bytes, notify: None, left: now, part });
    }

    /// Sends a message without waiting for the receive; the send is complete when the last byte has left.
    pub(super) fn send_asynchronously(
        &mut self,
        envelope: Envelope,
        to: u32,
        owner: Owner,
        now: Time,
        world: World,
        out: &mut Outbox,
    ) {
        if to == self.id {
            self.own.push_back(envelope);
            self.complete.push_back((owner, true));
            return;
        }
        let bytes = world.options.envelope + envelope.bytes;
        let sender = self.add_request(Request::Send { owner, to, bytes });
        let part = Part::Eager(envelope);
        out.messages.push(Message { from: self.id, to, bytes, notify: Some(sender), left: now, part });
    }

    #[expect(clippy::too_many_arguments, reason = "what a receive is, and where it happens")]
    pub(super) fn receive(
        &mut self,
        wanted: Wanted,
        limit: u64,
        step: u32,
        owner: Owner,
        now: Time,
        world: World,
        out: &mut Outbox,
    ) {
        let Wanted { from, tag, .. } = wanted;
        let early = self.matching.take_early(wanted);
        let request = self.add_request(Request::Receive { owner, from, tag, limit, step });
        match early {
            None => self.matching.post(wanted, request),
            Some(early) => self.accept(request, early, now, world, out),
        }
    }

    /// Handles the arrival of a message or its announcement: passes it to the matching receive, or stores it.
    pub(super) fn arrive(&mut self, early: Early, now: Time, world: World, out: &mut Outbox) {
        let Early { envelope: Envelope { context, tag, .. }, from, .. } = early;
        match self.matching.take_posted(context, from, tag) {
            None => self.matching.keep(context, from, tag, early),
            Some(request) => self.accept(request, early, now, world, out),
        }
    }

    /// Matches a receive with its message: completes the receive, or requests the announced message from its
    /// sender.
    fn accept(&mut self, request: u32, early: Early, now: Time, world: World, out: &mut Outbox) {
        self.check_size(request, early.envelope.bytes, world);
        match early.announced {
            None => {
                self.left = early.left;
                self.close(request);
            }
            Some(sender) => {
                let (to, bytes) = (early.from, world.options.envelope);
                let part = Part::Clear { sender, receiver: request };
                out.messages.push(Message { from: self.id, to, bytes, notify: None, left: now, part });
            }
        }
    }

    /// Sends the data of a request after the receiver reported that it is ready.
    pub(super) fn transfer(&mut self, sender: u32, receiver: u32, now: Time, out: &mut Outbox) {
        if let Request::Send { to, bytes, .. } = self.requests[sender as usize] {
            let part = Part::Data { receiver };
            out.messages.push(Message { from: self.id, to, bytes, notify: Some(sender), left: now, part });
        }
    }

    /// Checks the size: a message longer than the buffer is an error (MPI 4.0 §3.2.4).
    fn check_size(&mut self, request: u32, bytes: u64, world: World) {
        if let Request::Receive { limit, step, .. } = self.requests[request as usize]
            && bytes > limit
        {
            let reason = format!("the message has {bytes} bytes and the receive takes {limit}");
            self.fault(&world.application.programs[self.id as usize], step, reason);
        }
    }

    fn add_request(&mut self, request: Request) -> u32 {
        if self.free == NONE {
            self.requests.push(request);
            return self.requests.len() as u32 - 1;
        }
        let at = self.free;
        if let Request::Free { next } = std::mem::replace(&mut self.requests[at as usize], request) {
            self.free = next;
        }
        at
    }

    /// Completes a request.
    pub(super) fn close(&mut self, at: u32) {
        let free = Request::Free { next: self.free };
        self.free = at;
        match std::mem::replace(&mut self.requests[at as usize], free) {
            Request::Send { owner, .. } => self.complete.push_back((owner, true)),
            Request::Receive { owner, .. } => self.complete.push_back((owner, false)),
            Request::Free { .. } => unreachable!("a request is closed once"),
        }
    }
}
