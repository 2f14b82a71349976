//! Flows that wait for others: a flow starts when all flows in its `after` have finished and then its `compute` time
//! has passed.

use super::flow_list::{FlowEntry, node_by_name};
use super::maker::{Maker, at};
use pauseframe_apps::{around, circle};
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, KeptConnection, Workload};
use pauseframe_schema::value::misspelt;
use pauseframe_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// For each flow, the indices of the flows that it waits for.
type Needs = Vec<Vec<u32>>;

/// What is wrong with the order of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct Mistake {
    /// Index of the flow, and its key.
    pub flow: usize,
    /// The key: "id" or "after".
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// The remedy, or "".
    pub hint: String,
}

/// The predecessors of each flow.
///
/// # Errors
/// The first duplicate id or unknown id, or a flow that waits for itself.
pub fn needs(flows: &[FlowEntry]) -> Result<Needs, Mistake> {
    let mut by_id: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, id) in flows.iter().enumerate().filter_map(|(index, flow)| Some((index, flow.id.as_deref()?)))
    {
        if by_id.insert(id, index as u32).is_some() {
            let message = format!("id {id:?} names an earlier flow too");
            return Err(Mistake {
                flow: index,
                key: "id",
                message,
                hint: "give each flow another id".to_owned(),
            });
        }
    }
    let mut needs = Vec::with_capacity(flows.len());
    for (index, flow) in flows.iter().enumerate() {
        let find = |id: &String| {
            by_id.get(id.as_str()).copied().ok_or_else(|| Mistake {
                flow: index,
                key: "after",
                message: format!("no flow has the id {id:?} that it is after"),
                hint: misspelt(id, by_id.keys().copied()),
            })
        };
        needs.push(flow.after.iter().map(find).collect::<Result<Vec<u32>, _>>()?);
    }
    let pairs: Vec<(u32, u32)> = (0..)
        .zip(&needs)
        .flat_map(|(flow, needed)| needed.iter().map(move |&needed| (needed, flow)))
        .collect();
    match circle(flows.len(), pairs.iter()) {
        Some(found) => {
            let ids = found.iter().map(|&flow| flows[flow].id.clone().unwrap_or_default());
            Err(Mistake {
                flow: found[0],
                key: "after",
                message: format!("waits for itself: {}", around(ids, "after")),
                hint: "remove one of them".to_owned(),
            })
        }
        None => Ok(needs),
    }
}

/// The flows that wait for each flow, and the number of flows that each waits for.
fn successors(needs: &Needs) -> (Vec<Vec<u32>>, Vec<u32>) {
    let mut later = vec![Vec::new(); needs.len()];
    for (flow, needed) in (0..).zip(needs) {
        for &needed in needed {
            later[needed as usize].push(flow);
        }
    }
    (later, needs.iter().map(|needed| needed.len() as u32).collect())
}

/// The state of the list during the run.
#[derive(Debug)]
pub(crate) struct FlowDag {
    flows: Vec<FlowSpec>,
    compute: Vec<pauseframe_units::Span>,
    later: Vec<Vec<u32>>,
    open: Vec<u32>,
    /// (start, position), earliest first.
    ready: BinaryHeap<Reverse<(Time, u32)>>,
}

impl FlowDag {
    /// # Panics
    /// If the flows are invalid: `resolve` rejects such lists.
    pub(crate) fn new(entries: &[FlowEntry], maker: &Maker) -> FlowDag {
        let node = node_by_name(maker);
        // The number of a connection that is used once identifies the flow that has finished.
        let kept = |number| Some(KeptConnection { number, first: true, last: true });
        let flow = |(number, e): (u32, &FlowEntry)| {
            let start = at(e.start + e.compute);
            FlowSpec { kept: kept(number), ..maker.flow(node(&e.src), node(&e.dst), e.size, start) }
        };
        let flows: Vec<FlowSpec> = (0..).zip(entries).map(flow).collect();
        let needs = needs(entries).expect("resolve has checked what flows are after");
        let (later, open) = successors(&needs);
        let free = (0..).zip(&open).filter(|(_, open)| **open == 0);
        let ready = free.map(|(flow, _)| Reverse((flows[flow as usize].start, flow))).collect();
        let compute = entries.iter().map(|entry| entry.compute).collect();
        FlowDag { flows, compute, later, open, ready }
    }
}

impl Workload for FlowDag {
    fn next_start_time(&self) -> Option<Time> {
        self.ready.peek().map(|Reverse((start, _))| *start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        let Reverse((start, flow)) =
            self.ready.pop().expect("asked for a flow while next_start gives a time");
        FlowSpec { start, ..self.flows[flow as usize] }
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        let Some(kept) = flow.spec.kept.filter(|_| flow.status == FlowStatus::Finished) else { return };
        for &next in &self.later[kept.number as usize] {
            let open = &mut self.open[next as usize];
            *open -= 1;
            if *open == 0 {
                let start = (now + self.compute[next as usize]).max(self.flows[next as usize].start);
                self.ready.push(Reverse((start, next)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::{Bytes, Span};

    fn flow(id: &str, after: &[&str]) -> FlowEntry {
        FlowEntry {
            src: "a".to_owned(),
            dst: "b".to_owned(),
            size: Bytes(1),
            start: Span::ZERO,
            id: (!id.is_empty()).then(|| id.to_owned()),
            after: after.iter().map(|&id| id.to_owned()).collect(),
            compute: Span::ZERO,
        }
    }

    #[test]
    fn what_flows_are_after_is_checked() {
        let good = [flow("x", &["y"]), flow("y", &[]), flow("", &["x", "y"])];
        assert_eq!(needs(&good), Ok(vec![vec![1], vec![], vec![0, 1]]));
        let at = |found: Result<Needs, Mistake>| {
            found.map_err(|mistake| (mistake.flow, mistake.message)).unwrap_err()
        };
        let unknown = needs(&[flow("x", &["z"])]);
        assert_eq!(at(unknown), (0, "no flow has the id \"z\" that it is after".to_owned()));
        assert_eq!(needs(&[flow("x", &[]), flow("x", &[])]).unwrap_err().flow, 1);
        // "v" comes after a circle that it is no part of.
        let circle = needs(&[flow("v", &["w", "y"]), flow("w", &[]), flow("x", &["y"]), flow("y", &["x"])]);
        assert_eq!(at(circle), (2, "waits for itself: x after y after x".to_owned()));
        let alone = needs(&[flow("x", &["x"])]);
        assert_eq!(at(alone), (0, "waits for itself: x after x".to_owned()));
    }
}
