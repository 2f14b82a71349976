//! Messages on kept connections: an application appends bytes to a stream, either way, and is told where it is when they are
//! there.
//!
//! Each end keeps where the messages that it waits for end in its stream: its application learns of one when the last byte is in
//! order; the sender, if it asks, with the first acknowledgement or timer after the last byte was sent (its own would come late, where
//! ACKs are delayed).

use crate::cell::Cell;
use crate::order::News;
use pauseframe_units::Time;
use std::collections::VecDeque;

/// Where messages end in the streams of one connection end, with their tokens.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    /// Of the stream that comes, and its bytes so far.
    incoming: VecDeque<(u64, u32)>,
    awaited: u64,
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

impl Cell {
    /// The application of an end writes a message.
    pub(crate) fn write_message(
        &mut self,
        slot: u32,
        bytes: u64,
        token: Option<u32>,
        written: bool,
        now: Time,
    ) {
        let end = self.end(slot);
        let boundaries = end.messages.get_or_insert_default();
        boundaries.appended += bytes;
        if let Some(token) = token {
            boundaries.outgoing.push_back((boundaries.appended, token));
            end.tells = boundaries.outgoing.front().map_or(u64::MAX, |&(end, _)| end);
        }
        if !written {
            end.connection.send(bytes, now);
        }
    }

    /// The application of an end waits for a message.
    pub(crate) fn await_message(&mut self, slot: u32, bytes: u64, token: u32) {
        let end = self.end(slot);
        let boundaries = end.messages.get_or_insert_default();
        boundaries.awaited += bytes;
        boundaries.incoming.push_back((boundaries.awaited, token));
        end.expects = boundaries.incoming.front().map_or(u64::MAX, |&(end, _)| end);
    }

    /// Messages have come whole to this end.
    pub(crate) fn on_messages(&mut self, slot: u32, now: Time) {
        let end = self.ends[slot as usize].as_mut().expect("an end to which messages come");
        let (address, delivered) = (end.peer ^ 1, end.connection.delivered());
        let Some(boundaries) = end.messages.as_mut() else { return };
        let mut tokens = Vec::new();
        end.expects = passed(&mut boundaries.incoming, delivered, |token| tokens.push(token));
        for token in tokens {
            self.report(address, News::Delivered(token), now);
        }
    }

    /// Messages of this end have been sent.
    #[cold]
    pub(crate) fn on_sent(&mut self, slot: u32, now: Time) {
        let end = self.ends[slot as usize].as_mut().expect("an end that has sent messages");
        let (address, sent) = (end.peer ^ 1, end.sent());
        let Some(boundaries) = end.messages.as_mut() else { return };
        let mut tokens = Vec::new();
        end.tells = passed(&mut boundaries.outgoing, sent, |token| tokens.push(token));
        for token in tokens {
            self.report(address, News::Sent(token), now);
        }
    }
}
