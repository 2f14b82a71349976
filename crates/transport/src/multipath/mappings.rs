//! Which data a subflow carries (data sequence mappings, RFC 8684 §3.3), and sets of data.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A run of a subflow's bytes that carries a run of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mapping {
    offset: u64,
    data: u64,
    len: u64,
}

/// The mappings of one direction of a subflow, in the order of its bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Mappings(VecDeque<Mapping>);

impl Mappings {
    /// The next bytes of the subflow, from `offset` on, carry `data`.
    pub(super) fn append(&mut self, offset: u64, data: Range<u64>) {
        let len = data.end - data.start;
        match self
            .0
            .back_mut()
            .filter(|last| last.offset + last.len == offset && last.data + last.len == data.start)
        {
            Some(last) => last.len += len,
            None => self.0.push_back(Mapping { offset, data: data.start, len }),
        }
    }

    /// Removes what lies below byte `end` of the subflow, and passes its data to `take`.
    pub(super) fn take_before(&mut self, end: u64, mut take: impl FnMut(Range<u64>)) {
        while let Some(first) = self.0.front_mut().filter(|first| first.offset < end) {
            let len = first.len.min(end - first.offset);
            take(first.data..first.data + len);
            (first.offset, first.data, first.len) = (first.offset + len, first.data + len, first.len - len);
            if first.len == 0 {
                self.0.pop_front();
            }
        }
    }

    /// Whether it carries no data.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The data at byte `offset` of the subflow, if it carries any.
    pub(super) fn data_at(&self, offset: u64) -> Option<u64> {
        let holds = |mapping: &&Mapping| (mapping.offset..mapping.offset + mapping.len).contains(&offset);
        self.0.iter().find(holds).map(|mapping| mapping.data + offset - mapping.offset)
    }
}

/// The mappings of one direction of a subflow as its receiver reads them. On the wire they travel in the DSS options of the segments; here both ends share
/// them, and the receiver asks only for bytes that have arrived.
#[derive(Default, Debug)]
pub struct MappingsOnTheWire(Mutex<Mappings>);

impl MappingsOnTheWire {
    pub(super) fn append(&self, offset: u64, data: Range<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(offset, data);
    }

    pub(super) fn take_before(&self, end: u64, take: impl FnMut(Range<u64>)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take_before(end, take);
    }
}

/// A set of data that has arrived or was acknowledged: all below `first`, and runs above it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct DataSet {
    pub(super) first: u64,
    beyond: BTreeMap<u64, u64>,
}

impl DataSet {
    /// Adds a run; returns how many of its bytes are new.
    pub(super) fn insert(&mut self, run: Range<u64>) -> u64 {
        let (mut start, mut end) = (run.start.max(self.first), run.end);
        if start >= end {
            return 0;
        }
        let mut new = end - start;
        while let Some((&from, &to)) = self.beyond.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            new -= to.min(end).saturating_sub(from.max(start));
            (start, end) = (start.min(from), end.max(to));
            self.beyond.remove(&from);
        }
        if start == self.first {
            self.first = end;
        } else {
            self.beyond.insert(start, end);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_subflow_carries_data_from_two_places() {
        let mut mappings = Mappings::default();
        mappings.append(0, 100..200);
        mappings.append(100, 200..250);
        mappings.append(150, 900..1000);
        assert_eq!(mappings.0.len(), 2, "what follows on is one mapping");
        assert_eq!(
            [0, 149, 150, 250].map(|at| mappings.data_at(at)),
            [Some(100), Some(249), Some(900), None]
        );
        let mut taken = Vec::new();
        mappings.take_before(170, |data| taken.push(data));
        assert_eq!(taken, [100..250, 900..920]);
        mappings.take_before(250, |data| taken.push(data));
        assert_eq!((taken.last(), mappings), (Some(&(920..1000)), Mappings::default()));
    }

    proptest! {
        #[test]
        fn a_set_counts_each_byte_once(runs in prop::collection::vec((0..60u64, 0..12u64), 1..40)) {
            let (mut set, mut bytes) = (DataSet::default(), [false; 80]);
            for (start, len) in runs {
                let run = start as usize..(start + len) as usize;
                let expected = bytes[run.clone()].iter().filter(|held| !**held).count() as u64;
                bytes[run].fill(true);
                prop_assert_eq!(set.insert(start..start + len), expected);
                let first = bytes.iter().position(|held| !held).unwrap_or(80) as u64;
                prop_assert_eq!(set.first, first);
                let held = set.first + set.beyond.iter().map(|(from, to)| to - from).sum::<u64>();
                prop_assert_eq!(held, bytes.iter().filter(|held| **held).count() as u64);
            }
        }
    }
}
