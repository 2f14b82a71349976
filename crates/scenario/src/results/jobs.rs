//! The `jobs` and `ranks` tables: applications, and what their ranks did.

use super::rows::Names;
use super::tables::{dictionary, f64s, optional, table, u64s};
use crate::jobs::JobResult;
use arrow_array::{RecordBatch, StringArray, UInt32Array};
use pauseframe_units::{NodeId, Span, Time};
use std::sync::Arc;

/// The `jobs` table: a row an application.
pub(crate) fn jobs(jobs: &[JobResult], names: &Names) -> RecordBatch {
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
    table(vec![
        ("job", dictionary(jobs, |job| job.workload, |w| names.workloads[w as usize].clone()), false),
        ("application", text(|job| job.application.name.clone()), false),
        (
            "ranks",
            Arc::new(UInt32Array::from_iter_values(jobs.iter().map(|job| job.ranks.len() as u32))),
            false,
        ),
        ("start_us", f64s(jobs.iter().map(|job| job.start.as_us_f64())), false),
        ("finish_us", optional(jobs.iter().map(|job| job.finish.map(Time::as_us_f64))), true),
        ("time_us", us(JobResult::time), true),
        ("ideal_us", us(|job| job.ideal), true),
        ("slowdown", optional(jobs.iter().map(|job| ratio(job.time(), job.ideal))), true),
        ("alone_us", us(|job| job.alone), true),
        ("interference", optional(jobs.iter().map(|job| ratio(job.time(), job.alone))), true),
        ("compute_us", mean(|totals| totals.compute), false),
        ("waiting_us", mean(|totals| totals.waiting), false),
        ("sending_us", mean(|totals| totals.sending), false),
        ("messages", u64s(jobs.iter().map(|job| job.messages)), false),
        ("message_bytes", u64s(jobs.iter().map(|job| job.bytes)), false),
        (
            "connections",
            Arc::new(UInt32Array::from_iter_values(jobs.iter().map(|job| job.connections))),
            false,
        ),
        (
            "waits_for",
            text(|job| job.waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
            false,
        ),
    ])
}

fn ratio(time: Option<Span>, reference: Option<Span>) -> Option<f64> {
    let (time, reference) = (time?, reference.filter(|reference| *reference > Span::ZERO)?);
    Some(time.0 as f64 / reference.0 as f64)
}

/// A rank of a job.
struct Row<'a> {
    job: &'a JobResult,
    rank: u32,
}

/// The `ranks` table: a row a rank of each application.
pub(crate) fn ranks(jobs: &[JobResult], names: &Names) -> RecordBatch {
    let rows: Vec<Row> =
        jobs.iter().flat_map(|job| (0..job.ranks.len() as u32).map(move |rank| Row { job, rank })).collect();
    let of = |row: &Row| row.job.ranks[row.rank as usize].clone();
    let us = |value: fn(&pauseframe_apps::Totals) -> Span| {
        f64s(rows.iter().map(|row| value(&of(row).totals).as_us_f64()).collect::<Vec<_>>().into_iter())
    };
    table(vec![
        ("job", dictionary(&rows, |row| row.job.workload, |w| names.workloads[w as usize].clone()), false),
        ("rank", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.rank))), false),
        ("host", dictionary(&rows, |row| NodeId(of(row).host), |node| names.node(node)), false),
        ("finish_us", optional(rows.iter().map(|row| of(row).finished.map(Time::as_us_f64))), true),
        ("compute_us", us(|totals| totals.compute), false),
        ("waiting_us", us(|totals| totals.waiting), false),
        ("sending_us", us(|totals| totals.sending), false),
    ])
}
