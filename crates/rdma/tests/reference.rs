//! The reactions reproduce logs of other implementations, decision by decision (tests/reference/README.md;
//! docs/models/rdma.md).
//!
//! The logs in `tests/reference` are a subset; `PAUSEFRAME_RDMA_LOGS` names a folder with others.

use flate2::read::GzDecoder;
use pauseframe_rdma::cc::dcqcn::{ClampTarget, Dcqcn, DcqcnSettings, Preset, Reaction, Timer};
use pauseframe_rdma::cc::hpcc::{Hpcc, HpccSettings, Quantum, Telemetry, Update};
use pauseframe_rdma::cc::nscc::{Action, Nscc, NsccSettings, Sample};
use pauseframe_rdma::cc::timely::{Timely, TimelySettings};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const LINE: u64 = 100_000_000_000;

type Row = BTreeMap<String, String>;

/// Logs whose names begin with this prefix, by name without the extension.
fn logs(prefix: &str, ending: &str) -> Vec<(String, PathBuf)> {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let folder = std::env::var_os("PAUSEFRAME_RDMA_LOGS").map_or(committed, PathBuf::from);
    let mut found = Vec::new();
    for entry in folder.read_dir().expect("the folder of the logs is there") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if let Some(run) = name.strip_suffix(ending).filter(|run| run.starts_with(prefix)) {
            found.push((run.to_owned(), path));
        }
    }
    assert!(!found.is_empty(), "no log {prefix}*{ending} in {}", folder.display());
    found.sort();
    found
}

fn rows(path: &Path) -> Vec<Row> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    csv::Reader::from_reader(GzDecoder::new(file))
        .deserialize()
        .map(|row| row.expect("a line of the log"))
        .collect()
}

fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is no number in {row:?}"))
}

fn decimal(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is no number in {row:?}"))
}

fn by_pair(rows: Vec<Row>) -> BTreeMap<u64, Vec<Row>> {
    let mut all: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for row in rows {
        all.entry(number(&row, "qp")).or_default().push(row);
    }
    all
}

/// Whether both agree in all significant digits that the log has.
fn agrees(ours: f64, theirs: f64, digits: usize) -> bool {
    let rounded: f64 = format!("{ours:.*e}", digits - 1).parse().expect("a number was printed");
    (rounded - theirs).abs() < f64::MIN_POSITIVE
}

/// Significant digits of alpha and of the utilisation.
const DIGITS: usize = 12;
/// Significant digits of the difference between round trips in the logs of TIMELY.
const DIGITS_TIMELY: usize = 9;

/// The reference's `dcqcn_paper`: the timers of the paper, everything else as in `dcqcn`.
fn dcqcn_settings(run: &str) -> DcqcnSettings {
    let hpcc = DcqcnSettings::of(Preset::Hpcc, LINE);
    if !run.starts_with("dcqcn_paper") {
        return hpcc;
    }
    DcqcnSettings {
        reaction: Reaction::Periodic { cut_interval: Span::from_us(50) },
        alpha_interval: Span::from_us(50),
        rise_interval: Span::from_us(55),
        clamp: ClampTarget::AfterIncrease,
        ..hpcc
    }
}

#[test]
fn dcqcn_decides_as_the_hpcc_simulator_does() {
    let mut compared = 0;
    for (run, path) in logs("dcqcn", ".decisions.csv.gz") {
        let cnps = by_pair(rows(&path.with_file_name(format!("{run}.cnp.csv.gz"))));
        // A CNP was scheduled one link delay and 3 ns before it arrives, which decides ties.
        let flight = Span::from_ns(if run.ends_with("_5us") { 5003 } else { 1003 });
        for (pair, expected) in by_pair(rows(&path)) {
            let mut state = Dcqcn::new(dcqcn_settings(&run), LINE);
            let mut cnps = cnps[&pair].iter().map(|row| Time(number(row, "time_ns") * 1000)).peekable();
            let mut expected = expected.iter().peekable();
            while expected.peek().is_some() {
                let cnp = cnps.peek().copied();
                let timer = state.next_timer().filter(|(at, timer)| {
                    cnp.is_none_or(|cnp| *at < cnp || *at == cnp && state.interval(*timer) > flight)
                });
                let Some((at, timer)) = timer else {
                    state.on_cnp(cnps.next().unwrap_or_else(|| panic!("{run}, {pair}: CNPs run out")));
                    continue;
                };
                let before = (state.rate(), state.target());
                let has_acted = state.fire(timer, at);
                let is_logged = match timer {
                    Timer::Alpha => expected.peek().is_some_and(|row| row["event"] == "alpha"),
                    Timer::Cut | Timer::Rise => has_acted,
                };
                if !is_logged {
                    continue;
                }
                let row = expected.next().expect("it was looked at");
                let name = match timer {
                    Timer::Alpha => "alpha",
                    Timer::Cut => "rate_dec",
                    Timer::Rise => row["event"].as_str(),
                };
                assert_eq!(
                    (name, at.0, state.target(), before.0, state.rate()),
                    (
                        row["event"].as_str(),
                        number(row, "time_ns") * 1000,
                        number(row, "target_rate_bps"),
                        number(row, "rate_before_bps"),
                        number(row, "rate_after_bps")
                    ),
                    "{run}, queue pair {pair}"
                );
                assert!(agrees(state.alpha(), decimal(row, "alpha"), DIGITS), "{run}, {pair}: alpha at {at}");
                compared += 1;
            }
        }
    }
    println!("{compared} decisions of DCQCN are equal");
}

#[test]
fn timely_decides_as_the_hpcc_simulator_does() {
    let mut compared = 0;
    for (run, path) in logs("timely", ".decisions.csv.gz") {
        for (pair, expected) in by_pair(rows(&path)) {
            let mut state = Timely::new(TimelySettings::for_line(LINE), LINE);
            for row in expected {
                state.on_rtt(number(&row, "rtt_ns"));
                let rises = u64::from(state.rises());
                assert_eq!(
                    (state.rate(), rises),
                    (number(&row, "rate_after_bps"), number(&row, "inc_stage")),
                    "{run}, queue pair {pair}: {row:?}"
                );
                assert!(
                    agrees(state.difference(), decimal(&row, "rtt_diff_ns"), DIGITS_TIMELY),
                    "{run}, {pair}: {row:?}"
                );
                compared += 1;
            }
        }
    }
    println!("{compared} decisions of TIMELY are equal");
}

/// `hpcc_long2` omits a part of the run: the replay continues from the state in the log.
const GAP_NS: u64 = 1_000_000;

#[test]
fn hpcc_decides_as_its_simulator_does() {
    let settings = HpccSettings {
        utilisation: 0.95,
        max_stage: 0,
        additive: 40_000_000,
        flows: None,
        minimum_rate: 1_000_000_000,
        base_rtt_ns: 4160,
        window: 52_000,
        quantum: Quantum::for_line(100_000_000_000),
    };
    let mut compared = 0;
    for (run, path) in logs("hpcc", ".decisions.csv.gz") {
        for (pair, expected) in by_pair(rows(&path)) {
            let mut state = Hpcc::new(settings, LINE);
            let (mut last, mut knows_update) = (0, true);
            for row in expected {
                let [queue, sent, time] = ["int_qlen_bytes", "int_tx_bytes_wrapped", "int_ts_ns_wrapped"]
                    .map(|column| number(&row, column));
                let hop = settings.quantum.stamp((LINE / 1000) as u32, queue, sent, time);
                let now = number(&row, "time_ns");
                let (acked, next) = (number(&row, "ack_seq"), number(&row, "snd_nxt"));
                if now > last + GAP_NS && row["event"] != "first" {
                    let rates = [number(&row, "ref_rate_before_bps"), number(&row, "rate_after_bps")];
                    let is_due = row["event"] == "update";
                    let rates = if is_due { [rates[1]; 2] } else { rates };
                    state.resume(rates, decimal(&row, "u"), 0, hop, if is_due { next } else { u64::MAX });
                    (last, knows_update) = (now, is_due);
                    continue;
                }
                last = now;
                // Until the first update of the second part, the log itself gives its time.
                if !knows_update && row["event"] == "update" {
                    knows_update = true;
                    state.resume_updates();
                }
                let mut telemetry = Telemetry::EMPTY;
                telemetry.push(hop);
                let update = state.on_telemetry(acked, next, &telemetry);
                let name = match update {
                    Update::First => "first",
                    Update::Reference => "update",
                    Update::Fast => "fast",
                };
                assert_eq!(name, row["event"], "{run}, queue pair {pair}: {row:?}");
                compared += 1;
                if update == Update::First {
                    continue;
                }
                assert_eq!(
                    (state.rate(), state.window(), u64::from(state.stage())),
                    (
                        number(&row, "rate_after_bps"),
                        number(&row, "window_after_bytes"),
                        number(&row, "inc_stage")
                    ),
                    "{run}, queue pair {pair}: {row:?}"
                );
                assert!(agrees(state.utilisation(), decimal(&row, "u"), DIGITS), "{run}, {pair}: {row:?}");
            }
        }
    }
    println!("{compared} decisions of HPCC are equal");
}

#[test]
fn nscc_decides_as_htsim_does() {
    let mut compared = 0;
    for (run, path) in logs("nscc", ".acks.csv.gz") {
        let settings = NsccSettings::of(4086, 4150, LINE, Span(14_022_720), !run.contains("notrim"));
        let mut by_flow: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for row in rows(&path) {
            by_flow.entry(number(&row, "flow")).or_default().push(row);
        }
        for (flow, expected) in by_flow {
            let mut state = Nscc::new(settings);
            for row in expected {
                let (before, average) = (number(&row, "cwnd_before_bytes"), number(&row, "avg_delay_ps"));
                // The log has no line for timeouts, which take lost packets off the window.
                if state.window() > before && run.contains("notrim") {
                    state.on_timeout(state.window() - before);
                }
                assert_eq!(state.window(), before, "{run}, flow {flow}: {row:?}");
                let (delay, base) = (number(&row, "delay_ps"), number(&row, "base_rtt_ps"));
                // Packets that were sent twice give no sample: the delay is the average, which stays.
                let has_sample = average == 0 || delay != average || state.average_delay().0 != average;
                let sample = Sample {
                    now: Time(number(&row, "time_ps")),
                    bytes: number(&row, "newly_acked_bytes"),
                    rtt: has_sample.then_some(Span(delay + base)),
                    marked: number(&row, "ecn") == 1,
                    in_flight: number(&row, "in_flight_bytes"),
                };
                let name = if row["action"] == "nack" {
                    state.on_trimmed(&sample);
                    "nack"
                } else {
                    match state.on_ack(&sample) {
                        Action::Proportional => "prop",
                        Action::Fair => "fair",
                        Action::Decrease => "md",
                        Action::Nothing => "noop",
                        Action::QuickAdapt => "quick",
                        Action::Ignore => "ignore",
                    }
                };
                assert_eq!(
                    (name, state.window(), state.average_delay().0, state.base_rtt().0),
                    (row["action"].as_str(), number(&row, "cwnd_after_bytes"), average, base),
                    "{run}, flow {flow}: {row:?}"
                );
                compared += 1;
            }
        }
    }
    println!("{compared} decisions of NSCC are equal");
}
