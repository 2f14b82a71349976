//! Tests of faults that users found: hostile or damaged files, names that point outside of a folder,
//! recordings without a limit, and impossible figures.

mod agreement;
mod damaged;
mod default_host;
mod limits;
mod names;
mod slowdown;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, StringArray};
use pauseframe_routing::watch::Unwatched;
use pauseframe_scenario::resolve::{Input, Resolved, resolve};
use pauseframe_scenario::{
    FlowOptions, FlowResults, RunCallbackDecision, RunOptions, RunResults, ScenarioError, run, run_flow_level,
};
use std::path::Path;

fn read_in(base_dir: &Path, text: &str) -> Result<Resolved, ScenarioError> {
    resolve(&Input { text, file_name: "test.toml", base_dir, overrides: &[], seed: None })
}

fn read(text: &str) -> Resolved {
    read_in(Path::new("."), text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

fn packets(text: &str) -> RunResults {
    run(&read(text), RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap()
}

fn fluid(text: &str) -> FlowResults {
    let options = FlowOptions { ways: None, demand: None, bound: None, out: None, force: false };
    run_flow_level(&read(text), options, &mut Unwatched).unwrap()
}

fn floats(table: &RecordBatch, column: &str) -> Vec<Option<f64>> {
    table.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
}

fn counts(table: &RecordBatch, column: &str) -> Vec<u64> {
    table.column_by_name(column).unwrap().as_primitive::<UInt64Type>().iter().flatten().collect()
}

fn numbers(table: &RecordBatch, column: &str) -> Vec<Option<u32>> {
    table.column_by_name(column).unwrap().as_primitive::<UInt32Type>().iter().collect()
}

fn texts(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
    let column = column.downcast_dict::<StringArray>().unwrap();
    column.into_iter().map(|text| text.unwrap().to_owned()).collect()
}
