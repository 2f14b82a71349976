//! Carries out the collective operations of NCCL: each connection sends its slices as soon as their data are there
//! and the receiver has room. A communicator has one stream, so its operations go one after the other.

use super::run::part;
use super::{Message, Owner, Part, Rank, Slice, World};
use crate::calls::{Algorithm, Step};
use crate::nccl::{Gate, Pattern, Plan};
use crate::replay::{Credit, Outbox};
use pauseframe_units::Time;

/// An operation and its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) owner: Owner,
    /// Index of the call in the program.
    pub(super) call: u32,
    pub(super) step: u32,
    pub(super) comm: u32,
    /// Number of the operation on its communicator.
    pub(super) number: i32,
}

/// An operation in progress.
#[derive(Debug)]
pub(super) struct LaneRun {
    pub(super) of: Waiting,
    pub(super) plan: Plan,
    /// By outgoing connection: messages sent, and those that the receiver has taken.
    pub(super) sent: Vec<(u32, u32)>,
    /// By incoming connection: messages received.
    pub(super) received: Vec<u32>,
    /// When the last two came, on any of these.
    pub(super) arrived: [Time; 2],
    /// Connections that are not complete.
    pub(super) open: u32,
}

/// A slice of an operation that its receiver has not begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlySlice {
    from: u32,
    slice: Slice,
}

impl Rank {
    /// Begins an operation, or lets it wait for its stream.
    pub(super) fn start_lanes(&mut self, of: Waiting, now: Time, world: World, out: &mut Outbox) {
        let is_busy = self.lane_runs.iter().any(|run| run.of.comm == of.comm);
        if is_busy {
            self.waiting.push_back(of);
        } else {
            self.begin_lanes(of, now, world, out);
        }
    }

    fn begin_lanes(&mut self, of: Waiting, now: Time, world: World, out: &mut Outbox) {
        let Some(settings) = &world.options.nccl else { return };
        let call = &world.application.programs[self.id as usize].calls[of.call as usize];
        let part = part(world.application, call, self.id);
        let plan = Plan::new(call.kind, &part, &world.layouts[of.comm as usize], settings);
        let made = Algorithm::Nccl(plan.pattern);
        out.steps.push(Step::begin(self.id, of.comm, of.number, of.call, made, now));
        let open = plan.outs.len() as u32 + plan.ins - plan.idle.len() as u32;
        let (sent, received) = (vec![(0, 0); plan.outs.len()], vec![0; plan.ins as usize]);
        self.lane_runs.push(LaneRun { of, plan, sent, received, arrived: [now; 2], open });
        let at = self.lane_runs.len() - 1;
        let is_of_run = |early: &EarlySlice| (early.slice.comm, early.slice.number) == (of.comm, of.number);
        let early: Vec<EarlySlice> = self.early_slices.iter().copied().filter(is_of_run).collect();
        if !early.is_empty() {
            self.early_slices.retain(|early| !is_of_run(early));
            for early in early {
                self.take_slice(at, early.from, early.slice, now, out);
            }
        }
        (0..self.lane_runs[at].sent.len()).for_each(|lane| self.send_slices(at, lane, now, world, out));
        self.end_lanes_if_complete(at, now, world, out);
    }

    pub(super) fn on_slice(&mut self, from: u32, slice: Slice, now: Time, world: World, out: &mut Outbox) {
        let Some(at) = self.lane_run(slice.comm, slice.number) else {
            self.early_slices.push(EarlySlice { from, slice });
            return;
        };
        self.take_slice(at, from, slice, now, out);
        // A slice of an exchange between all pairs opens no gate.
        if self.lane_runs[at].plan.pattern != Pattern::SendRecv {
            self.send_gated(at, slice.slot, now, world, out);
        }
        self.end_lanes_if_complete(at, now, world, out);
    }

    /// Sends what waited for a slice on incoming connection `slot`.
    fn send_gated(&mut self, at: usize, slot: u32, now: Time, world: World, out: &mut Outbox) {
        for lane in 0..self.lane_runs[at].sent.len() {
            let is_gated = match self.lane_runs[at].plan.outs[lane].gate {
                Gate::Free => false,
                Gate::Ring { slot: other, .. } => other == slot,
                Gate::Same { first, count } => (first..first + count).contains(&slot),
            };
            if is_gated {
                self.send_slices(at, lane, now, world, out);
            }
        }
    }

    /// A receiver has taken a slice.
    pub(crate) fn on_credit(&mut self, credit: Credit, now: Time, world: World, out: &mut Outbox) {
        let Some(at) = self.lane_run(credit.comm, credit.number) else { return };
        let run = &mut self.lane_runs[at];
        let (sent, taken) = &mut run.sent[credit.out as usize];
        *taken += 1;
        if *taken == run.plan.outs[credit.out as usize].total {
            debug_assert_eq!(sent, taken);
            run.open -= 1;
        }
        self.send_slices(at, credit.out as usize, now, world, out);
        self.end_lanes_if_complete(at, now, world, out);
        self.drive(now, world, out);
    }

    fn lane_run(&self, comm: u32, number: i32) -> Option<usize> {
        self.lane_runs.iter().position(|run| (run.of.comm, run.of.number) == (comm, number))
    }

    fn take_slice(&mut self, at: usize, from: u32, slice: Slice, now: Time, out: &mut Outbox) {
        let run = &mut self.lane_runs[at];
        run.received[slice.slot as usize] += 1;
        run.arrived = [run.arrived[1], now];
        run.open -= u32::from(slice.is_last);
        let Slice { comm, number, out: lane, .. } = slice;
        out.credits.push(Credit { rank: from, comm, number, out: lane });
    }

    /// Sends the slices of a connection that may leave now.
    fn send_slices(&mut self, at: usize, lane: usize, now: Time, world: World, out: &mut Outbox) {
        let LaneRun { of, plan, sent, received, .. } = &mut self.lane_runs[at];
        let (connection, (sent, taken)) = (&plan.outs[lane], &mut sent[lane]);
        let members = world.application.comms[of.comm as usize].members();
        while *sent < connection.total
            && *sent - *taken < connection.window
            && connection.is_open(*sent, received)
        {
            let slice = Slice {
                comm: of.comm,
                number: of.number,
                lane: connection.lane,
                is_last: *sent + 1 == connection.total,
                out: lane as u32,
                slot: connection.slot,
            };
            let (to, bytes) = (members[connection.to as usize], connection.bytes(*sent));
            let part = Part::Slice(slice);
            out.messages.push(Message { from: self.id, to, bytes, notify: None, left: now, part });
            *sent += 1;
        }
    }

    fn end_lanes_if_complete(&mut self, at: usize, now: Time, world: World, out: &mut Outbox) {
        if self.lane_runs[at].open > 0 {
            return;
        }
        let LaneRun { of, .. } = self.lane_runs.remove(at);
        out.steps.push(Step::end(of.comm, of.number, now));
        self.complete.push_back((of.owner, false));
        let next = self.waiting.iter().position(|next| next.comm == of.comm);
        if let Some(next) = next.and_then(|next| self.waiting.remove(next)) {
            self.begin_lanes(next, now, world, out);
        }
    }
}
