//! Flow lists: in the scenario, or in a CSV or Parquet file with the columns `src`, `dst`, `size_bytes` and `start_us`.
//! Optional columns are `id`, `after` (ids of flows that must have finished, separated by spaces) and `compute_us`.
//! Further columns are left out with a note. Times are rounded to the nearest picosecond.
//!
//! `.txt` files are flow files of the HPCC simulator (Li et al., SIGCOMM 2019) or its descendants: the number
//! of flows, then `src dst priority_group port bytes start_s` for each flow (without `port` in those of
//! `ConWeave`), with the node ids of its topology file.

use super::columns::{microseconds_of, refuse_doubles, refuse_times};
use super::context::{Context, SIZES, TIME_MAX, TIMES, host};
use super::maker::Maker;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use pauseframe_schema::panics::caught;
use pauseframe_schema::table;
use pauseframe_schema::value::{Setting, misspelt};
use pauseframe_units::limits::Limit;
use pauseframe_units::{Bytes, NodeId, Span, counted, files};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Required and optional columns.
const COLUMNS: [&str; 7] = ["src", "dst", "size_bytes", "start_us", "id", "after", "compute_us"];
const REQUIRED: usize = 4;

table! {
    /// One flow of a list; it can wait for other flows, by their `id`, and for the time `compute` after them
    pub struct FlowEntry as "Flow" {
        /// Sending host
        src: String = try_by(host, context);
        /// Receiving host
        dst: String = try_by(host, context) => {
            t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "name another host");
        };
        /// Size of each flow
        size: Bytes = required_in(SIZES);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        // Lists without an order are recorded without its keys.
        /// Name by which after refers to the flow
        id: Option<String> = optional_if_given("none");
        /// Ids of flows that must finish first
        after: Vec<String> = or_if_given(Vec::new());
        /// Time from the end of those flows, or from start, to the first byte
        compute: Span = or_if_given_in(Span::ZERO, TIMES);
    }
    pub fn try_read(t, context: &Context);
}

/// Replaces names, which `resolve` has checked, by nodes.
pub(crate) fn node_by_name<'a>(maker: &Maker<'a>) -> impl Fn(&str) -> NodeId + use<'a> {
    let nodes = maker.context.topology.nodes().iter_enumerated();
    let by_name: BTreeMap<&str, NodeId> = nodes.map(|(id, node)| (node.name.as_str(), id)).collect();
    move |name| *by_name.get(name).expect("resolve has checked that every flow names hosts of the topology")
}

/// A flow list as read: the valid rows, and the errors of the others.
#[derive(Debug, Default)]
pub struct FlowList {
    /// The valid rows.
    pub flows: Vec<FlowEntry>,
    /// For each of `flows`, its place in the file.
    places: Vec<u64>,
    /// Pairs (place, message), in the order of the file.
    pub mistakes: Vec<(u64, String)>,
    /// The unit of `places`: "line" or "row".
    unit: &'static str,
    /// What was skipped, one sentence each.
    pub notes: Vec<String>,
}

impl FlowList {
    /// The place of flow `index`.
    pub fn place(&self, index: usize) -> u64 {
        self.places[index]
    }

    /// Formats a place in the file `name`: "flows.csv, line 12".
    pub fn show(&self, name: &str, place: u64) -> String {
        format!("{name}, {} {place}", self.unit)
    }

    fn add(&mut self, place: u64, entry: Result<FlowEntry, Problem>) {
        match entry {
            Ok(entry) => {
                self.flows.push(entry);
                self.places.push(place);
            }
            Err((column, message)) => {
                self.mistakes.push((place, format!("column {}: {message}", COLUMNS[column])));
            }
        }
    }
}

/// Reads a flow list, in the order of its rows, from a `.csv`, `.parquet` or `.txt` (HPCC) file.
///
/// # Errors
/// An error concerns the whole file; errors in rows are in the list.
pub fn read_flow_list(path: &Path) -> Result<FlowList, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => read_csv(path),
        Some("parquet") => {
            // The decoder panics on some damaged files.
            let read = caught(|| read_parquet(path));
            read.unwrap_or_else(|panic| Err(format!("this is not whole Parquet: {}", panic.message)))
        }
        Some("txt") => read_hpcc(path),
        _ => {
            Err("expected a name that ends in .csv, .parquet, or .txt (a flow file of the HPCC simulator)"
                .into())
        }
    }
}

/// A column of an HPCC flow file, and its name in messages.
const HPCC_COLUMNS: [&str; 6] = ["src", "dst", "priority group", "port", "size in bytes", "start in seconds"];

fn read_hpcc(path: &Path) -> Result<FlowList, String> {
    let text = files::read_rows(path).map_err(|error| error.to_string())?;
    let data = text.trim_start_matches('\u{feff}').lines().map(|line| line.split('#').next().unwrap_or(""));
    let mut lines = (1..).zip(data).filter(|(_, line)| !line.trim().is_empty());
    let count = lines.next().and_then(|(_, line)| line.trim().parse::<u64>().ok()).ok_or_else(|| {
        format!("this is no flow file of the HPCC simulator: its first line is the number of flows, then {} for each", HPCC_COLUMNS.join(", "))
    })?;
    let mut list = FlowList { unit: "line", ..FlowList::default() };
    let (mut read, mut width) = (0, None);
    for (number, line) in lines.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)) {
        read += 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        // All rows have the form of the first, so that a row without its end is not taken for the other form.
        let form = *width.get_or_insert(words.len());
        match words[..] {
            [src, dst, _, _, size, start] | [src, dst, _, size, start] if words.len() == form => {
                list.add(number, hpcc_entry([src, dst, size, start]));
            }
            _ => {
                let (columns, of_file) = (HPCC_COLUMNS.join(", "), if form == 5 { 5 } else { 6 });
                let without = if form == 5 { ", without port" } else { "" };
                let message =
                    format!("{}; expected {of_file}: {columns}{without}", counted(words.len(), "value"));
                list.mistakes.push((number, message));
            }
        }
    }
    if read < count {
        return Err(format!(
            "the first line says {}, the file has {read}: it is cut short",
            counted(count, "flow")
        ));
    }
    // The HPCC simulator ignores what follows.
    let left = lines.count();
    if left > 0 {
        list.notes.push(format!(
            "left out: {} behind the {} that the first line announces",
            counted(left, "line"),
            counted(count, "flow")
        ));
    }
    if !list.flows.is_empty() {
        list.notes.push(
            "priority groups and ports of the flows were left out: transport.priority sets the class"
                .to_owned(),
        );
    }
    Ok(list)
}

fn hpcc_entry([src, dst, size, start]: [&str; 4]) -> Result<FlowEntry, Problem> {
    let size = size.parse().map_err(|_| (2, format!("{size:?} is not a whole number of bytes")))?;
    let start: f64 = start.parse().map_err(|_| (3, format!("{start:?} is not a number of seconds")))?;
    checked(src, dst, size, start * 1e6)
}

fn read_csv(path: &Path) -> Result<FlowList, String> {
    let text = files::read_rows(path).map_err(|error| error.to_string())?;
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    refuse_doubles(headers.iter(), &COLUMNS)?;
    let index = positions(headers.iter())?;
    let optional = optional_positions(headers.iter());
    let mut list = FlowList { unit: "line", ..FlowList::default() };
    list.notes.extend(left_out(headers.iter()));
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, |position| line_of(&text, position));
        if record.len() == headers.len() {
            let text = |column: usize| record[column].to_owned();
            let entry = csv_entry(index.map(|column| &record[column]));
            list.add(
                line,
                entry.and_then(|entry| with_order(entry, optional.map(|column| column.map(text)))),
            );
        } else {
            let message = format!("{}; the header has {}", counted(record.len(), "column"), headers.len());
            list.mistakes.push((line, message));
        }
    }
    Ok(list)
}

/// The line of a record, from 1. The reader reports the position where its search began, before comments and empty
/// lines.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let rest = text.get(position.byte() as usize..).unwrap_or("");
    let passed = rest.lines().take_while(|line| line.is_empty() || line.starts_with('#')).count();
    position.line() + passed as u64
}

fn csv_entry([src, dst, size, start]: [&str; 4]) -> Result<FlowEntry, Problem> {
    let (src, dst) = named(src, dst)?;
    let size = whole(size)
        .ok_or_else(|| (2, format!("{size:?} is not a whole number of bytes{}", bytes_of(size))))?;
    let start = start.parse().map_err(|_| (3, format!("{start:?} is not a number of microseconds")))?;
    checked(src, dst, size, start)
}

/// How to write a size with a unit in a column of bytes.
fn bytes_of(size: &str) -> String {
    size.parse::<Bytes>().map_or_else(|_| String::new(), |bytes| format!("; write {}", bytes.0))
}

fn read_parquet(path: &Path) -> Result<FlowList, String> {
    let file = files::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let units = units(reader.metadata().file_metadata())?;
    let schema = reader.metadata().file_metadata().schema();
    refuse_doubles(schema.get_fields().iter().map(|field| field.name()), &COLUMNS)?;
    let index = positions(schema.get_fields().iter().map(|field| field.name()))?;
    let optional = optional_positions(schema.get_fields().iter().map(|field| field.name()));
    let rows = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    Limit::Rows.check(rows, "rows")?;
    let text_limit = Limit::Bytes.value()?;
    let notes = left_out(schema.get_fields().iter().map(|field| field.name())).into_iter().collect();
    let columns = index.iter().copied().chain(optional.into_iter().flatten());
    let schema = only(schema, &columns.collect::<Vec<_>>());
    let index = positions(schema.get_fields().iter().map(|field| field.name()))?;
    let optional = optional_positions(schema.get_fields().iter().map(|field| field.name()));
    let records = reader.get_row_iter(Some(schema)).map_err(|error| error.to_string())?;
    let mut list = FlowList { unit: "row", notes, ..FlowList::default() };
    let mut text = 0;
    for (number, row) in (1..).zip(records) {
        let row = row.map_err(|error| error.to_string())?;
        // A file may claim fewer rows than it has, and repeat a long text in a few bytes.
        text += text_bytes(&row);
        if number > rows || text > text_limit {
            return Err(format!("row {number}: {}", Limit::Bytes.exceeded("bytes of text")?));
        }
        let entry = parquet_entry(&row, index, units[0]);
        list.add(number, entry.and_then(|entry| with_order(entry, parquet_texts(&row, optional, units[1]))));
    }
    Ok(list)
}

/// Microseconds of the units of `start_us` and `compute_us`.
fn units(metadata: &FileMetaData) -> Result<[f64; 2], String> {
    let pairs = metadata.key_value_metadata();
    let schema =
        parquet_to_arrow_schema(metadata.schema_descr(), pairs).map_err(|error| error.to_string())?;
    let mut units = [1.0; 2];
    for field in schema.fields() {
        let (name, kind) = (field.name().as_str(), field.data_type());
        match name {
            "start_us" => units[0] = microseconds_of(name, kind)?,
            "compute_us" => units[1] = microseconds_of(name, kind)?,
            "size_bytes" => refuse_times(name, "bytes", kind)?,
            "src" | "dst" | "id" | "after" => refuse_times(name, "names", kind)?,
            _ => {}
        }
    }
    Ok(units)
}

/// The part of a schema with these columns.
fn only(schema: &Type, columns: &[usize]) -> Type {
    let fields = schema.get_fields().iter().enumerate();
    let kept = fields.filter(|(position, _)| columns.contains(position)).map(|(_, field)| Arc::clone(field));
    let group = Type::group_type_builder(schema.name()).with_fields(kept.collect());
    group.build().expect("a part of a schema is a schema")
}

fn text_bytes(row: &Row) -> u64 {
    let length = |field: &Field| match field {
        Field::Str(text) => text.len(),
        Field::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    row.get_column_iter().map(|(_, field)| length(field) as u64).sum()
}

fn parquet_entry(row: &Row, index: [usize; 4], unit: f64) -> Result<FlowEntry, Problem> {
    let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
    let [src, dst, size, start] = index.map(|column| fields[column]);
    // Host names may be numbers, as in HPCC files.
    let text = |column, field: &Field| match (field, integer(field)) {
        (Field::Str(text), _) => Ok(text.clone()),
        (_, Some(number)) => Ok(number.to_string()),
        (other, None) => Err((column, format!("{other} is not a text"))),
    };
    let size = match size {
        Field::Double(bytes) => whole(&bytes.to_string()),
        other => integer(other),
    }
    .ok_or_else(|| (2, format!("{size} is not a whole number of bytes")));
    let start = match start {
        Field::Double(us) => Ok(*us),
        Field::Float(us) => Ok(f64::from(*us)),
        other => integer(other).map(|us| us as f64).ok_or_else(|| (3, format!("{other} is not a number"))),
    };
    let (src, dst) = (text(0, src)?, text(1, dst)?);
    let (src, dst) = named(&src, &dst)?;
    checked(src, dst, size?, start? * unit)
}

fn integer(field: &Field) -> Option<u64> {
    match *field {
        Field::Byte(n) => n.try_into().ok(),
        Field::Short(n) => n.try_into().ok(),
        Field::Int(n) => n.try_into().ok(),
        Field::Long(n) => n.try_into().ok(),
        Field::UByte(n) => Some(n.into()),
        Field::UShort(n) => Some(n.into()),
        Field::UInt(n) => Some(n.into()),
        Field::ULong(n) => Some(n),
        _ => None,
    }
}

/// A column (index into `COLUMNS`) and its error.
type Problem = (usize, String);

/// Positions of the four required columns.
fn positions<'a>(names: impl Iterator<Item = &'a str>) -> Result<[usize; 4], String> {
    let names: Vec<&str> = names.collect();
    let mut index = [0; 4];
    for (position, column) in index.iter_mut().zip(&COLUMNS[..REQUIRED]) {
        *position = names.iter().position(|name| name == column).ok_or_else(|| {
            let found = names.join(", ");
            let has_other_separator = names.len() == 1 && found.contains([';', '\t', '|', ' ']);
            format!(
                "there is no column {column}; expected {}, found {}{}",
                COLUMNS[..REQUIRED].join(", "),
                if found.is_empty() { "nothing" } else { &found },
                if has_other_separator { "; columns are separated by commas" } else { "" }
            )
        })?;
    }
    Ok(index)
}

/// Columns that are not read, and the one that each may be.
fn left_out<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    const SHOWN: usize = 6;
    let names: Vec<&str> = names.collect();
    let absent = COLUMNS.iter().copied().filter(|column| !names.contains(column));
    let text = |name: &&str| match misspelt(name, absent.clone()) {
        near if near.is_empty() => (*name).to_owned(),
        near => format!("{name} ({near})"),
    };
    let others: Vec<String> = names.iter().filter(|name| !COLUMNS.contains(name)).map(text).collect();
    let more = others.len().saturating_sub(SHOWN);
    let shown = others[..others.len() - more].join(", ");
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!others.is_empty()).then(|| format!("columns left out: {shown}{rest}"))
}

/// A whole number, also as "1e6" or "1000000.0", which spreadsheets and pandas write.
fn whole(text: &str) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    text.parse().ok().or_else(|| {
        let number = text
            .parse()
            .ok()
            .filter(|number: &f64| number.fract() == 0.0 && (0.0..EXACT).contains(number))?;
        Some(number as u64)
    })
}

/// Positions of the optional columns.
fn optional_positions<'a>(names: impl Iterator<Item = &'a str>) -> [Option<usize>; 3] {
    let names: Vec<&str> = names.collect();
    let find = |column: &str| names.iter().position(|name| *name == column);
    [find(COLUMNS[4]), find(COLUMNS[5]), find(COLUMNS[6])]
}

/// The texts of the optional columns, the last one in microseconds.
fn parquet_texts(row: &Row, columns: [Option<usize>; 3], unit: f64) -> [Option<String>; 3] {
    let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
    let text = |column: Option<usize>| match fields[column?] {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        field => integer(field).map_or_else(|| Some(field.to_string()), |number| Some(number.to_string())),
    };
    let [id, after, compute] = columns.map(text);
    let in_microseconds = |text: String| text.parse().map_or(text, |number: f64| (number * unit).to_string());
    [id, after, compute.map(in_microseconds)]
}

/// Adds the predecessors of a flow.
fn with_order(entry: FlowEntry, [id, after, compute]: [Option<String>; 3]) -> Result<FlowEntry, Problem> {
    let id = id.filter(|id| !id.is_empty());
    if id.as_ref().is_some_and(|id| id.contains(char::is_whitespace)) {
        return Err((4, "an id has no spaces: they stand between those in after".to_owned()));
    }
    let after = after.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let compute = match compute.as_deref() {
        None | Some("") => 0.0,
        Some(text) => text.parse().map_err(|_| (6, format!("{text:?} is not a number")))?,
    };
    Ok(FlowEntry { id, after, compute: span(6, compute)?, ..entry })
}

/// A column in microseconds.
fn span(column: usize, us: f64) -> Result<Span, Problem> {
    let ps = (us * 1e6).round();
    if (0.0..=TIME_MAX.0 as f64).contains(&ps) {
        return Ok(Span(ps as u64));
    }
    Err((column, format!("{us} us; expected at least 0 and at most {}", TIME_MAX.plain())))
}

fn named<'a>(src: &'a str, dst: &'a str) -> Result<(&'a str, &'a str), Problem> {
    for (column, name) in [(0, src), (1, dst)] {
        if name.is_empty() {
            return Err((column, "the name is empty".into()));
        }
    }
    Ok((src, dst))
}

fn checked(src: &str, dst: &str, size: u64, start_us: f64) -> Result<FlowEntry, Problem> {
    if size == 0 || size == u64::MAX {
        return Err((
            2,
            format!("{size} bytes; expected at least 1 (an endless flow is a long_flows workload)"),
        ));
    }
    let (src, dst, start) = (src.into(), dst.into(), span(3, start_us)?);
    Ok(FlowEntry { src, dst, size: Bytes(size), start, id: None, after: Vec::new(), compute: Span::ZERO })
}

#[cfg(test)]
mod tests {
    use super::super::flows::FlowsSpec;
    use super::super::test_support::{drain, make, racks};
    use super::*;
    use crate::WorkloadKind;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    use std::fs::File;
    use std::sync::Arc;

    fn entry(src: &str, dst: &str, size: u64, start: Span) -> FlowEntry {
        let (src, dst, size) = (src.into(), dst.into(), Bytes(size));
        FlowEntry { src, dst, size, start, id: None, after: Vec::new(), compute: Span::ZERO }
    }

    fn csv(content: &str) -> Result<FlowList, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.csv");
        std::fs::write(&path, content).unwrap();
        read_flow_list(&path)
    }

    #[test]
    fn csv_rows_become_flows() {
        let list =
            csv("start_us, dst,src,note,size_bytes\n# two flows\n0.1,h1,h0,x,1000\n12,h2,h1,,1\n").unwrap();
        let expected = [entry("h0", "h1", 1000, Span(100_000)), entry("h1", "h2", 1, Span::from_us(12))];
        assert_eq!(list.flows, expected);
        assert_eq!((list.place(0), list.show("f", list.place(1))), (3, "f, line 4".to_owned()));
        let windows = csv("src,dst,size_bytes,start_us\r\n\r\n# two\r\nh0,h1,1,0\r\nh1,h0,1,0\r\n").unwrap();
        assert_eq!([0, 1].map(|index| windows.place(index)), [4, 5]);
        assert!(csv("src,dst,size_bytes,start_us\n").unwrap().flows.is_empty());
        assert_eq!(list.notes, ["columns left out: note"]);
        let odd = csv("src,dst,size_bytes,start_us,id,aftr\nh0,h1,1e6,0,a,\nh0,h1,5000.0,0,b,a\n").unwrap();
        assert_eq!(odd.notes, ["columns left out: aftr (did you mean \"after\"?)"]);
        assert_eq!(odd.flows.iter().map(|flow| flow.size.0).collect::<Vec<_>>(), [1_000_000, 5000]);
    }

    /// Checks the line numbers: comments, blank lines and texts with line breaks count.
    #[test]
    fn csv_mistakes_name_line_and_column() {
        let list = csv("src,dst,size_bytes,start_us\nh0,h1,10,0\n# a comment\n\nh0,h1,1.5,0\nh0,h1,,0\n\
                        \"h\n0\",h1,5,soon\nh0,h1,5,-1\nh0,h1,5\nh0,h1,7,1\nh0,h1,5,NaN\n,h1,5,0\nh0,h1,0,0\n")
        .unwrap();
        let expected = [
            (5, "column size_bytes: \"1.5\" is not a whole number of bytes"),
            (6, "column size_bytes: \"\" is not a whole number of bytes"),
            (7, "column start_us: \"soon\" is not a number of microseconds"),
            (9, "column start_us: -1 us; expected at least 0 and at most 2400 h"),
            (10, "3 columns; the header has 4"),
            (12, "column start_us: NaN us; expected at least 0 and at most 2400 h"),
            (13, "column src: the name is empty"),
            (
                14,
                "column size_bytes: 0 bytes; expected at least 1 (an endless flow is a long_flows workload)",
            ),
        ];
        assert_eq!(list.mistakes, expected.map(|(line, message)| (line, message.to_owned())));
        assert_eq!((list.flows.len(), list.place(1)), (2, 11));
        assert!(csv("src,dst,size\nh0,h1,5\n").unwrap_err().starts_with("there is no column size_bytes"));
    }

    #[test]
    fn parquet_rows_become_flows() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, sizes: Vec<Option<i64>>, compression| {
            let starts = vec![0.1; sizes.len()];
            let batch = RecordBatch::try_from_iter_with_nullable([
                ("start_us", Arc::new(Float64Array::from(starts)) as ArrayRef, true),
                ("src", Arc::new(StringArray::from(vec!["h0"; sizes.len()])), true),
                ("dst", Arc::new(StringArray::from(vec!["h1"; sizes.len()])), true),
                ("size_bytes", Arc::new(Int64Array::from(sizes)), true),
            ])
            .unwrap();
            let path = folder.path().join(name);
            let properties = WriterProperties::builder().set_compression(compression).build();
            let file = File::create(&path).unwrap();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            read_flow_list(&path)
        };
        // pandas and pyarrow compress with Snappy by default.
        let rows = write("good.parquet", vec![Some(7), Some(8)], Compression::SNAPPY).unwrap();
        assert_eq!(rows.flows, [entry("h0", "h1", 7, Span(100_000)), entry("h0", "h1", 8, Span(100_000))]);
        let wrong = |list: FlowList| list.mistakes.into_iter().next().unwrap();
        let null = write("null.parquet", vec![Some(7), None], Compression::UNCOMPRESSED).unwrap();
        assert_eq!(wrong(null), (2, "column size_bytes: null is not a whole number of bytes".to_owned()));
        let negative = write("negative.parquet", vec![Some(-7)], Compression::UNCOMPRESSED).unwrap();
        assert!(wrong(negative).1.contains("-7 is not"));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read_flow_list(Path::new("flows.xlsx")).unwrap_err().contains(".csv, .parquet"));
        assert!(read_flow_list(Path::new("missing.csv")).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no.parquet");
        std::fs::write(&path, "src,dst").unwrap();
        assert!(read_flow_list(&path).is_err());
    }

    /// As in the HPCC simulator: the first line has the number of flows, and later lines are ignored.
    #[test]
    fn flow_files_of_hpcc_are_read_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flow.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_flow_list(&path)
        };
        let list = read("2\n2 1 3 100 200000000 2\n3 1 3 100 5000 2.000000001\n4 1 3 100 1 2\n").unwrap();
        let expected = [
            entry("2", "1", 200_000_000, Span::from_secs(2)),
            entry("3", "1", 5000, Span::from_secs(2) + Span::from_ns(1)),
        ];
        assert_eq!(list.flows, expected);
        assert_eq!(list.show("flow.txt", list.place(1)), "flow.txt, line 3");
        assert!(list.notes[0].starts_with("left out: 1 line behind the 2 flows"), "{:?}", list.notes);
        assert!(list.notes[1].contains("transport.priority"), "{:?}", list.notes);
        let list = read("2\n2 1 3 100 much 2\n3 1 3 100\n").unwrap();
        assert_eq!(
            list.mistakes[0],
            (2, "column size_bytes: \"much\" is not a whole number of bytes".to_owned())
        );
        assert!(list.mistakes[1].1.contains("4 values; expected 6"), "{:?}", list.mistakes);
        // ConWeave's files have no port; a row that is cut short is no row of that form.
        let list = read("2 # flows\r\n2 1 3 200000000 2\r\n3 1 3 5000 2.000000001\r\n").unwrap();
        assert_eq!(list.flows, expected);
        let list = read("2\n2 1 3 100 200000000 2\n3 1 3 100 5000\n").unwrap();
        assert_eq!((list.flows.len(), list.mistakes.len()), (1, 1));
        assert!(read("5\n2 1 3 100 1 2\n").unwrap_err().contains("says 5 flows, the file has 1"));
        assert!(read("src,dst\n").unwrap_err().contains("no flow file of the HPCC simulator"));
    }

    #[test]
    fn columns_of_an_order_may_be_there() {
        let list =
            csv("src,dst,size_bytes,start_us,after,id,compute_us\nh0,h1,1,0,,a,\nh1,h0,1,0,a  b,,2.5\n")
                .unwrap();
        assert_eq!(list.flows[0].id.as_deref(), Some("a"));
        assert_eq!(
            (list.flows[1].after.join("+"), list.flows[1].compute),
            ("a+b".to_owned(), Span(2_500_000))
        );
        let list =
            csv("src,dst,size_bytes,start_us,id,compute_us\nh0,h1,1,0,a b,\nh1,h0,1,0,c,long\n").unwrap();
        assert!(list.mistakes[0].1.starts_with("column id: an id has no spaces"));
        assert_eq!(list.mistakes[1].1, "column compute_us: \"long\" is not a number");
    }

    #[test]
    fn flows_start_in_order_and_ties_keep_the_order_of_the_list() {
        let us = Span::from_us;
        let flows = vec![
            entry("h2", "h0", 3, us(5)),
            entry("h0", "h1", 1, us(0)),
            entry("h1", "h0", 4, us(5)),
            entry("h1", "h2", 2, us(1)),
        ];
        let flows = drain(&mut *make(WorkloadKind::Flows(FlowsSpec { flows }), &racks(1, 3)));
        assert_eq!(flows.iter().map(|flow| flow.size).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}
