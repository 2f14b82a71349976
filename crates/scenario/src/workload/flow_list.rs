//! Flows as listed: in the scenario itself, or in a CSV or Parquet file with the columns `src`, `dst`,
//! `size_bytes` and `start_us`. Further columns are ignored. A start is rounded to the nearest picosecond.

use super::{Listed, Maker, at};
use crate::spec::FlowEntry;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use pauseframe_units::{Bytes, NodeId, Span};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

const COLUMNS: [&str; 4] = ["src", "dst", "size_bytes", "start_us"];

pub(super) fn build(entries: &[FlowEntry], maker: &Maker) -> Listed {
    let node = node_by_name(maker);
    let flow = |e: &FlowEntry| maker.flow(node(&e.src), node(&e.dst), e.size, at(e.start));
    Listed::new(entries.iter().map(flow).collect())
}

/// From names, which `resolve` has checked, to nodes.
pub(super) fn node_by_name<'a>(maker: &Maker<'a>) -> impl Fn(&str) -> NodeId + use<'a> {
    let nodes = maker.context.topology.nodes().iter_enumerated();
    let by_name: BTreeMap<&str, NodeId> = nodes.map(|(id, node)| (node.name.as_str(), id)).collect();
    move |name| *by_name.get(name).expect("resolve has checked that every flow names hosts of the topology")
}

/// Reads a flow list, in the order of its rows. `.csv` and `.parquet` are known.
///
/// # Errors
/// A text that names the file, the row (from 1, the header not counted), the column, and what is wrong.
pub(crate) fn read_flow_list(path: &Path) -> Result<Vec<FlowEntry>, String> {
    let entries = match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => read_csv(path),
        Some("parquet") => read_parquet(path),
        _ => Err("expected a name that ends in .csv or .parquet".into()),
    };
    entries.map_err(|message| format!("{}: {message}", path.display()))
}

fn read_csv(path: &Path) -> Result<Vec<FlowEntry>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_path(path)
        .map_err(|error| error.to_string())?;
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let index = positions(headers.iter())?;
    let mut entries = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let [src, dst, size, start] = index.map(|column| record.get(column).unwrap_or(""));
        let entry = named(src, dst).and_then(|(src, dst)| {
            let size = size.parse().map_err(|_| (2, format!("{size:?} is not a whole number of bytes")));
            let start = start.parse().map_err(|_| (3, format!("{start:?} is not a number")));
            checked(src, dst, size?, start?)
        });
        entries.push(entry.map_err(|problem| in_row(entries.len(), problem))?);
    }
    Ok(entries)
}

fn read_parquet(path: &Path) -> Result<Vec<FlowEntry>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let schema = reader.metadata().file_metadata().schema();
    let index = positions(schema.get_fields().iter().map(|field| field.name()))?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for row in rows {
        let row = row.map_err(|error| error.to_string())?;
        let entry = parquet_entry(&row, index);
        entries.push(entry.map_err(|problem| in_row(entries.len(), problem))?);
    }
    Ok(entries)
}

fn parquet_entry(row: &Row, index: [usize; 4]) -> Result<FlowEntry, Problem> {
    let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
    let [src, dst, size, start] = index.map(|column| fields[column]);
    let text = |column, field: &Field| match field {
        Field::Str(text) => Ok(text.clone()),
        other => Err((column, format!("{other} is not a text"))),
    };
    let size = integer(size).ok_or_else(|| (2, format!("{size} is not a whole number of bytes")));
    let start = match start {
        Field::Double(us) => Ok(*us),
        Field::Float(us) => Ok(f64::from(*us)),
        other => integer(other).map(|us| us as f64).ok_or_else(|| (3, format!("{other} is not a number"))),
    };
    let (src, dst) = (text(0, src)?, text(1, dst)?);
    let (src, dst) = named(&src, &dst)?;
    checked(src, dst, size?, start?)
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

/// A column (index into `COLUMNS`) and what is wrong there.
type Problem = (usize, String);

fn in_row(rows_before: usize, (column, message): Problem) -> String {
    format!("row {}, column {}: {message}", rows_before + 1, COLUMNS[column])
}

/// Where the four columns are.
fn positions<'a>(names: impl Iterator<Item = &'a str>) -> Result<[usize; 4], String> {
    let names: Vec<&str> = names.collect();
    let mut index = [0; 4];
    for (position, column) in index.iter_mut().zip(COLUMNS) {
        *position = names.iter().position(|name| *name == column).ok_or_else(|| {
            format!(
                "there is no column {column}; expected {}, found {}",
                COLUMNS.join(", "),
                names.join(", ")
            )
        })?;
    }
    Ok(index)
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
    let start_ps = (start_us * 1e6).round();
    if !(0.0..u64::MAX as f64).contains(&start_ps) {
        return Err((3, format!("{start_us} us; expected at least 0 and at most 213 days")));
    }
    Ok(FlowEntry { src: src.into(), dst: dst.into(), size: Bytes(size), start: Span(start_ps as u64) })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{drain, make, racks};
    use super::*;
    use crate::spec::WorkloadKind;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    use std::sync::Arc;

    fn entry(src: &str, dst: &str, size: u64, start: Span) -> FlowEntry {
        FlowEntry { src: src.into(), dst: dst.into(), size: Bytes(size), start }
    }

    fn csv(content: &str) -> Result<Vec<FlowEntry>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.csv");
        std::fs::write(&path, content).unwrap();
        let result = read_flow_list(&path);
        result.map_err(|message| message.replace(&format!("{}: ", path.display()), ""))
    }

    #[test]
    fn csv_rows_become_flows() {
        let rows = csv("start_us, dst,src,note,size_bytes\n# two flows\n0.1,h1,h0,x,1000\n12,h2,h1,,1\n");
        let expected = [entry("h0", "h1", 1000, Span(100_000)), entry("h1", "h2", 1, Span::from_us(12))];
        assert_eq!(rows.unwrap(), expected);
        assert_eq!(csv("src,dst,size_bytes,start_us\n").unwrap(), []);
    }

    #[test]
    fn csv_mistakes_name_row_and_column() {
        let first = "src,dst,size_bytes,start_us\nh0,h1,10,0\n";
        for (row, message) in [
            ("h0,h1,1.5,0", "row 2, column size_bytes: \"1.5\" is not a whole number of bytes"),
            ("h0,h1,,0", "row 2, column size_bytes: \"\" is not a whole number of bytes"),
            ("h0,h1,5,soon", "row 2, column start_us: \"soon\" is not a number"),
            ("h0,h1,5,-1", "row 2, column start_us: -1 us; expected at least 0 and at most 213 days"),
            ("h0,h1,5,NaN", "row 2, column start_us: NaN us; expected at least 0 and at most 213 days"),
            (",h1,5,0", "row 2, column src: the name is empty"),
        ] {
            assert_eq!(csv(&format!("{first}{row}\n")), Err(message.to_string()));
        }
        assert!(
            csv(&format!("{first}h0,h1,0,0")).unwrap_err().starts_with("row 2, column size_bytes: 0 bytes")
        );
        assert!(csv(&format!("{first}h0,h1,5")).unwrap_err().contains("line: 3"));
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
        // Snappy is what pandas and pyarrow write unless told otherwise.
        let rows = write("good.parquet", vec![Some(7), Some(8)], Compression::SNAPPY).unwrap();
        assert_eq!(rows, [entry("h0", "h1", 7, Span(100_000)), entry("h0", "h1", 8, Span(100_000))]);
        let null = write("null.parquet", vec![Some(7), None], Compression::UNCOMPRESSED).unwrap_err();
        assert!(null.contains("null.parquet: row 2, column size_bytes: null"), "{null}");
        let negative = write("negative.parquet", vec![Some(-7)], Compression::UNCOMPRESSED).unwrap_err();
        assert!(negative.contains("row 1, column size_bytes: -7 is not"), "{negative}");
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read_flow_list(Path::new("flows.txt")).unwrap_err().contains(".csv or .parquet"));
        assert!(read_flow_list(Path::new("missing.csv")).unwrap_err().starts_with("missing.csv: "));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no.parquet");
        std::fs::write(&path, "src,dst").unwrap();
        assert!(read_flow_list(&path).unwrap_err().contains("no.parquet"));
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
        let flows = drain(&mut *make(WorkloadKind::Flows { flows }, &racks(1, 3)));
        assert_eq!(flows.iter().map(|flow| flow.size).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}
