//! The tables `jobs`, `ranks` and `timeline`: applications, and the activities of their ranks over time.

use super::column::{Columns, dictionary, f64s, optional, u32s, u64s};
use super::rows::Names;
use crate::columns;
use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, StringArray, UInt32Array};
use pauseframe_apps::training::Group;
use pauseframe_apps::{Application, CallRecord, Fault, Program, Stretch, Totals};
use pauseframe_units::{NodeId, Span, Time};
use std::sync::Arc;

/// The result of an application.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Index of the application's workload.
    pub workload: u16,
    /// The program of each rank.
    pub application: Arc<Application>,
    /// Start of the application.
    pub start: Time,
    /// End of the last rank; `None` if a rank did not finish.
    pub finish: Option<Time>,
    /// Run time on ideal hardware: lossless, without stacks, with NICs that share nothing (cee §IV-D).
    pub ideal: Option<Span>,
    /// Run time in the same network without the other workloads, if the scenario sets `alone = true`.
    pub alone: Option<Span>,
    /// Number of messages sent over connections.
    pub messages: u64,
    /// Bytes of the messages sent over connections.
    pub bytes: u64,
    /// Number of connections that were opened.
    pub connections: u32,
    /// The message or operation that each unfinished rank waits for.
    pub waits_for: Vec<Fault>,
    /// The results of the ranks, one for each.
    pub ranks: Vec<RankResult>,
    /// Communicator, number and record of each collective operation.
    pub calls: Vec<(u32, u32, CallRecord)>,
}

/// The result of a rank.
#[derive(Clone, Debug)]
pub struct RankResult {
    /// Node number of the rank's host.
    pub host: u32,
    /// Time at which the rank finished.
    pub finished: Option<Time>,
    /// Time that the rank spent on each activity until the run ended.
    pub totals: Totals,
    /// When each iteration of training steps ended.
    pub iterations: Vec<Time>,
}

/// The activities of an application's ranks over time.
#[derive(Debug)]
pub struct JobTimeline<'a> {
    /// Index of the application's workload.
    pub workload: u16,
    /// The program of each rank.
    pub application: &'a Application,
    /// Hosts of storage, which have the numbers after the last rank.
    pub storage: &'a [String],
    /// For each rank its completed activities, and the activity that the end of the run cut off.
    pub ranks: Vec<(&'a [Stretch], Option<Stretch>)>,
}

impl JobResult {
    /// Run time of the application.
    pub fn time(&self) -> Option<Span> {
        self.finish.map(|finish| finish - self.start)
    }

    /// Mean time of an iteration of training steps that all ranks have ended.
    pub fn iteration(&self) -> Option<Span> {
        self.application.training.as_ref()?;
        let ended = self.ranks.iter().map(|rank| rank.iterations.len()).min().filter(|ended| *ended > 0)?;
        let last = self.ranks.iter().map(|rank| rank.iterations[ended - 1]).max()?;
        Some(Span((last - self.start).0 / ended as u64))
    }

    /// Time that a rank of training steps waited for messages between stages or, at the end, for other ranks.
    fn bubble(&self, rank: &RankResult) -> Span {
        let rest = self.finish.zip(rank.finished).map_or(Span::ZERO, |(all, own)| all - own);
        rank.totals.bubble + rest
    }

    /// A time of each rank, mean over the ranks, of training steps.
    fn mean_of_steps(&self, value: impl Fn(&RankResult) -> Span) -> Option<f64> {
        self.application.training.as_ref()?;
        let sum: f64 = self.ranks.iter().map(|rank| value(rank).as_us_f64()).sum();
        Some(sum / self.ranks.len().max(1) as f64)
    }
}

/// The `jobs` table, with one row for each application.
pub fn jobs(jobs: &[JobResult], names: &Names) -> Columns {
    let us = |value: fn(&JobResult) -> Option<Span>| {
        optional(jobs.iter().map(move |job| value(job).map(Span::as_us_f64)))
    };
    let mean = |value: fn(&pauseframe_apps::Totals) -> Span| {
        f64s(jobs.iter().map(move |job| {
            let sum: f64 = job.ranks.iter().map(|rank| value(&rank.totals).as_us_f64()).sum();
            sum / job.ranks.len().max(1) as f64
        }))
    };
    let text =
        |value: fn(&JobResult) -> String| Arc::new(StringArray::from_iter_values(jobs.iter().map(value)));
    let exposed = |group: Group| {
        let waited = move |rank: &RankResult| rank.totals.exposed[group.exposed()];
        optional(jobs.iter().map(move |job| job.mean_of_steps(waited)))
    };
    columns! {
        /// Name of the workload
        job = dictionary(jobs, |job| job.workload, |w| names.workloads[w as usize].clone());
        /// Its trace or pattern
        application = text(|job| job.application.name.clone());
        /// Number of ranks
        ranks = u32s(jobs.iter().map(|job| job.ranks.len() as u32));
        /// Start time
        start_us = f64s(jobs.iter().map(|job| job.start.as_us_f64()));
        /// When its last rank finished
        finish_us or null = optional(jobs.iter().map(|job| job.finish.map(Time::as_us_f64)));
        /// finish - start
        time_us or null = us(JobResult::time);
        /// Time on ideal hardware, whose NICs send and receive one message after the other: no bound, since messages that share
        /// a NIC may end earlier together (docs/models/applications.md)
        ideal_us or null = us(|job| job.ideal);
        /// time / ideal; below 1 where messages overlap better than one after the other
        slowdown or null = optional(jobs.iter().map(|job| ratio(job.time(), job.ideal)));
        /// Time in this network without the other workloads, with `alone = true`
        alone_us or null = us(|job| job.alone);
        /// time / alone
        interference or null = optional(jobs.iter().map(|job| ratio(job.time(), job.alone)));
        /// Compute time, mean over the ranks
        compute_us = mean(|totals| totals.compute);
        /// Time spent waiting for other ranks, mean over the ranks
        waiting_us = mean(|totals| totals.waiting);
        /// Time spent waiting for its own messages to leave, mean over the ranks
        sending_us = mean(|totals| totals.sending);
        /// Mean time of an iteration; null unless the job is one of training steps
        iteration_us or null = us(JobResult::iteration);
        /// Time in which compute waited for tensor-parallel communication, mean over the ranks, of training steps
        exposed_tp_us or null = exposed(Group::Tp);
        /// The same for context-parallel communication
        exposed_cp_us or null = exposed(Group::Cp);
        /// The same for data-parallel communication, also among ranks with the same experts
        exposed_dp_us or null = exposed(Group::Dp);
        /// The same for expert-parallel communication
        exposed_ep_us or null = exposed(Group::Ep);
        /// The same for messages between stages that were on their way
        exposed_pp_us or null = exposed(Group::Pp);
        /// Time in which ranks waited for their writes of checkpoints, and for those of others, mean over the ranks
        exposed_checkpoint_us or null = exposed(Group::Checkpoint);
        /// Time in which compute waited for a stage that had not sent yet or, at the end, for other ranks, mean over the ranks
        bubble_us or null = optional(jobs.iter().map(|job| job.mean_of_steps(|rank| job.bubble(rank))));
        /// Messages over connections, including announcements
        messages = u64s(jobs.iter().map(|job| job.messages));
        /// Bytes of these packets or messages
        message_bytes = u64s(jobs.iter().map(|job| job.bytes));
        /// Pairs of ranks that communicated
        connections = u32s(jobs.iter().map(|job| job.connections));
        /// What the ranks of an unfinished job wait for, with lines of the trace
        waits_for = text(|job| job.waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
}

fn ratio(time: Option<Span>, reference: Option<Span>) -> Option<f64> {
    let (time, reference) = (time?, reference.filter(|reference| *reference > Span::ZERO)?);
    Some(time.0 as f64 / reference.0 as f64)
}

/// A rank and its job.
struct Row<'a> {
    job: &'a JobResult,
    rank: u32,
}

/// The `ranks` table, with one row for each rank of each application.
pub fn ranks(jobs: &[JobResult], names: &Names) -> Columns {
    let rows: Vec<Row> =
        jobs.iter().flat_map(|job| (0..job.ranks.len() as u32).map(move |rank| Row { job, rank })).collect();
    let of = |row: &Row| row.job.ranks[row.rank as usize].clone();
    let us = |value: fn(&pauseframe_apps::Totals) -> Span| {
        f64s(rows.iter().map(|row| value(&of(row).totals).as_us_f64()).collect::<Vec<_>>().into_iter())
    };
    let of_step = |value: fn(&JobResult, &RankResult) -> Span| {
        let is_step = |row: &&Row| row.job.application.training.is_some();
        let value = |row: &Row| value(row.job, &row.job.ranks[row.rank as usize]).as_us_f64();
        let values = rows.iter().map(|row| Some(row).filter(is_step).map(value));
        optional(values.collect::<Vec<_>>().into_iter())
    };
    columns! {
        /// Name of the workload
        job = dictionary(&rows, |row| row.job.workload, |w| names.workloads[w as usize].clone());
        /// Number of the rank
        rank = u32s(rows.iter().map(|row| row.rank));
        /// Host of the rank
        host = dictionary(&rows, |row| NodeId(of(row).host), |node| names.node(node));
        /// When the rank finished
        finish_us or null = optional(rows.iter().map(|row| of(row).finished.map(Time::as_us_f64)));
        /// Compute time; times of an unfinished rank end with the run
        compute_us = us(|totals| totals.compute);
        /// Time spent waiting for other ranks
        waiting_us = us(|totals| totals.waiting);
        /// Time spent waiting for its own messages to leave
        sending_us = us(|totals| totals.sending);
        /// Waiting time for tensor-parallel communication; null unless the job is one of training steps
        exposed_tp_us or null = of_step(|_, rank| rank.totals.exposed[Group::Tp.exposed()]);
        /// The same for context-parallel communication
        exposed_cp_us or null = of_step(|_, rank| rank.totals.exposed[Group::Cp.exposed()]);
        /// The same for data-parallel communication, also among ranks with the same experts
        exposed_dp_us or null = of_step(|_, rank| rank.totals.exposed[Group::Dp.exposed()]);
        /// The same for expert-parallel communication
        exposed_ep_us or null = of_step(|_, rank| rank.totals.exposed[Group::Ep.exposed()]);
        /// The same for messages between stages that were on their way
        exposed_pp_us or null = of_step(|_, rank| rank.totals.exposed[Group::Pp.exposed()]);
        /// Waiting time for its writes of checkpoints, and for those of others
        exposed_checkpoint_us or null = of_step(|_, rank| rank.totals.exposed[Group::Checkpoint.exposed()]);
        /// Waiting time for a stage that had not sent yet, and from its end to that of the job; with compute and exposed times it is the time of the job
        bubble_us or null = of_step(JobResult::bubble);
    }
}

/// One activity of one rank.
struct Slice<'a> {
    job: &'a JobTimeline<'a>,
    program: &'a Program,
    rank: u32,
    stretch: Stretch,
}

/// The `timeline` table, with one row for each activity of each rank, sorted by rank.
pub fn timeline(jobs: &[JobTimeline], names: &Names) -> Columns {
    let rows: Vec<Slice> = jobs.iter().flat_map(slices).collect();
    let lines = rows.iter().map(|row| row.program.line(row.stretch.step as usize));
    let lines: UInt32Array = lines.map(|line| (line > 0).then_some(line)).collect();
    columns! {
        /// Name of the workload
        job = dictionary(&rows, |row| row.job.workload, |w| names.workloads[w as usize].clone());
        /// Number of the rank
        rank = u32s(rows.iter().map(|row| row.rank));
        /// compute, waiting (for other ranks), sending (until its own messages have left)
        activity = dictionary(&rows, |row| row.stretch.activity, |it| it.name().to_owned());
        /// Start of the activity
        start_us = f64s(rows.iter().map(|row| row.stretch.start.as_us_f64()));
        /// End of the activity; the last one of an unfinished rank ends with the run
        end_us = f64s(rows.iter().map(|row| row.stretch.end.as_us_f64()));
        /// Step of its program, such as "receive from 3"
        step = steps(&rows);
        /// Line of the trace
        line or null = Arc::new(lines);
    }
}

fn slices<'a>(job: &'a JobTimeline<'a>) -> impl Iterator<Item = Slice<'a>> {
    let ranks = (0_u32..).zip(&job.ranks);
    ranks.flat_map(move |(rank, (stretches, last))| {
        let program = &job.application.programs[rank as usize];
        let stretches = stretches.iter().chain(last).copied();
        stretches.map(move |stretch| Slice { job, program, rank, stretch })
    })
}

/// The number of a rank, or the host of storage.
fn name_of_rank(job: &JobTimeline, rank: u32) -> String {
    let place = (rank as usize).checked_sub(job.ranks.len());
    let host = place.and_then(|place| job.storage.get(place));
    host.map_or_else(|| rank.to_string(), |host| format!("storage {host}"))
}

/// The text column of program steps; it is dictionary-encoded because most steps occur many times.
fn steps(rows: &[Slice]) -> ArrayRef {
    let mut steps = StringDictionaryBuilder::<Int32Type>::new();
    for row in rows {
        steps.append_value(row.program.describe(row.stretch.step, |rank| name_of_rank(row.job, rank)));
    }
    Arc::new(steps.finish())
}
