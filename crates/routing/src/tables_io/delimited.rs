//! Tables as comma-separated values: blocks, each with its own header. The reader skips empty lines and lines
//! that begin with `#`.

use super::builder::{Around, Builder, Lane, Rewrite, Row, Sender};
use super::by_name::{around_rows, for_each_row, port_names};
use crate::verify::Tables;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{Address, Flaw, Labels, did_you_mean};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The kind of lines in a block.
#[derive(Clone, Copy)]
enum Block {
    Rows,
    Lanes,
    Rewrites,
    Senders,
}

const HEADERS: [(&[&str], Block); 4] = [
    (&["vlan", "lane"], Block::Lanes),
    (&["switch", "vlan", "lane"], Block::Rewrites),
    (&["switch", "vlan", "destination", "port"], Block::Rows),
    (&["vlan", "from", "to"], Block::Senders),
];

fn reader(text: &str) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.has_headers(false).flexible(true).comment(Some(b'#'));
    builder.from_reader(text.as_bytes())
}

/// Removes spaces around fields; the trim option of the CSV reader copies every record.
fn trim(record: &mut csv::StringRecord) {
    if record.iter().any(|field| field.trim().len() < field.len()) {
        record.trim();
    }
}

fn line_of(record: &csv::StringRecord) -> usize {
    record.position().map_or(0, |position| position.line() as usize)
}

fn not_csv(error: &csv::Error) -> Flaw {
    let line = error.position().map_or(0, csv::Position::line);
    Flaw::line(line as usize, format!("this is not CSV: {error}"))
}

pub(super) fn read(text: &str, builder: &mut Builder<'_>) -> Result<(), Flaw> {
    let mut block: Option<(&[&str], Block)> = None;
    let (mut reader, mut record) = (reader(text), csv::StringRecord::new());
    while reader.read_record(&mut record).map_err(|error| not_csv(&error))? {
        trim(&mut record);
        let line = line_of(&record);
        if let Some(found) = HEADERS.into_iter().find(|(header, _)| record.iter().eq(header.iter().copied()))
        {
            block = Some(found);
            continue;
        }
        let Some((header, kind)) = block else {
            return Err(Flaw::line(line, "begin with a header: switch,vlan,destination,port"));
        };
        let place = ("line", line as u32);
        let added = match kind {
            Block::Rows => {
                row(&record, header).and_then(|(names, vlan)| builder.named_row(place, names, vlan))
            }
            Block::Lanes => fields::<Lane>(&record, header).and_then(|lane| builder.lane(&lane)),
            Block::Rewrites => {
                fields::<Rewrite>(&record, header).and_then(|rewrite| builder.rewrite(&rewrite))
            }
            Block::Senders => fields::<Sender>(&record, header).and_then(|sender| builder.sender(&sender)),
        };
        added.map_err(|message| Flaw::line(line, message))?;
    }
    Ok(())
}

/// Reads switch, destination, port and VLAN; fast, because files contain millions of such rows.
fn row<'a>(record: &'a csv::StringRecord, header: &[&str]) -> Result<([&'a str; 3], u16), String> {
    let found =
        (record.get(0), record.get(1).and_then(|vlan| vlan.parse().ok()), record.get(2), record.get(3));
    match found {
        (Some(switch), Some(vlan), Some(destination), Some(port)) if record.len() == 4 => {
            Ok(([switch, destination, port], vlan))
        }
        // Reading it again describes the mistake.
        _ => Err(fields::<Row>(record, header).err().unwrap_or_default()),
    }
}

fn fields<T: DeserializeOwned>(record: &csv::StringRecord, header: &[&str]) -> Result<T, String> {
    let wrong = || {
        let line: Vec<_> = record.iter().collect();
        format!("{:?} does not fit the header {:?}", line.join(","), header.join(","))
    };
    if record.len() != header.len() {
        return Err(wrong());
    }
    let header = csv::StringRecord::from(header);
    record.deserialize(Some(&header)).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Deserialize { err, .. } => format!("{}: {}", wrong(), err.kind()),
        _ => wrong(),
    })
}

pub(super) fn read_addresses(text: &str, topology: &Topology, labels: &mut Labels) -> Result<(), Flaw> {
    for (i, record) in reader(text).into_records().enumerate() {
        let mut record = record.map_err(|error| not_csv(&error))?;
        trim(&mut record);
        let line = line_of(&record);
        let (Some(address), Some(name), 2) = (record.get(0), record.get(1), record.len()) else {
            return Err(Flaw::line(line, "a line is written address,node"));
        };
        if i == 0 {
            if [address, name] != ["address", "node"] {
                return Err(Flaw::line(line, "begin with the header address,node"));
            }
            continue;
        }
        let names: Vec<_> = topology.nodes().iter().map(|node| node.name.clone()).collect();
        let missing = || format!("{name:?} is not in the topology{}", did_you_mean(name, names.iter()));
        let node = topology.find(name).ok_or_else(|| Flaw::line(line, missing()))?;
        labels.add_address(address, Address { node, port: None, path: 0 });
    }
    Ok(())
}

/// Writes all blocks; the rows are written one by one.
pub(super) fn write(
    tables: &Tables,
    topology: &Topology,
    labels: &Labels,
    out: &mut dyn std::io::Write,
) -> Result<(), Flaw> {
    let Around { lanes, rewrites, senders } = around_rows(tables, topology);
    let flaw = |error: &dyn std::error::Error| Flaw::of_file(error.to_string());
    let before: Vec<String> = [block(&lanes)?, block(&rewrites)?].into_iter().flatten().collect();
    out.write_all(before.join("\n").as_bytes()).map_err(|error| flaw(&error))?;
    if !before.is_empty() {
        out.write_all(b"\n").map_err(|error| flaw(&error))?;
    }
    let mut writer = csv::Writer::from_writer(&mut *out);
    let mut started = false;
    let (name, ports) = (|node| topology.nodes()[node].name.as_str(), port_names(topology, labels));
    for_each_row(tables, topology, |switch, vlan, destination, port| {
        if !std::mem::replace(&mut started, true) {
            writer.write_record(HEADERS[2].0).map_err(|error| flaw(&error))?;
        }
        let row = [name(switch), &vlan.to_string(), name(destination), &ports[port.0 as usize]];
        writer.write_record(row).map_err(|error| flaw(&error))
    })?;
    writer.flush().map_err(|error| flaw(&error))?;
    drop(writer);
    if let Some(block) = block(&senders)? {
        out.write_all(b"\n").and_then(|()| out.write_all(block.as_bytes())).map_err(|error| flaw(&error))?;
    }
    Ok(())
}

/// Formats a block: the header and the lines; none if there are no lines.
fn block<T: Serialize>(items: &[T]) -> Result<Option<String>, Flaw> {
    let flaw = |error: &dyn std::error::Error| Flaw::of_file(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    for item in items {
        writer.serialize(item).map_err(|error| flaw(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| flaw(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| flaw(&error))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}
