//! Tables as comma-separated values: blocks, each introduced by its header. Lines that begin with `#` and empty
//! lines are skipped.

use super::builder::{Builder, Flat, Lane, Rewrite, Row, Sender};
use crate::Topology;
use crate::interchange::{Flaw, Labels, did_you_mean};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the lines of a block say.
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
    builder.has_headers(false).flexible(true).comment(Some(b'#')).trim(csv::Trim::All);
    builder.from_reader(text.as_bytes())
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
    for record in reader(text).into_records() {
        let record = record.map_err(|error| not_csv(&error))?;
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
            Block::Rows => fields::<Row>(&record, header).and_then(|row| builder.named_row(place, &row)),
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
        let record = record.map_err(|error| not_csv(&error))?;
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
        labels.add_address(address, node, 0);
    }
    Ok(())
}

pub(super) fn write(flat: &Flat) -> Result<String, Flaw> {
    let mut text = String::new();
    let blocks = [block(&flat.lanes)?, block(&flat.rewrites)?, block(&flat.rows)?, block(&flat.senders)?];
    for block in blocks.into_iter().flatten() {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &block;
    }
    Ok(text)
}

/// The header and the lines; nothing if there are no lines.
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
