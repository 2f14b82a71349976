//! Carries out the collective operations of a rank, round by round.

use super::matching::Wanted;
use super::{Envelope, Owner, Rank, Run, World, context};
use crate::algorithm;
use crate::application::{Application, Call};
use crate::calls::{Algorithm as Made, Step};
use crate::nccl;
use crate::replay::Outbox;
use pauseframe_units::Time;

/// The role of one rank in a call.
pub(crate) fn part<'a>(application: &Application, call: &'a Call, rank: u32) -> algorithm::Part<'a> {
    let comm = &application.comms[call.comm as usize];
    let position = |rank| comm.position(rank).unwrap_or(0);
    let size = comm.members().len() as u32;
    algorithm::Part {
        size,
        me: position(rank),
        root: position(call.root),
        bytes: call.bytes,
        counts: &call.counts,
    }
}

impl Rank {
    pub(super) fn start_run(
        &mut self,
        at: u32,
        step: u32,
        owner: Owner,
        now: Time,
        world: World,
        out: &mut Outbox,
    ) {
        let call = &world.application.programs[self.id as usize].calls[at as usize];
        let size = world.application.comms[call.comm as usize].members().len() as u32;
        let algorithm = world.options.algorithms.choose(call, size);
        // Programs with dependences may begin operations in different orders, so the sequence number in the
        // file identifies an operation.
        let number = match call.number {
            Some(number) => number as i32,
            None => self.numbers[call.comm as usize],
        };
        self.numbers[call.comm as usize] += 1;
        if size > 1 && world.options.nccl.is_some() && nccl::has(call.kind) {
            self.start_lanes(
                super::Waiting { owner, call: at, step, comm: call.comm, number },
                now,
                world,
                out,
            );
            return;
        }
        let made = Made::Mpi(algorithm);
        out.steps.push(Step::begin(self.id, call.comm, number, at, made, now));
        let run = Run { owner, call: at, step, algorithm, number, round: 0, open: 0 };
        let free = self.runs.iter().position(Option::is_none).unwrap_or(self.runs.len());
        if free == self.runs.len() {
            self.runs.push(None);
        }
        self.runs[free] = Some(run);
        self.continue_run(free as u32, now, world, out);
    }

    /// Begins the next round of a collective operation if the previous round is complete.
    pub(super) fn continue_run(&mut self, at: u32, now: Time, world: World, out: &mut Outbox) {
        let Some(mut run) = self.runs[at as usize].filter(|run| run.open == 0) else { return };
        let application = world.application;
        let call = &application.programs[self.id as usize].calls[run.call as usize];
        let part = part(application, call, self.id);
        let members = application.comms[call.comm as usize].members();
        let mut round = std::mem::take(&mut self.round);
        loop {
            if !algorithm::round(run.algorithm, call.kind, &part, run.round, &mut round) {
                self.runs[at as usize] = None;
                out.steps.push(Step::end(call.comm, run.number, now));
                self.complete.push_back((run.owner, false));
                break;
            }
            run.round += 1;
            run.open = (round.sends.len() + round.receives.len()) as u32;
            self.runs[at as usize] = Some(run);
            let (context, tag) = (context(call.comm, true), run.number);
            for &from in &round.receives {
                let wanted = Wanted { from: Some(members[from as usize]), tag: Some(tag), context };
                self.receive(wanted, u64::MAX, run.step, Owner::Run(at), now, world, out);
            }
            for &(to, bytes) in &round.sends {
                let envelope = Envelope { context, tag, bytes };
                self.send(envelope, members[to as usize], Owner::Run(at), now, world, out);
            }
            if run.open > 0 {
                break;
            }
        }
        self.round = round;
    }
}
