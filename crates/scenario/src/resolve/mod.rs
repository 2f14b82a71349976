//! Reads the text of a scenario into a complete [`Scenario`], in which every key has a value. Reports all
//! mistakes at once, the origin of every value, and the nearest valid key for a misspelt one.
//!
//! The keys of each table are declared in `spec` and `workload`; the reference of all keys comes from the
//! same declarations ([`options`]). `draft.rs` reads the tables in order and calls the checks that involve
//! several tables. Nothing here reads `[sweep]`, so a `[sweep]` table is an unknown key.

mod by_rate;
mod checks;
mod connections;
mod conweave;
mod draft;
mod dual_tor;
mod explain;
mod host_ports;
mod idle;
mod idle_transport_keys;
mod kernel;
mod kernel_keys;
mod kinds;
mod linux_switch;
mod routes;
mod thresholds;
pub(crate) mod transports;

pub use explain::{Explained, expanded, explained, stack_of};
#[cfg(target_os = "linux")]
pub(crate) use kernel::{kernel_hosts, name_in_linux};
#[cfg(target_os = "linux")]
pub(crate) use kernel_keys::KernelSettings;
pub use pauseframe_schema::docs::OptionDoc;
pub use pauseframe_schema::document::Input;
pub use pauseframe_schema::ledger::{Entry, Origin};

use crate::spec::{Scenario, TransportSpec};
use crate::volume::{self, Asked};
use draft::Draft;
use pauseframe_schema::document;
use pauseframe_schema::error::{Problem, ScenarioError};
use pauseframe_schema::language::Language;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::reader::Table;
use pauseframe_schema::short::Short;
use pauseframe_schema::{json, text};
use pauseframe_topology::Topology;
use pauseframe_units::Bytes;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The scenario language: all keys, short forms, and the order of tables.
pub(crate) static SCENARIO: Language = Language::new(read_all, SHORTS, ORDER);

/// The tables in the order in which people expect to read them.
const ORDER: &[&str] = &[
    "name",
    "seed",
    "clocks",
    "plugins",
    "stop",
    "topology",
    "routing",
    "host",
    "switch",
    "qcn",
    "transport",
    "transports",
    "workload",
    "failure",
    "corruption",
    "pause_storm",
    "record",
    "remember",
];

/// Short forms of values.
const SHORTS: &[(&str, Short)] = &[
    ("stop", Short::Key("time")),
    ("switch.buffer", Short::Key("size")),
    ("switch.marker", Short::Key("kind")),
    ("switch.pfc", Short::True),
    ("switch.pfc.watchdog", Short::True),
    ("switch.pfc.headroom_pool", Short::True),
    ("switch.scheduler", Short::Key("kind")),
    ("switch.classes.*.marker", Short::Key("kind")),
    ("qcn", Short::TextOrTrue("preset")),
    ("remember", Short::Key("steps")),
    ("record.series", Short::True),
    ("record.packets", Short::True),
    ("record.pause_tree", Short::True),
    ("record.states", Short::True),
    ("record.kernel", Short::True),
    ("topology.links.*", Short::List("ends")),
    ("workload", Short::One),
    ("workload.*.sizes", Short::Text(is_size, ["fixed", "size"], ["cdf", "source"])),
    ("workload.*.burst.sizes", Short::Text(is_size, ["fixed", "size"], ["cdf", "source"])),
    ("workload.*.requests.sizes", Short::Text(is_size, ["fixed", "size"], ["cdf", "source"])),
];

fn is_size(text: &str) -> bool {
    text.parse::<Bytes>().is_ok()
}

/// Calls the readers of all tables, so that the reference can list their keys.
fn read_all(ledger: &mut Ledger) {
    read(ledger, Path::new("."), "the name of the file");
}

fn read(ledger: &mut Ledger, base_dir: &Path, default_name: &str) -> Draft {
    let mut root = Table::root(ledger);
    let draft = Draft::read(&mut root, base_dir, default_name);
    root.finish();
    draft
}

/// Every key: path, condition under which it exists, type, default and description.
pub fn options() -> &'static [OptionDoc] {
    SCENARIO.options()
}

/// Updates the reference, the schema and the hints after a plug-in has added a congestion control with new
/// keys.
pub fn explore_again() {
    SCENARIO.explore_again();
}

/// URL at which the schema of scenario files is published.
pub const SCHEMA_URL: &str =
    "https://raw.githubusercontent.com/pauseframe/pauseframe/main/docs/reference/scenario.schema.json";

/// A JSON Schema (draft 2020-12) of scenario files, for editors and validators.
pub fn schema() -> serde_json::Value {
    let mut schema = json::schema(&SCENARIO, SCHEMA_URL);
    kinds::restrict(&mut schema["$defs"]["Transport"]);
    let tables = [
        ("sweep", "Varies the scenario: for `pauseframe sweep`"),
        ("tune", "Searches for settings: for `pauseframe tune`"),
    ];
    for (name, about) in tables {
        schema["properties"][name] = json!({ "type": "object", "description": about });
    }
    schema
}

/// A resolved scenario: every key has a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// The scenario to run.
    pub scenario: Scenario,
    /// Findings that the user should check before trusting the results.
    pub warnings: Vec<String>,
    /// Reason why the run needs [`crate::RunOptions::force_large`]: the scenario would record too much data, or its flows would pile up.
    pub large: Option<Problem>,
    topology: Arc<Topology>,
    entries: Vec<Entry>,
}

impl Resolved {
    /// The graph of the `[topology]` table, built once for both the checks and the run.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The scenario as TOML with every key, grouped by table. Resolving the TOML text again gives an equal
    /// scenario.
    pub fn to_toml(&self) -> String {
        format!("#:schema {SCHEMA_URL}\n\n{}", text::to_toml(&self.entries))
    }

    /// The same scenario with another seed on the same graph: equal to the result of [`resolve`], but without
    /// reading the file again.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Resolved {
        let mut other = self.clone();
        other.scenario.seed = seed;
        if let Some(entry) = other.entries.iter_mut().find(|entry| entry.path == "seed") {
            (entry.value, entry.origin) = (seed.to_string(), Origin::Seed);
        }
        other
    }

    /// Every key with its value and the origin of the value, in the order of [`Resolved::to_toml`].
    pub fn explain(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a person has written this key.
    pub(crate) fn is_written(&self, path: &str) -> bool {
        let of_person = |entry: &Entry| matches!(entry.origin, Origin::File | Origin::Set);
        self.entries.iter().any(|entry| entry.path == path && of_person(entry))
    }
}

/// Reads a scenario and fills in every default.
///
/// # Errors
/// All mistakes in the scenario. A TOML syntax error hides the other mistakes.
pub fn resolve(input: &Input) -> Result<Resolved, ScenarioError> {
    let refused = |problems| ScenarioError { problems };
    let (mut root, problems) = document::load(input, SHORTS).map_err(refused)?;
    let twice = kinds::take_keys_of_kinds(&mut root);
    let mut ledger = Ledger::new(&root, input.file_name, &SCENARIO);
    ledger.extend(problems);
    kinds::refuse_keys_written_twice(&mut ledger, twice);
    let stem = Path::new(input.file_name).file_stem().and_then(|stem| stem.to_str());
    let mut draft = read(&mut ledger, input.base_dir, stem.unwrap_or("scenario"));
    draft.settle_and_check(&mut ledger);
    let (mut entries, mut warnings) = ledger.close().map_err(refused)?;
    entries.sort_by_key(|entry| SCENARIO.rank(&entry.path));
    let (scenario, topology) = draft.complete().ok_or_else(|| refused(vec![incomplete(input.file_name)]))?;
    let large = too_large(&scenario, &topology, input.file_name);
    let topology = Arc::new(topology);
    let of_headroom = crate::headroom::warnings(&scenario, &topology, input.file_name);
    warnings.extend(of_headroom.map_err(|problem| refused(vec![*problem]))?);
    Ok(Resolved { scenario, warnings, large, topology, entries })
}

/// The error for a part that is missing although no reader reported a mistake. A missing part without a
/// reported mistake is a bug in the readers, but no reason to panic.
fn incomplete(file_name: &str) -> Problem {
    Problem {
        path: String::new(),
        place: file_name.to_owned(),
        line: None,
        value: String::new(),
        message: "the scenario is incomplete".to_owned(),
        hint: "please report this file".to_owned(),
    }
}

fn too_large(scenario: &Scenario, topology: &Topology, file_name: &str) -> Option<Problem> {
    let lossless = scenario.switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    let lanes = scenario.routing.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes());
    let lanes = &lossless[..lanes.min(lossless.len())];
    let of_cnps = |spec: &TransportSpec| spec.rdma().map(|pairs| pairs.cnp_priority);
    let transports = scenario.transport_specs().map(|spec| spec.priority);
    let transports = transports.chain(scenario.transport_specs().filter_map(of_cnps));
    let cnm = scenario.qcn.as_ref().map(|qcn| qcn.cnm_priority);
    let transports = transports.chain(scenario.routing.priority_between_switches());
    let priorities = volume::priorities(transports, &scenario.workload, lanes, cnm);
    let asked = Asked {
        record: &scenario.record,
        stop: scenario.stop.time,
        workloads: &scenario.workload,
        priorities: &priorities,
        lossless,
        topology,
    };
    asked.too_large(file_name)
}
