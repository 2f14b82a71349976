//! Tables as Parquet: the columns `switch`, `vlan`, `destination` and `port`, with one row per table row. The
//! file's metadata contains the lanes, rewrites and senders as JSON under the key `pauseframe`. Parquet files
//! of large tables have at most a tenth of the size of CSV, and need no text parser. The reader also accepts
//! columns of other integer and string types.

use super::builder::{Around, Builder};
use super::by_name::{around_rows, for_each_row, port_names};
use crate::verify::Tables;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, UInt16Array,
    downcast_integer_array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{Flaw, Labels};
use pauseframe_units::{NodeId, PortId, files};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The metadata key for lanes, rewrites and senders.
const KEY: &str = "pauseframe";
/// Number of table rows in memory at once. Each name is looked up once per batch.
const BATCH: usize = 1 << 18;
const COLUMNS: [&str; 4] = ["switch", "vlan", "destination", "port"];

fn flaw(error: impl std::error::Error) -> Flaw {
    Flaw::of_file(format!("this is not a table in Parquet: {error}"))
}

fn names() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

pub(super) fn read(path: &Path, builder: &mut Builder<'_>) -> Result<(), Flaw> {
    let file = files::open(path).map_err(|error| Flaw::of_file(error.to_string()))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(flaw)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let around = metadata.and_then(|all| all.iter().find(|pair| pair.key == KEY)?.value.as_ref());
    let around: Option<Around> = around.map(|text| serde_json::from_str(text)).transpose().map_err(flaw)?;
    if let Some(around) = &around {
        around.add_to(builder)?;
    }
    let fields = reader.schema().fields();
    let is_doubled = |name: &&&str| fields.iter().filter(|field| field.name() == **name).count() > 1;
    if let Some(name) = COLUMNS.iter().find(is_doubled) {
        return Err(Flaw::of_file(format!("the column {name:?} is there more than once: keep one of them")));
    }
    let mut row = 0;
    for batch in reader.with_batch_size(BATCH).build().map_err(flaw)? {
        row = read_batch(&batch.map_err(flaw)?, row, builder)?;
    }
    Ok(())
}

/// Reads a batch of table rows, of which the first has the number `first`; returns the number after the last
/// row.
fn read_batch(batch: &RecordBatch, first: u32, builder: &mut Builder<'_>) -> Result<u32, Flaw> {
    let column = |name: &str,
                  read: fn(&ArrayRef) -> Option<ArrayRef>,
                  kind: &str|
     -> Result<ArrayRef, Flaw> {
        let found = batch.column_by_name(name);
        let found = found.ok_or_else(|| Flaw::of_file(format!("there is no column {name:?}")))?;
        let array = read(found).ok_or_else(|| {
            Flaw::of_file(format!("the column {name:?} has values of type {}, not {kind}", found.data_type()))
        })?;
        if array.null_count() > 0 {
            return Err(Flaw::of_file(format!("the column {name:?} has rows without a value: fill them in")));
        }
        Ok(array)
    };
    let [switch, destination, port] =
        ["switch", "destination", "port"].map(|name| column(name, as_names, "text"));
    let (switch, destination, port) = (switch?, destination?, port?);
    let vlan = column("vlan", as_vlans, "whole numbers")?;
    let [switch, destination, port] =
        [&switch, &destination, &port].map(arrow_array::cast::AsArray::as_dictionary::<Int32Type>);
    let (mut switches, mut destinations) = (Known::new(switch), Known::new(destination));
    let port_texts = port.values().as_string::<i32>();
    let port_names: Vec<_> =
        port_texts.iter().map(|name| name.and_then(|name| builder.port_name(name))).collect();
    for (i, vlan) in vlan.as_primitive::<UInt16Type>().values().iter().enumerate() {
        let number = first + i as u32;
        let at = |message: String| Flaw::at(format!("row {number}"), message);
        let switch = switches.node(i, |name| builder.switch(name)).map_err(at)?;
        let destination = destinations.node(i, |name| builder.node(name)).map_err(at)?;
        let key = port.keys().value(i) as usize;
        let port = match port_names[key].and_then(|name| builder.port_by_id(switch, name)) {
            Some(port) => port,
            None => builder.port(switch, port_texts.value(key)).map_err(at)?,
        };
        builder.row(("row", number), switch, *vlan, destination, port).map_err(at)?;
    }
    Ok(first + batch.num_rows() as u32)
}

/// A column of text with any encoding, as a dictionary; `None` for another type.
fn as_names(column: &ArrayRef) -> Option<ArrayRef> {
    if *column.data_type() == names() {
        return Some(Arc::clone(column));
    }
    let dictionary: DictionaryArray<Int32Type> = texts(column)?.into_iter().collect();
    Some(Arc::new(dictionary))
}

/// The texts of a column, row by row; `None` for another type.
fn texts(column: &dyn Array) -> Option<Vec<Option<&str>>> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().iter().collect()),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().iter().collect()),
        DataType::Utf8View => Some(column.as_string_view().iter().collect()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = texts(dictionary.values().as_ref())?;
            if values.is_empty() {
                return Some(vec![None; column.len()]);
            }
            let keys = dictionary.normalized_keys();
            Some((0..column.len()).map(|row| column.is_valid(row).then(|| values[keys[row]])?).collect())
        }
        _ => None,
    }
}

/// A column of whole numbers as VLANs, with null for a number that is too large; `None` for another type.
#[expect(
    clippy::unnecessary_fallible_conversions,
    clippy::useless_conversion,
    reason = "one line serves all types of integers"
)]
fn as_vlans(column: &ArrayRef) -> Option<ArrayRef> {
    let numbers = column.as_ref();
    let vlans: UInt16Array = downcast_integer_array!(
        numbers => numbers.iter().map(|number| u16::try_from(number?).ok()).collect(),
        _ => return None,
    );
    Some(Arc::new(vlans))
}

/// A column of node names; each name is looked up once.
struct Known<'a> {
    keys: &'a Int32Array,
    texts: &'a StringArray,
    nodes: Vec<Option<NodeId>>,
}

impl<'a> Known<'a> {
    fn new(column: &'a DictionaryArray<Int32Type>) -> Known<'a> {
        let texts = column.values().as_string::<i32>();
        Known { keys: column.keys(), texts, nodes: vec![None; texts.len()] }
    }

    fn node(
        &mut self,
        row: usize,
        find: impl FnOnce(&str) -> Result<NodeId, String>,
    ) -> Result<NodeId, String> {
        let key = self.keys.value(row) as usize;
        if let Some(node) = self.nodes[key] {
            return Ok(node);
        }
        let node = find(self.texts.value(key))?;
        self.nodes[key] = Some(node);
        Ok(node)
    }
}

/// Writes the table rows in batches.
pub(super) fn write(
    tables: &Tables,
    topology: &Topology,
    labels: &Labels,
    out: &mut (dyn Write + Send),
) -> Result<(), Flaw> {
    let flaw = |error: &dyn std::error::Error| Flaw::of_file(error.to_string());
    let around = serde_json::to_string(&around_rows(tables, topology)).map_err(|error| flaw(&error))?;
    let level = ZstdLevel::try_new(1).map_err(|error| flaw(&error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), around)]))
        .build();
    let types = [names(), DataType::UInt16, names(), names()];
    let fields = COLUMNS.iter().zip(types).map(|(name, kind)| Field::new(*name, kind, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut writer =
        ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(|error| flaw(&error))?;
    let mut rows = Rows::new(tables, topology, labels);
    for_each_row(tables, topology, |switch, vlan, destination, port| {
        rows.push(switch, vlan, destination, port);
        if rows.vlan.len() < BATCH {
            return Ok(());
        }
        let columns = rows.take();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| flaw(&error))?;
        writer.write(&batch).map_err(|error| flaw(&error))
    })?;
    let batch = RecordBatch::try_new(schema, rows.take()).map_err(|error| flaw(&error))?;
    writer.write(&batch).map_err(|error| flaw(&error))?;
    writer.close().map_err(|error| flaw(&error))?;
    Ok(())
}

/// Table rows that are not written yet; names are replaced by numbers.
struct Rows {
    nodes: ArrayRef,
    ports: ArrayRef,
    /// For every port, the number that represents its name.
    name_of: Vec<i32>,
    switch: Vec<i32>,
    vlan: Vec<u16>,
    destination: Vec<i32>,
    port: Vec<i32>,
}

impl Rows {
    fn new(tables: &Tables, topology: &Topology, labels: &Labels) -> Rows {
        let nodes: StringArray = topology.nodes().iter().map(|node| Some(node.name.as_str())).collect();
        let names = port_names(topology, labels);
        let mut number: BTreeMap<&str, i32> = BTreeMap::new();
        // Forwarding tables contain no ports of hosts.
        let of_switches =
            |port: &usize| tables.graph().number(topology.owner(PortId(*port as u32))).is_some();
        for port in (0..names.len()).filter(of_switches) {
            number.insert(&names[port], 0);
        }
        number.values_mut().zip(0..).for_each(|(place, n)| *place = n);
        let ports: StringArray = number.keys().map(|name| Some(*name)).collect();
        let name_of = names.iter().map(|name| number.get(name.as_str()).copied().unwrap_or(0)).collect();
        let [switch, destination, port] = [Vec::new(), Vec::new(), Vec::new()];
        let (nodes, ports) = (Arc::new(nodes), Arc::new(ports));
        Rows { nodes, ports, name_of, switch, vlan: Vec::new(), destination, port }
    }

    fn push(&mut self, switch: NodeId, vlan: u16, destination: NodeId, port: PortId) {
        self.switch.push(switch.0 as i32);
        self.vlan.push(vlan);
        self.destination.push(destination.0 as i32);
        self.port.push(self.name_of[port.0 as usize]);
    }

    /// Returns the columns of the batch and starts an empty batch.
    fn take(&mut self) -> Vec<ArrayRef> {
        let vlan = UInt16Array::from(std::mem::take(&mut self.vlan));
        let named = |keys: &mut Vec<i32>, texts: &ArrayRef| -> ArrayRef {
            let keys = Int32Array::from(std::mem::take(keys));
            Arc::new(DictionaryArray::new(keys, Arc::clone(texts)))
        };
        vec![
            named(&mut self.switch, &self.nodes),
            Arc::new(vlan),
            named(&mut self.destination, &self.nodes),
            named(&mut self.port, &self.ports),
        ]
    }
}
