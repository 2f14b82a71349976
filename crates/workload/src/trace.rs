//! The steps of the ranks of an application: a trace, from a file or in the scenario, or a pattern.

use super::application::PatternName;
use super::collectives::chooses_nccl;
use super::context::{Context, SIZE_MAX, TIMES, remedy_of_file};
use pauseframe_apps::generate::{Pattern, Shape, generate};
use pauseframe_apps::read::{Bundle, Format, ReadOptions};
use pauseframe_apps::{Algorithm, Application, Choices, Kind};
use pauseframe_schema::document::Value;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::{Choice, Setting, did_you_mean};
use pauseframe_units::limits::Limit;
use pauseframe_units::{Bytes, Span};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The largest packed trace that the resolved scenario contains; a larger one stays in its file.
const PACKED_MAX: usize = 8 << 20;
const RANKS_MAX: u32 = 65_536;
/// Operations per second and rank.
const FLOPS: f64 = 1e9;

/// Keys that go with a trace alone, and with a pattern alone.
const OF_TRACES: [&str; 3] = ["format", "flops", "digest"];
const OF_PATTERNS: [&str; 6] = ["ranks", "size", "compute", "iterations", "algorithm", "grid"];

/// Refuses keys that are right in another application.
fn refuse_keys(t: &mut Table, keys: &[&'static str], why: &str) {
    for key in keys.iter().filter(|key| t.has(key)).collect::<Vec<_>>() {
        t.excuse(key);
        t.check(false, key, || why.to_owned(), "remove it");
    }
}

/// Reads the application from a trace (a file, packed text, plain text) or a pattern.
pub(crate) fn what(t: &mut Table, context: &Context) -> Option<Arc<Application>> {
    let given: Vec<&str> =
        ["trace", "packed", "program", "pattern"].into_iter().filter(|key| t.has(key)).collect();
    if t.is_documenting() {
        trace(t, context);
        t.under("workload.pattern", |t| {
            pattern(t);
        });
        return None;
    }
    match given.as_slice() {
        ["pattern"] => {
            refuse_keys(t, &OF_TRACES, "is a key of traces, and pattern takes the place of one");
            pattern(t)
        }
        ["trace" | "packed" | "program"] | ["trace", "packed"] => {
            refuse_keys(t, &OF_PATTERNS, "is a key of patterns, and the trace has the steps");
            trace(t, context)
        }
        [] => {
            t.check(false, "trace", || "is required: a trace file, or pattern".to_owned(), "");
            None
        }
        [.., last] => {
            let message = || format!("{} is given too", given[0]);
            t.check(false, last, message, "keep one of them");
            None
        }
    }
}

fn trace(t: &mut Table, context: &Context) -> Option<Arc<Application>> {
    let doc = "Trace file, or folder with a file per rank, relative to the scenario, optionally compressed with zstd or gzip";
    let path: Option<String> = t.optional("trace", "none: see packed, program, pattern", doc);
    let doc = "The trace packed into text, as in resolved scenarios";
    let packed: Option<String> = t.source("packed", "none: see trace", doc);
    let doc = "The text of a trace in the format pmpi";
    let program: Option<String> = t.source("program", "none: see trace", doc);
    let format = t.optional::<String>("format", "recognised", "pmpi, simgrid, goal or chakra");
    let doc = "Floating-point operations per second and rank, for traces that count these";
    let flops = t.or_in("flops", FLOPS, 1.0..=1e18, doc);
    if t.is_documenting() {
        digest(t, None);
        return None;
    }
    let names = Format::ALL.map(|(_, name)| name);
    let known = format.as_deref().map(Format::named);
    let message = || {
        format!("there is no format {:?}; there are {}", format.as_deref().unwrap_or(""), names.join(", "))
    };
    let hint = did_you_mean(format.as_deref().unwrap_or(""), names.into_iter());
    t.check(known != Some(None), "format", message, &hint);
    let (key, bundle) = match (&path, &packed, &program) {
        (_, Some(packed), _) => ("packed", Bundle::from_text(packed)),
        (_, _, Some(program)) => ("program", Ok(Bundle::of_text("program", program))),
        (Some(path), ..) => ("trace", Bundle::open(&context.base_dir.join(path))),
        _ => return None,
    };
    let read = bundle.and_then(|bundle| {
        let format = if key == "program" { Some(Format::Pmpi) } else { known.flatten() };
        let application = bundle.read(format, ReadOptions { flops })?;
        Ok((bundle, application))
    });
    let (bundle, application) = match read {
        Ok(read) => read,
        Err(error) => {
            let hint = path.as_deref().map_or("", |path| remedy_of_file(context, path));
            t.check(false, key, || error.to_string(), hint);
            return None;
        }
    };
    digest(t, Some(&bundle))?;
    keep(t, &bundle, key);
    for note in &application.notes {
        t.ledger.warn(format!("{}: {note}", t.at(key)));
    }
    let given = if key == "program" { Some(Format::Pmpi) } else { known.flatten() };
    let counts_operations = bundle.format(given) == Some(Format::SimGrid);
    t.warn_if_idle(
        "flops",
        flops.total_cmp(&FLOPS).is_ne() && !counts_operations,
        "only traces of SimGrid count operations",
    );
    Some(Arc::new(application))
}

/// The resolved scenario contains the trace, so that it can run elsewhere.
pub(crate) fn keep(t: &mut Table, bundle: &Bundle, key: &'static str) {
    let origin = match key {
        "packed" => t.origin_of("packed"),
        _ => Origin::Computed(format!("from {key}")),
    };
    match bundle.to_text() {
        Ok(text) if text.len() <= PACKED_MAX => t.ledger.entry(t.at("packed"), text.toml(), origin),
        Ok(_) => t.ledger.warn(format!("{}: too long to be kept in the resolved scenario", t.at(key))),
        Err(error) => t.check(false, key, || error.to_string(), ""),
    }
}

/// The digest; it must match the trace if the file has one.
pub(crate) fn digest(t: &mut Table, bundle: Option<&Bundle>) -> Option<()> {
    let mut hash = Sha256::new();
    if let Some(bundle) = bundle {
        bundle.digest(|bytes| hash.update(bytes));
    }
    let hex: Vec<String> = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let found = format!("sha256:{}", hex.concat());
    let origin = Origin::Computed("of the trace".to_owned());
    let doc = "SHA-256 of the trace; another trace is an error";
    let wanted = t.or_because("digest", found.clone(), origin, "computed", doc);
    let message = || format!("the trace has the digest {found}: it is not the one that was meant");
    t.check(wanted == found || bundle.is_none(), "digest", message, "restore the file, or remove digest");
    (wanted == found).then_some(())
}

fn pattern(t: &mut Table) -> Option<Arc<Application>> {
    let pattern: Option<PatternName> =
        t.optional("pattern", "none: see trace", "Communication pattern instead of a trace");
    let ranks = t.required_in("ranks", 1..=RANKS_MAX, "Number of ranks");
    let doc = "Size of the vector, of the block for one rank, or of a message";
    let size = t.required_in("size", Bytes::ZERO..=SIZE_MAX, doc);
    let doc = "Compute time of each rank in each iteration";
    let compute = t.or_in("compute", Span::ZERO, TIMES, doc);
    let doc = "Number of iterations, or of batches of a pipeline";
    let iterations: u32 = t.or_in("iterations", 1, 1..=1_000_000, doc);
    let doc = "Algorithm of a collective operation, as in \"ring\"; binomial is a tree";
    let algorithm: Option<String> = t.optional("algorithm", "by size", doc);
    let grid: Option<Vec<u32>> = t.optional("grid", "a row", "Extents of a stencil");
    let (pattern, ranks, size) = (pattern?, ranks?, size?);
    t.warn_if_idle("grid", grid.is_some() && pattern != PatternName::Stencil, "pattern is not \"stencil\"");
    let algorithm = match algorithm {
        None => None,
        Some(name) => algorithm_of_pattern(t, pattern, &name)?,
    };
    let pattern = match pattern {
        PatternName::AllReduce => Pattern::AllReduce(algorithm),
        PatternName::AllToAll => Pattern::AllToAll(algorithm),
        PatternName::AllGather => Pattern::AllGather(algorithm),
        PatternName::ReduceScatter => Pattern::ReduceScatter(algorithm),
        PatternName::Pipeline => Pattern::Pipeline,
        PatternName::KMeans => Pattern::KMeans,
        PatternName::Stencil => Pattern::Stencil(grid.unwrap_or_else(|| vec![ranks])),
    };
    let shape = Shape { ranks, bytes: size.0, compute, iterations };
    if let Err(message) = Limit::Steps.check(pattern.steps(shape), "steps of all ranks") {
        t.check(false, if iterations > 1 { "iterations" } else { "ranks" }, || message, "");
        return None;
    }
    match generate(&pattern, shape) {
        Ok(application) => Some(Arc::new(application)),
        Err(message) => {
            t.check(false, "grid", || message, "");
            None
        }
    }
}

/// The algorithm of a pattern that is one collective operation; `Some(None)` for other patterns.
#[expect(clippy::option_option, reason = "a mistake is not the absence of an algorithm")]
fn algorithm_of_pattern(t: &mut Table, pattern: PatternName, name: &str) -> Option<Option<Algorithm>> {
    if chooses_nccl(t) {
        let message = || "is MPI's, and the library is NCCL".to_owned();
        t.check(false, "algorithm", message, "set collectives.algorithm, or remove it");
        return None;
    }
    let Some(kind) = operation_of(pattern) else {
        let why = "the pattern is not one collective operation; algorithms chooses by operation";
        t.warn_if_idle("algorithm", true, why);
        return Some(None);
    };
    known_algorithm(t, "algorithm", kind, name).map(Some)
}

/// The operation that a pattern is, if it is one.
fn operation_of(pattern: PatternName) -> Option<Kind> {
    match pattern {
        PatternName::AllReduce => Some(Kind::Allreduce),
        PatternName::AllToAll => Some(Kind::Alltoall),
        PatternName::AllGather => Some(Kind::Allgather),
        PatternName::ReduceScatter => Some(Kind::ReduceScatter),
        PatternName::Pipeline | PatternName::KMeans | PatternName::Stencil => None,
    }
}

/// The operation of the pattern that the file names, and the algorithm that it names for it.
pub(crate) fn choice_of_pattern<'d>(t: &Table<'d, '_>) -> Option<(Kind, &'d str)> {
    let text = |key| match &t.item?.get(key)?.value {
        Value::Text(name) => Some(name.as_str()),
        _ => None,
    };
    let name = text("pattern")?;
    let kind = operation_of(PatternName::NAMES.iter().find(|(known, _)| *known == name)?.1)?;
    Some((kind, text("algorithm")?))
}

fn known_algorithm(t: &mut Table, key: &'static str, kind: Kind, name: &str) -> Option<Algorithm> {
    let mut choices = Choices::default();
    let wanted = name.parse::<Algorithm>().ok();
    let known = match wanted.map(|algorithm| choices.set(kind, algorithm)) {
        Some(Ok(())) => return wanted,
        Some(Err(known)) => known,
        None => choices.known(kind),
    };
    let names: Vec<&str> = known.iter().map(|algorithm| algorithm.name()).collect();
    let hint = did_you_mean(name, names.iter().copied());
    let message = || format!("{kind} has no algorithm {name:?}; it has {}", names.join(", "));
    t.check(false, key, message, &hint);
    None
}

/// Parses entries such as `"allreduce = ring"`.
pub(crate) fn choices(t: &mut Table, algorithms: &[String]) -> Option<Choices> {
    let (mut choices, mut chosen) = (Choices::default(), Vec::new());
    for text in algorithms {
        let Some((kind, algorithm)) = text.split_once('=') else {
            t.check(
                false,
                "algorithms",
                || format!("{text:?} has no ="),
                "write it as in \"allreduce = ring\"",
            );
            return None;
        };
        let Ok(kind) = kind.trim().parse::<Kind>() else {
            let names = Kind::ALL.iter().map(|kind| kind.name());
            let hint = did_you_mean(kind.trim(), names.clone());
            let all: Vec<&str> = names.collect();
            let message = || format!("there is no operation {:?}; there are {}", kind.trim(), all.join(", "));
            t.check(false, "algorithms", message, &hint);
            return None;
        };
        let algorithm = known_algorithm(t, "algorithms", kind, algorithm.trim())?;
        let is_new = !chosen.contains(&kind);
        t.check(is_new, "algorithms", || format!("names two for {kind}"), "keep one of them");
        chosen.push(kind);
        let _ = choices.set(kind, algorithm);
    }
    Some(choices)
}
