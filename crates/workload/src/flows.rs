//! `kind = "flows"`: flows listed in the scenario or in a file.

use super::context::{Context, SIZE_MAX, SIZES, TIME_MAX, remedy_of_file};
use super::flow_dag::{FlowDag, Mistake, needs};
use super::flow_list::{FlowEntry, node_by_name, read_flow_list};
use super::maker::{Listed, Maker, OpenLoop, Source, at, mean_host_rate};
use pauseframe_fabric::Workload;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::list_of_rows;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::{Setting, quoted};
use pauseframe_topology::Topology;
use pauseframe_units::Span;

/// After this many errors in a file, messages have no suggestions.
const HINTS_MAX: usize = 10;

/// Flows from a list, or from a file that is read when the scenario is loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowsSpec {
    /// The flows.
    pub flows: Vec<FlowEntry>,
}

impl FlowsSpec {
    pub(crate) fn read(t: &mut Table, context: &Context) -> Option<FlowsSpec> {
        t.about("Flows", "Flows as listed, or read from `file` (CSV or Parquet)");
        let listed = t.rows("flows", "none: see file", "The flows themselves", |t| FlowEntry::read(t, context));
        let doc = "CSV or Parquet file with the columns src, dst, size_bytes, start_us and optionally id, after, compute_us; or a flow file of the HPCC simulator (.txt)";
        let file = t.source::<String>("file", "none: see flows", doc);
        let flows = match file {
            Some(file) if !t.has("flows") => from_file(t, &file, context)?,
            Some(_) => {
                t.check(false, "file", || "flows are listed too".to_owned(), "keep one of file and flows");
                return None;
            }
            None => {
                let given = t.has("flows") || t.has("file") || t.is_documenting();
                t.check(given, "flows", || "is required: list of tables, or file".to_owned(), "");
                listed?
            }
        };
        let key = if t.has("file") { "file" } else { "flows" };
        t.check(!flows.is_empty(), key, || "there is no flow in it".to_owned(), "give each flow a row");
        if key == "flows"
            && let Err(Mistake { flow, key, message, hint }) = needs(&flows)
        {
            t.check(false, &format!("flows.{flow}.{key}"), || message, &hint);
        }
        Some(FlowsSpec { flows })
    }
}

impl Source for FlowsSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let entries = &self.flows;
        if entries.iter().any(|entry| !entry.after.is_empty() || entry.compute > Span::ZERO) {
            return Box::new(FlowDag::new(entries, maker));
        }
        let node = node_by_name(maker);
        let flow = |e: &FlowEntry| maker.flow(node(&e.src), node(&e.dst), e.size, at(e.start));
        Box::new(Listed::new(entries.iter().map(flow).collect()))
    }

    fn starts(&self) -> Vec<Span> {
        self.flows.iter().map(|flow| flow.start).collect()
    }

    fn planned_flows(&self, _: &Topology, end: Option<Span>) -> Option<u64> {
        let is_in_run = |flow: &&FlowEntry| end.is_none_or(|end| flow.start < end);
        Some(self.flows.iter().filter(is_in_run).count() as u64)
    }

    fn at_once(&self, hosts: u64) -> u64 {
        hosts.min(self.flows.len() as u64)
    }

    fn open_loop(&self, topology: &Topology, end: Span) -> Option<OpenLoop> {
        let sizes = self.flows.iter().filter(|flow| flow.start < end).map(|flow| flow.size.0 as f64);
        let (count, bytes) = sizes.fold((0.0, 0.0), |(count, bytes), size| (count + 1.0, bytes + size));
        let serialisation = bytes * 8.0 / mean_host_rate(topology) / f64::max(count, 1.0);
        let hosts = topology.hosts().count().max(1) as f64;
        let load = count * serialisation / hosts / end.as_secs_f64().max(f64::MIN_POSITIVE);
        Some(OpenLoop { flows: count, serialisation, load, backlog: 0.0 })
    }
}

/// Reads a flow list and records it like a list in the scenario, so that the resolved scenario needs no file.
fn from_file(t: &mut Table, file: &str, context: &Context) -> Option<Vec<FlowEntry>> {
    let list = match read_flow_list(&context.base_dir.join(file)) {
        Ok(list) => list,
        Err(message) => {
            t.check(false, "file", || format!("{file}: {message}"), remedy_of_file(context, file));
            return None;
        }
    };
    for note in &list.notes {
        t.ledger.warn(format!("{file}: {note}"));
    }
    let mut mistakes: Vec<(u64, String, String)> =
        list.mistakes.iter().map(|(place, message)| (*place, message.clone(), String::new())).collect();
    for (index, flow) in list.flows.iter().enumerate() {
        // A list for another topology is wrong in all rows, and each suggestion takes time.
        let is_listed = mistakes.len() < HINTS_MAX;
        mistakes.extend(
            wrong_row(flow, context, is_listed).map(|(message, hint)| (list.place(index), message, hint)),
        );
    }
    if mistakes.is_empty() {
        mistakes.extend(needs(&list.flows).err().map(|Mistake { flow, key, message, hint }| {
            (list.place(flow), format!("column {key}: {message}"), hint)
        }));
    }
    mistakes.sort_by_key(|(place, ..)| *place);
    let path = t.at("file");
    for (place, message, hint) in mistakes {
        t.ledger.problem(&path, format!("{}: {message}", list.show(file, place)), hint);
    }
    let text = |flow: &FlowEntry| {
        let (src, dst) = (quoted(&flow.src), quoted(&flow.dst));
        let mut text =
            format!("src = {src}, dst = {dst}, size = {}, start = {}", flow.size.toml(), flow.start.toml());
        if let Some(id) = &flow.id {
            text = format!("{text}, id = {}", quoted(id));
        }
        if !flow.after.is_empty() {
            text = format!("{text}, after = {}", flow.after.toml());
        }
        if flow.compute > Span::ZERO {
            text = format!("{text}, compute = {}", flow.compute.toml());
        }
        format!("{{ {text} }}")
    };
    let rows: Vec<String> = list.flows.iter().map(text).collect();
    let origin = Origin::Computed(format!("read from {file}"));
    t.ledger.entry(t.at("flows"), list_of_rows(&rows), origin);
    Some(list.flows)
}

/// The error of a row of a file: the message and a hint.
fn wrong_row(flow: &FlowEntry, context: &Context, with_hint: bool) -> Option<(String, String)> {
    let unknown = |name: &&String| context.hosts.is_some_and(|hosts| !hosts.contains(name));
    if let Some((hosts, name)) = context.hosts.zip([&flow.src, &flow.dst].into_iter().find(unknown)) {
        let hint = if with_hint { hosts.suggestion(name) } else { String::new() };
        return Some((hosts.complaint(name), hint));
    }
    let message = if flow.src == flow.dst {
        "src and dst are the same host".to_owned()
    } else if !SIZES.contains(&flow.size) {
        format!("{} is outside 1 B to {SIZE_MAX}", flow.size)
    } else if flow.start > TIME_MAX {
        format!("{} is more than {TIME_MAX}", flow.start)
    } else {
        return None;
    };
    Some((message, String::new()))
}
