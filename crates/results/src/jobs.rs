//! The tables `jobs`, `ranks` and `timeline`: applications, and the activities of their ranks over time.

use super::column::{Columns, dictionary, f64s, optional, u32s, u64s};
use super::rows::Names;
use crate::columns;
use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, StringArray, UInt32Array};
use pauseframe_apps::{Application, Fault, Program, Stretch, Totals};
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
}

/// The activities of an application's ranks over time.
#[derive(Debug)]
pub struct JobTimeline<'a> {
    /// Index of the application's workload.
    pub workload: u16,
    /// The program of each rank.
    pub application: &'a Application,
    /// For each rank its completed activities, and the activity that the end of the run cut off.
    pub ranks: Vec<(&'a [Stretch], Option<Stretch>)>,
}

impl JobResult {
    /// Run time of the application.
    pub fn time(&self) -> Option<Span> {
        self.finish.map(|finish| finish - self.start)
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
    }
}

/// One activity of one rank.
struct Slice<'a> {
    workload: u16,
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
        job = dictionary(&rows, |row| row.workload, |w| names.workloads[w as usize].clone());
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

fn slices<'a>(job: &'a JobTimeline) -> impl Iterator<Item = Slice<'a>> {
    let ranks = (0_u32..).zip(&job.ranks);
    ranks.flat_map(move |(rank, (stretches, last))| {
        let program = &job.application.programs[rank as usize];
        let stretches = stretches.iter().chain(last).copied();
        stretches.map(move |stretch| Slice { workload: job.workload, program, rank, stretch })
    })
}

/// The text column of program steps; it is dictionary-encoded because most steps occur many times.
fn steps(rows: &[Slice]) -> ArrayRef {
    let mut steps = StringDictionaryBuilder::<Int32Type>::new();
    for row in rows {
        steps.append_value(row.program.describe(row.stretch.step));
    }
    Arc::new(steps.finish())
}
