//! Packed records of all flows: a run may have millions, and most fields of most records are zero.

use crate::flow::{FlowRecord, FlowSpec, FlowStatus};
use pauseframe_units::{NodeId, Span, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// From this number on flows are the queue pairs of messages that use several, or subflows of MPTCP; they are in no table, and their flow has their counts.
pub(crate) const FIRST_PART: u32 = 1 << 30;
/// The endpoint key of frames that belong to no flow.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// The records of all flows, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct FlowRecords {
    slots: Vec<PackedOrFullFlowRecord>,
    /// From the number [`FIRST_PART`] on: queue pairs or subflows of flows that have several, and the flow of each.
    parts: Vec<PackedOrFullFlowRecord>,
    flow_of_part: Vec<u32>,
    /// By flow with several queue pairs or subflows: their numbers.
    parts_of_flow: BTreeMap<u32, Range<u32>>,
    /// Records that do not fit the packed form.
    whole: Vec<FlowRecord>,
}

#[derive(Clone, Debug)]
enum PackedOrFullFlowRecord {
    Packed(PackedFlowRecord),
    /// Position in `whole`.
    Whole(u32),
}

const _: () = assert!(size_of::<PackedOrFullFlowRecord>() <= 72, "a million flows take 72 MB");

/// A record with small counts whose other fields have default values.
#[derive(Clone, Debug)]
struct PackedFlowRecord {
    size: u64,
    start: Time,
    end: Time,
    delivered: u64,
    ideal: Span,
    /// `Time::MAX` for none.
    connected: Time,
    source: NodeId,
    destination: NodeId,
    /// `u32::MAX` for none.
    query: u32,
    transport: u16,
    workload: u16,
    ce_packets: u16,
    retransmits: u16,
    timeouts: u8,
    loss_probes: u8,
    status: FlowStatus,
}

impl PackedFlowRecord {
    /// Packs a record with truncation. The record fits if [`PackedFlowRecord::unpack`] returns it unchanged.
    fn pack_truncated(record: &FlowRecord) -> PackedFlowRecord {
        let spec = &record.spec;
        PackedFlowRecord {
            size: spec.size,
            start: spec.start,
            end: record.end,
            delivered: record.delivered,
            ideal: record.ideal,
            connected: record.connected.unwrap_or(Time::MAX),
            source: spec.source,
            destination: spec.destination,
            query: spec.query.unwrap_or(u32::MAX),
            transport: spec.transport,
            workload: spec.workload,
            ce_packets: record.ce_packets as u16,
            retransmits: record.retransmits as u16,
            timeouts: record.timeouts as u8,
            loss_probes: record.loss_probes as u8,
            status: record.status,
        }
    }

    fn unpack(&self) -> FlowRecord {
        let spec = FlowSpec {
            start: self.start,
            transport: self.transport,
            workload: self.workload,
            query: (self.query != u32::MAX).then_some(self.query),
            ..FlowSpec::new(self.source, self.destination, self.size)
        };
        FlowRecord {
            status: self.status,
            delivered: self.delivered,
            retransmits: u32::from(self.retransmits),
            timeouts: u32::from(self.timeouts),
            loss_probes: u32::from(self.loss_probes),
            ce_packets: u64::from(self.ce_packets),
            connected: (self.connected != Time::MAX).then_some(self.connected),
            ..FlowRecord::new(spec, self.ideal, self.end)
        }
    }
}

impl FlowRecords {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the table has no records.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The record of a flow.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn flow_record(&self, flow: u32) -> FlowRecord {
        self.unpack(self.slot(flow))
    }

    fn slot(&self, flow: u32) -> &PackedOrFullFlowRecord {
        if flow < FIRST_PART { &self.slots[flow as usize] } else { &self.parts[(flow - FIRST_PART) as usize] }
    }

    /// Appends the records of the queue pairs or subflows of a flow, and returns their numbers.
    pub(crate) fn push_parts(&mut self, flow: u32, parts: &[FlowRecord]) -> Range<u32> {
        let first = FIRST_PART + self.parts.len() as u32;
        for record in parts {
            let slot = self.pack(record);
            self.parts.push(slot);
            self.flow_of_part.push(flow);
        }
        let numbers = first..first + parts.len() as u32;
        self.parts_of_flow.insert(flow, numbers.clone());
        numbers
    }

    /// The flow of a queue pair or subflow that is one of several; otherwise the same number.
    pub(crate) fn flow_of(&self, number: u32) -> u32 {
        number.checked_sub(FIRST_PART).map_or(number, |part| self.flow_of_part[part as usize])
    }

    /// The numbers under which a flow's packets travel: those of its queue pairs or subflows if it has several, otherwise its own.
    pub(crate) fn carriers(&self, flow: u32) -> Range<u32> {
        self.parts_of_flow.get(&flow).cloned().unwrap_or(flow..flow + 1)
    }

    /// The numbers under which packets of all flows travel.
    pub(crate) fn all_carriers(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).flat_map(|flow| self.carriers(flow))
    }

    /// The records of some flows, in the order of their numbers.
    ///
    /// # Panics
    /// If there are fewer flows.
    pub fn range(&self, flows: Range<usize>) -> impl Iterator<Item = FlowRecord> + Clone {
        self.slots[flows].iter().map(|slot| self.unpack(slot))
    }

    /// All records, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = FlowRecord> + Clone {
        self.range(0..self.len())
    }

    /// Appends a record under the next number.
    pub fn push(&mut self, record: &FlowRecord) {
        let slot = self.pack(record);
        self.slots.push(slot);
    }

    /// Changes the record of a flow.
    pub(crate) fn update<R>(&mut self, flow: u32, change: impl FnOnce(&mut FlowRecord) -> R) -> R {
        let mut record = match self.slot(flow) {
            PackedOrFullFlowRecord::Whole(index) => {
                let index = *index as usize;
                return change(&mut self.whole[index]);
            }
            PackedOrFullFlowRecord::Packed(packed) => packed.unpack(),
        };
        let result = change(&mut record);
        let packed = self.pack(&record);
        match flow.checked_sub(FIRST_PART) {
            Some(part) => self.parts[part as usize] = packed,
            None => self.slots[flow as usize] = packed,
        }
        result
    }

    /// Sets the end of all flows that still run.
    pub(crate) fn end_running_flows(&mut self, now: Time) {
        for slot in &mut self.slots {
            let (status, end) = match slot {
                PackedOrFullFlowRecord::Packed(packed) => (packed.status, &mut packed.end),
                PackedOrFullFlowRecord::Whole(index) => {
                    let record = &mut self.whole[*index as usize];
                    (record.status, &mut record.end)
                }
            };
            if status == FlowStatus::Running {
                *end = now;
            }
        }
    }

    fn unpack(&self, slot: &PackedOrFullFlowRecord) -> FlowRecord {
        match slot {
            PackedOrFullFlowRecord::Packed(packed) => packed.unpack(),
            PackedOrFullFlowRecord::Whole(index) => self.whole[*index as usize],
        }
    }

    fn pack(&mut self, record: &FlowRecord) -> PackedOrFullFlowRecord {
        let packed = PackedFlowRecord::pack_truncated(record);
        if packed.unpack() == *record {
            return PackedOrFullFlowRecord::Packed(packed);
        }
        self.whole.push(*record);
        PackedOrFullFlowRecord::Whole(self.whole.len() as u32 - 1)
    }
}

impl FromIterator<FlowRecord> for FlowRecords {
    fn from_iter<I: IntoIterator<Item = FlowRecord>>(records: I) -> FlowRecords {
        let mut all = FlowRecords::default();
        records.into_iter().for_each(|record| all.push(&record));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{KeptConnection, StorageOperation};
    use pauseframe_transport::ConnectionFailure;
    use proptest::prelude::*;

    fn zero() -> FlowRecord {
        let spec = FlowSpec { start: Time(5), ..FlowSpec::new(NodeId(1), NodeId(2), 1000) };
        FlowRecord::new(spec, Span(7), Time(5))
    }

    /// Sets a field, by number, to a value that may or may not fit.
    fn set(record: &mut FlowRecord, field: u8, value: u64) {
        let FlowRecord { spec, .. } = record;
        let few = value as u32;
        match field {
            0 => spec.size = value,
            1 => spec.reply = value,
            2 => spec.reply_delay = Span(value),
            3 => spec.stop = Some(Time(value)),
            4 => spec.query = Some(few),
            5 => spec.kept = Some(KeptConnection { number: few, first: true, last: value.is_multiple_of(2) }),
            6 => {
                record.status =
                    if value.is_multiple_of(2) { FlowStatus::Finished } else { FlowStatus::Stopped }
            }
            7 => record.end = Time(value),
            8 => record.delivered = value,
            9 => record.retransmits = few,
            10 => record.timeouts = few,
            11 => record.loss_probes = few,
            12 => record.of_reply.timeouts = few,
            13 => record.undone = few,
            14 => record.ce_packets = value,
            15 => record.datagrams.lost = value,
            16 => record.rdma.cnps_sent = value,
            17 => record.connected = Some(Time(value)),
            18 => spec.operation = Some(StorageOperation::Read),
            _ => record.failure = Some(ConnectionFailure::SynTimeout),
        }
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were_set(
            changes in prop::collection::vec((0..4u32, 0..20u8, prop_oneof![0..300u64, 65_530..65_540u64, any::<u64>(), Just(u64::MAX)]), 1..60),
        ) {
            let mut expected = vec![zero(); 4];
            let mut records: FlowRecords = expected.iter().copied().collect();
            for (flow, field, value) in changes {
                set(&mut expected[flow as usize], field, value);
                records.update(flow, |record| set(record, field, value));
                prop_assert_eq!(records.flow_record(flow), expected[flow as usize]);
            }
            prop_assert_eq!(records.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(records.range(1..3).collect::<Vec<_>>(), &expected[1..3]);
            for record in expected.iter_mut().filter(|record| record.status == FlowStatus::Running) {
                record.end = Time(99);
            }
            records.end_running_flows(Time(99));
            prop_assert_eq!(records.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn usual_flows_are_packed() {
        let mut records: FlowRecords = [zero(); 3].into_iter().collect();
        records.update(0, |record| {
            (record.status, record.end, record.delivered) = (FlowStatus::Finished, Time(500), 1000);
            (record.connected, record.ce_packets, record.retransmits) = (Some(Time(90)), 12, 3);
            (record.timeouts, record.loss_probes, record.spec.query) = (1, 2, Some(40));
        });
        assert_eq!((records.len(), records.whole.len()), (3, 0));
        // A flow that no longer fits takes one place, however often it changes.
        for lost in 1..5 {
            records.update(1, |record| record.datagrams.lost = lost);
        }
        assert_eq!(records.whole.len(), 1);
    }
}
