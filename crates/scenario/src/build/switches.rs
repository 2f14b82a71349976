//! Marker, discipline, scheduler and classes of `[switch]` in the terms of the fabric.

use crate::spec::{ClassSpec, Ets, LengthSpec, MarkAt, MarkerSpec, NotEct, QueueName, SchedulerSpec, Step};
use pauseframe_fabric::{ClassSettings, EtsGroup, Marker, QueueDiscipline, Red, Scheduler, Threshold};
use pauseframe_units::Priority;

pub(super) fn marker(spec: MarkerSpec) -> Marker {
    match spec {
        MarkerSpec::None(_) => Marker::None,
        MarkerSpec::Step(Step { k, at, not_ect }) => Marker::Step {
            k: match k {
                LengthSpec::Bytes(bytes) => Threshold::Bytes(bytes),
                LengthSpec::Packets(count) => Threshold::Packets(count),
            },
            at_dequeue: at == MarkAt::Dequeue,
            drop_not_ect: not_ect == NotEct::Drop,
        },
        MarkerSpec::Red(red) => Marker::Red(Red {
            min: red.min,
            max: red.max,
            w_q: red.w_q,
            p_max: red.p_max,
            gentle: red.gentle,
            average_packet: red.average_packet,
            drop_not_ect: red.not_ect == NotEct::Drop,
        }),
    }
}

pub(super) fn queue(name: QueueName) -> QueueDiscipline {
    match name {
        QueueName::Fifo => QueueDiscipline::Fifo,
        QueueName::Pfabric => QueueDiscipline::Pfabric,
    }
}

pub(super) fn scheduler(spec: &SchedulerSpec) -> Scheduler {
    match spec {
        SchedulerSpec::Strict(_) => Scheduler::Strict,
        SchedulerSpec::Ets(Ets { groups }) => Scheduler::Ets(
            groups
                .iter()
                .map(|group| EtsGroup { priorities: priorities(&group.priorities), share: group.share })
                .collect(),
        ),
    }
}

pub(super) fn class(spec: &ClassSpec) -> ClassSettings {
    ClassSettings {
        priorities: priorities(&spec.priorities),
        marker: spec.marker.map(marker),
        queue: spec.queue.map(queue),
        alpha: spec.alpha,
        reserved: spec.reserved,
    }
}

fn priorities(code_points: &[u8]) -> Vec<Priority> {
    code_points.iter().filter_map(|code_point| Priority::new(*code_point)).collect()
}
