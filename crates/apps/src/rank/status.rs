//! The current activity of a rank, and the reason why it is stuck if no further event will occur.

use super::{Activity, Cursor, Early, Owner, Rank, Request, World};
use crate::application::Op;
use crate::replay::Fault;
use pauseframe_units::{Time, counted};
use std::collections::BTreeSet;

/// Maximum number of open requests that a message lists individually.
const TOLD: usize = 4;

impl Rank {
    /// Updates the time line.
    pub(super) fn note_activity(&mut self, now: Time, world: World) {
        let program = &world.application.programs[self.id as usize];
        let activity = match &self.cursor {
            Cursor::InTurn(_) if self.computing => return,
            Cursor::InTurn(cursor) if cursor.is_blocked() => {
                let sends = cursor.waits_for_sends();
                Some((if sends { Activity::Sending } else { Activity::Waiting }, (cursor.at - 1) as u32))
            }
            Cursor::InTurn(cursor) => {
                debug_assert_eq!(cursor.at, program.ops.len());
                None
            }
            Cursor::ByDependence(cursor) if cursor.is_computing() => return,
            Cursor::ByDependence(cursor) if cursor.left == 0 => None,
            Cursor::ByDependence(cursor) => {
                let sends = cursor.open > 0 && cursor.open == cursor.open_sends;
                let step = self.open_steps().min().unwrap_or(0);
                Some((if sends { Activity::Sending } else { Activity::Waiting }, step))
            }
        };
        let left = self.left;
        self.timeline.change(activity, now, |step| program.group(step).map(|group| (group, left)));
        if activity.is_none() && self.finished.is_none() {
            self.finished = Some(now);
        }
    }

    /// Steps whose messages or collective operations are in progress.
    fn open_steps(&self) -> impl Iterator<Item = u32> + '_ {
        let steps = self.requests.iter().filter_map(|request| match request {
            Request::Send { owner: Owner::Step(step), .. }
            | Request::Receive { owner: Owner::Step(step), .. } => Some(*step),
            _ => None,
        });
        let lanes = self.lane_runs.iter().map(|run| run.of.step);
        steps.chain(self.runs.iter().flatten().map(|run| run.step)).chain(lanes)
    }

    /// Describes the first message that arrived and was not received, if there is one.
    pub(crate) fn unreceived(&self, world: World) -> Option<Fault> {
        let program = &world.application.programs[self.id as usize];
        let mut left = self.matching.unreceived();
        let Early { from, envelope, .. } = left.next()?;
        let others = left.count();
        let more = if others > 0 { format!(", nor {others} more") } else { String::new() };
        let (bytes, tag) = (envelope.bytes, envelope.tag);
        let reason =
            format!("no receive takes the message of {bytes} bytes from rank {from} with tag {tag}{more}");
        let step = program.ops.len().saturating_sub(1) as u32;
        Some(Fault { rank: self.id, line: program.line(step as usize), step, reason })
    }

    /// Explains why the rank does not continue, if it has not finished.
    pub(crate) fn stuck(&self, world: World) -> Option<Fault> {
        if self.finished.is_some() {
            return None;
        }
        let program = &world.application.programs[self.id as usize];
        let mut told: Vec<(u32, String)> =
            self.requests.iter().filter_map(|request| self.describe(request, world)).collect();
        told.extend(self.lane_runs.iter().map(|run| {
            let call = &program.calls[run.of.call as usize];
            let name = format!("{} {} on communicator {}", call.kind, run.of.number, call.comm);
            (run.of.step, format!("waits in {name} for data on {}", counted(run.open, "connection")))
        }));
        let open = told.len();
        let step = match &self.cursor {
            Cursor::InTurn(cursor) => cursor.at.saturating_sub(1) as u32,
            Cursor::ByDependence(cursor) => {
                if let Some(&(step, _)) = told.first() {
                    step
                } else {
                    let (step, needs) = cursor.unmet().next()?;
                    told.push((step, format!("needs {needs} step(s) that need it in turn")));
                    step
                }
            }
        };
        told.truncate(TOLD);
        let mut reason = told.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("; ");
        if open > TOLD {
            reason = format!("{reason}; and {} more", open - TOLD);
        }
        Some(Fault { rank: self.id, line: program.line(step as usize), step, reason })
    }

    /// Describes the step of a request that blocks the rank, and the missing event.
    fn describe(&self, request: &Request, world: World) -> Option<(u32, String)> {
        let at = match &self.cursor {
            Cursor::InTurn(cursor) => cursor.at.saturating_sub(1) as u32,
            Cursor::ByDependence(_) => 0,
        };
        let (owner, step, missing) = match *request {
            Request::Free { .. } => return None,
            Request::Send { owner, to, bytes } => {
                let bytes = bytes - world.options.envelope;
                (owner, at, format!("rank {to} to receive {bytes} bytes"))
            }
            Request::Receive { owner, from, tag, step, .. } => {
                let sender = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
                let with = if matches!(owner, Owner::Run(_)) {
                    String::new()
                } else {
                    let tag_text = tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
                    format!(" with {tag_text}{}", self.without_send(from, tag, world))
                };
                (owner, step, format!("a message from {sender}{with}"))
            }
        };
        match (owner, &self.cursor) {
            (Owner::Run(run), _) => {
                let run = self.runs[run as usize]?;
                let call = &world.application.programs[self.id as usize].calls[run.call as usize];
                let name = format!("{} {} on communicator {}", call.kind, run.number, call.comm);
                Some((run.step, format!("waits in {name} for {missing}")))
            }
            (Owner::Slot(slot), Cursor::InTurn(cursor)) if !cursor.is_awaited(slot) => None,
            (Owner::Slot(slot), _) => Some((at, format!("waits with request {slot} for {missing}"))),
            (Owner::Step(step), _) => Some((step, format!("waits for {missing}"))),
            (Owner::Block, _) => Some((step, format!("waits for {missing}"))),
        }
    }

    /// What to add about a message that no program sends.
    fn without_send(&self, from: Option<u32>, tag: Option<i32>, world: World) -> String {
        let programs = world.application.programs.iter().enumerate();
        let senders = programs.filter(|(rank, _)| from.is_none_or(|from| from as usize == *rank));
        let tags: BTreeSet<i32> = senders
            .flat_map(|(_, program)| &program.ops)
            .filter_map(|op| match op {
                Op::Send { to, tag, .. } if *to == self.id => Some(*tag),
                _ => None,
            })
            .collect();
        if tag.map_or(!tags.is_empty(), |tag| tags.contains(&tag)) {
            return String::new();
        }
        let sender = from.map_or("no rank sends".to_owned(), |from| format!("rank {from} never sends"));
        if tags.is_empty() {
            return format!(", which {sender}");
        }
        let known: Vec<String> = tags.iter().take(TOLD).map(i32::to_string).collect();
        format!(", which {sender}: what it gets from there has tag {}", known.join(", "))
    }
}
