//! `[workload.sizes]`: how large background flows are.

use super::ledger::Origin;
use super::reader::Table;
use super::value::{Setting, did_you_mean};
use super::workload::SIZE_MAX;
use crate::spec::SizesSpec;
use crate::workload::{builtin, builtin_names, read_cdf};
use pauseframe_units::Bytes;
use std::path::Path;

type Points = Vec<(f64, f64)>;
type Reader = fn(&mut Table, &Path) -> Option<SizesSpec>;

const KINDS: &[(&str, Reader)] =
    &[("fixed", fixed), ("uniform", uniform), ("log_uniform", log_uniform), ("cdf", cdf)];

pub(crate) fn sizes(t: &mut Table, base_dir: &Path) -> Option<SizesSpec> {
    let doc = "Distribution; a text alone is short for a fixed size, or for the source of a cdf";
    t.variant("kind", None, KINDS, doc)?(t, base_dir)
}

fn fixed(t: &mut Table, _: &Path) -> Option<SizesSpec> {
    Some(SizesSpec::Fixed { size: t.required_in("size", Bytes(1)..=SIZE_MAX, "Size of every flow")? })
}

fn uniform(t: &mut Table, _: &Path) -> Option<SizesSpec> {
    let (min, max) = bounds(t);
    Some(SizesSpec::Uniform { min: min?, max: max? })
}

fn log_uniform(t: &mut Table, _: &Path) -> Option<SizesSpec> {
    let (min, max) = bounds(t);
    Some(SizesSpec::LogUniform { min: min?, max: max? })
}

fn bounds(t: &mut Table) -> (Option<Bytes>, Option<Bytes>) {
    let min = t.required_in("min", Bytes(1)..=SIZE_MAX, "Smallest flow");
    let max = t.required_in("max", Bytes(1)..=SIZE_MAX, "Largest flow");
    if let (Some(min), Some(max)) = (min, max) {
        t.check(min <= max, "min", || format!("{min} is above max ({max})"), "swap them");
    }
    (min, max)
}

fn cdf(t: &mut Table, base_dir: &Path) -> Option<SizesSpec> {
    const POINTS: &str =
        "[[bytes, probability up to it], ...], ascending, to 1; instead of reading the source";
    let builtin = builtin_names().collect::<Vec<_>>().join(", ");
    let doc = format!("{builtin}, or a CDF file, relative to the scenario");
    if t.has("points") {
        let source: String = t.or("source", "points".to_owned(), &doc);
        let points = t.required::<Points>("points", POINTS)?;
        let wrong = wrong_cdf(&points);
        t.check(wrong.is_none(), "points", || wrong.unwrap_or_default(), "as in [[1460, 0.0], [30000, 1.0]]");
        return Some(SizesSpec::Cdf { source, points });
    }
    t.source::<Points>("points", "those of the source", POINTS);
    let source: String = t.required("source", &doc)?;
    let points = read(t, &source, base_dir)?;
    // No size above what a listed flow may have.
    let largest = points.last().map_or(0.0, |(bytes, _)| *bytes);
    t.check(largest <= SIZE_MAX.0 as f64, "source", || format!("its largest size is above {SIZE_MAX}"), "");
    let origin = Origin::Computed(format!("read from {source}"));
    t.ledger.entry(t.at("points"), points.toml(), origin);
    Some(SizesSpec::Cdf { source, points })
}

fn read(t: &mut Table, source: &str, base_dir: &Path) -> Option<Points> {
    if let Some(points) = builtin(source) {
        return Some(points.to_vec());
    }
    let path = base_dir.join(source);
    if path.exists() {
        return read_cdf(&path).map_err(|message| t.check(false, "source", || message, "")).ok();
    }
    let names = builtin_names().collect::<Vec<_>>().join(", ");
    let message = || format!("{source:?} is neither a file nor one of {names}");
    t.check(false, "source", message, &did_you_mean(source, builtin_names()));
    None
}

/// Why points are no distribution.
fn wrong_cdf(points: &[(f64, f64)]) -> Option<String> {
    let Some((largest, end)) = points.last() else { return Some("[] has no point".to_owned()) };
    let outside = points.iter().find(|(bytes, p)| *bytes < 0.0 || !(0.0..=1.0).contains(p));
    let falls = points.windows(2).find(|pair| pair[1].0 < pair[0].0 || pair[1].1 < pair[0].1);
    match (outside, falls) {
        (Some((bytes, p)), _) => Some(format!("[{bytes}, {p}] is not a size and a probability from 0 to 1")),
        (_, Some(pair)) => Some(format!("[{}, {}] falls below the point before it", pair[1].0, pair[1].1)),
        _ if *end < 1.0 => Some(format!("the last probability is {end}; it must be 1")),
        _ if *largest < 1.0 || *largest > SIZE_MAX.0 as f64 => {
            Some(format!("the largest size is {largest}; it must be 1 to {}", SIZE_MAX.0))
        }
        _ => None,
    }
}
