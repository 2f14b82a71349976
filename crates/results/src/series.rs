//! The `series` table, filled while the run goes on: at its end there is little left to do, however long it is.

use super::column::{Columns, dictionary_of};
use super::rows::{Names, metric_name};
use super::{ResultsFolder, RunError, TableWriter};
use crate::columns;
use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use arrow_select::take::take;
use pauseframe_fabric::{Sample, SampledEntity, SampledMetric};
use pauseframe_units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that go to the file at a time: a row group.
const PART: usize = if cfg!(test) { 1 << 14 } else { 1 << 20 };
const FILE: &str = "series.parquet";

/// What a sample is of: a quantity, and a port or flow.
type Subject = (SampledMetric, SampledEntity);

/// Subjects, numbered in the order of their first rows.
#[derive(Debug, Default)]
struct Subjects {
    numbers: BTreeMap<Subject, i32>,
    in_order: Vec<Subject>,
    /// By number: the subject of the row that followed last time. Samples come in the same order at every interval, so this
    /// is nearly always the subject of the next row.
    following: Vec<i32>,
    last: usize,
}

impl Subjects {
    fn number(&mut self, subject: Subject) -> i32 {
        let guess = self.following.get(self.last).copied().unwrap_or(0);
        let number =
            if self.in_order.get(guess as usize) == Some(&subject) { guess } else { self.look_up(subject) };
        self.last = number as usize;
        number
    }

    fn look_up(&mut self, subject: Subject) -> i32 {
        let number = *self.numbers.entry(subject).or_insert_with(|| {
            self.in_order.push(subject);
            self.following.push(0);
            self.in_order.len() as i32 - 1
        });
        self.following[self.last] = number;
        number
    }

    /// The column of one half of the subjects, for rows with these numbers.
    fn column<K: Ord + Copy>(
        &self,
        rows: &Int32Array,
        half: impl Fn(&Subject) -> K,
        name: impl Fn(K) -> String,
    ) -> ArrayRef {
        let halves = dictionary_of(self.in_order.iter().map(half), name);
        take(&halves, rows, None).expect("every row has the number of a subject")
    }
}

/// The samples of a run, a column each.
#[derive(Debug)]
pub struct Series {
    time_us: Vec<f64>,
    /// The number of the row's subject.
    subject: Vec<i32>,
    value: Vec<f64>,
    subjects: Subjects,
    /// Rows that are kept.
    limit: usize,
    /// When the first row beyond the limit came.
    full: Option<Time>,
    file: Option<(TableWriter, usize)>,
}

impl Series {
    /// Keeps up to `limit` rows.
    pub fn in_memory(limit: usize) -> Series {
        Series {
            time_us: Vec::new(),
            subject: Vec::new(),
            value: Vec::new(),
            subjects: Subjects::default(),
            limit,
            full: None,
            file: None,
        }
    }

    /// Keeps up to `limit` rows, and writes them to `folder` if there is one.
    ///
    /// # Errors
    /// If the file cannot be begun.
    pub fn begin(folder: Option<&ResultsFolder>, names: &Names, limit: usize) -> Result<Series, RunError> {
        let mut series = Series::in_memory(limit);
        let schema = series.part(0..0, names).schema();
        series.file = folder.map(|folder| Ok((folder.begin_table(FILE, schema)?, 0))).transpose()?;
        Ok(series)
    }

    /// Adds samples, in the order of their times.
    pub fn add(&mut self, samples: &[Sample]) {
        let room = self.limit - self.value.len();
        if let Some(first) = samples.get(room) {
            self.full.get_or_insert(first.time);
        }
        let kept = samples.iter().take(room);
        self.time_us.extend(kept.clone().map(|sample| sample.time.as_us_f64()));
        self.value.extend(kept.clone().map(|sample| sample.value));
        let subjects = &mut self.subjects;
        self.subject.extend(kept.map(|sample| subjects.number((sample.metric, sample.entity))));
    }

    /// Writes what makes whole row groups.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_parts(&mut self, names: &Names) -> std::io::Result<()> {
        self.write(names, PART)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_rest(&mut self, names: &Names) -> std::io::Result<()> {
        self.write(names, 1)
    }

    fn write(&mut self, names: &Names, least: usize) -> std::io::Result<()> {
        let Some((mut file, mut written)) = self.file.take() else { return Ok(()) };
        while self.value.len() - written >= least {
            let end = self.value.len().min(written + PART);
            file.write(&self.part(written..end, names))?;
            written = end;
        }
        self.file = Some((file, written));
        Ok(())
    }

    /// The file, to be put in its place.
    pub fn take_file(&mut self) -> Option<TableWriter> {
        self.file.take().map(|(file, _)| file)
    }

    /// When rows began to be left out.
    pub fn full(&self) -> Option<Time> {
        self.full
    }

    fn part(&self, rows: std::ops::Range<usize>, names: &Names) -> RecordBatch {
        let [time, value] = [&self.time_us, &self.value].map(|column| column[rows.clone()].to_vec());
        self.columns(time, self.subject[rows].to_vec(), value, names).batch()
    }

    fn columns(&self, time: Vec<f64>, subject: Vec<i32>, value: Vec<f64>, names: &Names) -> Columns {
        let subject = Int32Array::from(subject);
        columns! {
            /// When the sample was taken
            time_us = Arc::new(Float64Array::from(time));
            /// See below
            metric = self.subjects.column(&subject, |of| of.0, |metric| metric_name(metric).to_owned());
            /// What the sample is of
            entity = self.subjects.column(&subject, |of| of.1, |entity| names.entity(entity));
            /// See below
            value = Arc::new(Float64Array::from(value));
        }
    }

    /// The whole table: a row a sample.
    pub fn into_columns(mut self, names: &Names) -> Columns {
        let [time, value] = [&mut self.time_us, &mut self.value].map(std::mem::take);
        let subject = std::mem::take(&mut self.subject);
        self.columns(time, subject, value, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manifest, read_table};
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type};
    use pauseframe_topology::{Channel, NodeKind, Topology};
    use pauseframe_units::{BitRate, PortId, Priority, Span};

    fn topology() -> Topology {
        let mut topology = Topology::new();
        let [a, b] = ["s", "t"].map(|name| topology.add_node(name, NodeKind::Switch, None));
        topology.add_link(a, b, Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) });
        topology
    }

    fn sample(row: u64) -> Sample {
        let port = SampledEntity::PortPriority(PortId(1), Priority::new(5).unwrap());
        let (metric, entity) = if row == 0 {
            (SampledMetric::Backlog, port)
        } else {
            (SampledMetric::Alpha, SampledEntity::Flow(row as u32 % 3))
        };
        Sample { time: Time(row * 2_500_000), metric, entity, value: row as f64 }
    }

    fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
        let column = batch.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
        let column = column.downcast_dict::<StringArray>().unwrap();
        column.into_iter().map(|text| text.unwrap().to_owned()).collect()
    }

    #[test]
    fn series_name_what_they_sample() {
        let topology = topology();
        let names = Names { topology: &topology, workloads: &[], transports: &[] };
        let mut series = Series::begin(None, &names, 3).unwrap();
        series.add(&[sample(0), sample(1)]);
        series.add(&[sample(4)]);
        assert_eq!(series.full(), None);
        series.add(&[sample(5), sample(6)]);
        assert_eq!(series.full(), Some(sample(5).time));
        let batch = series.into_columns(&names).batch();
        assert_eq!(texts(&batch, "entity"), ["t:0/p5", "flow 1", "flow 1"]);
        assert_eq!(texts(&batch, "metric"), ["backlog_bytes", "alpha", "alpha"]);
        let times = batch.column_by_name("time_us").unwrap().as_primitive::<Float64Type>();
        assert_eq!(times.values(), &[0.0, 2.5, 10.0]);
    }

    /// Written in parts, with names that turn up later: the file is the table.
    #[test]
    fn the_file_is_the_table() {
        let (home, topology) = (tempfile::tempdir().unwrap(), topology());
        let names = Names { topology: &topology, workloads: &[], transports: &[] };
        let mut folder = ResultsFolder::create(home.path(), false, &Manifest::running("test", 5)).unwrap();
        let mut series = Series::begin(Some(&folder), &names, usize::MAX).unwrap();
        let (rows, step) = (2 * PART as u64 + 10, PART * 2 / 5);
        for begin in (0..rows).step_by(step) {
            series.add(&(begin..rows.min(begin + step as u64)).map(sample).collect::<Vec<_>>());
            series.write_parts(&names).unwrap();
        }
        series.write_rest(&names).unwrap();
        folder.commit_table(series.take_file().unwrap()).unwrap();
        let table = series.into_columns(&names).batch();
        let back = read_table(&home.path().join("series.parquet")).unwrap();
        assert_eq!((back.num_rows() as u64, back.schema()), (rows, table.schema()));
        assert_eq!(back.column(3), table.column(3));
        for column in ["metric", "entity"] {
            assert!(texts(&back, column) == texts(&table, column), "{column}");
        }
    }
}
