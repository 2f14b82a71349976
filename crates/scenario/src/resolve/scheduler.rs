//! `[switch.scheduler]`.

use super::classes::priorities;
use super::ledger::Origin;
use super::reader::Table;
use crate::spec::{EtsGroupSpec, SchedulerSpec};

pub(crate) fn scheduler(t: &mut Table) -> SchedulerSpec {
    type Reader = fn(&mut Table) -> SchedulerSpec;
    const KINDS: &[(&str, Reader)] = &[("strict", |_| SchedulerSpec::Strict), ("ets", ets)];
    let default = if t.has("groups") {
        ("ets", Origin::Computed("because it has groups".to_owned()), "\"strict\"")
    } else {
        ("strict", Origin::Default, "\"strict\"")
    };
    let doc =
        "Which priority switches and NICs serve next: the highest, or shares of the link (IEEE 802.1Qaz)";
    t.variant("kind", Some(default), KINDS, doc).map_or(SchedulerSpec::Strict, |read| read(t))
}

fn ets(t: &mut Table) -> SchedulerSpec {
    let doc = "Bandwidth groups; the priorities of none of them are strict, above all groups";
    let groups = t.rows("groups", "required", doc, |t| {
        let priorities = priorities(t, "The priorities that share this part");
        let doc = "Percent of what the strict priorities leave; all groups have 100 together";
        let share = t.required_in("share", 1..=100, doc)?;
        Some(EtsGroupSpec { priorities: priorities?, share })
    });
    if !t.is_documenting() && !t.has("groups") {
        t.check(false, "groups", || "is required: a list of tables".to_owned(), EXAMPLE);
    }
    let groups = groups.unwrap_or_default();
    let total: u32 = groups.iter().map(|group| u32::from(group.share)).sum();
    let wrong = !groups.is_empty() && total != 100;
    t.check(!wrong, "groups", || format!("the shares make {total} % together, not 100"), "");
    let all: Vec<u8> = groups.iter().flat_map(|group| group.priorities.iter().copied()).collect();
    let twice = all.iter().enumerate().find(|(i, priority)| all[..*i].contains(priority));
    let message = || format!("priority {} is named twice", twice.map_or(0, |(_, priority)| *priority));
    t.check(twice.is_none(), "groups", message, "a priority belongs to one group, or to none");
    SchedulerSpec::Ets { groups }
}

const EXAMPLE: &str = "as in groups = [{ priorities = [0], share = 40 }, { priorities = [3], share = 60 }]";
