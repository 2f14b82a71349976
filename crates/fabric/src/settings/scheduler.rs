//! `[switch.scheduler]`: how the ports of switches and hosts choose among priorities.

use super::class::read_priority_list;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{kinds, table};
use pauseframe_units::Priority;

kinds! {
    /// Which priority is served next
    pub enum Scheduler {
        "strict" => Strict(StrictPriorityScheduler);
        "ets" => Ets(Ets);
    }
    pub fn read(t);
}

table! {
    /// The highest priority goes first
    pub struct StrictPriorityScheduler as "Strict" {}
    pub fn read(t);
}

table! {
    /// Enhanced transmission selection (IEEE 802.1Qaz): the groups share what the priorities in no group leave
    #[source = "IEEE 802.1Qaz"]
    pub struct Ets {
        /// Bandwidth groups; priorities in no group are strict and precede all groups
        groups: Vec<EtsGroup> = rows("required", EtsGroup::read) => { check_ets_groups(t, &groups); };
    }
    pub fn read(t);
}

table! {
    /// A bandwidth group: priorities and their share in percent
    #[source = "IEEE 802.1Qaz"]
    pub struct EtsGroup {
        /// The priorities of the group
        priorities: Vec<Priority> = try_by(read_priority_list);
        /// Percentage of what the strict priorities leave; all groups add up to 100
        share: u8 = required_in(1..=100);
    }
    pub fn try_read(t);
}

impl Scheduler {
    /// The highest priority first.
    pub const STRICT: Scheduler = Scheduler::Strict(StrictPriorityScheduler {});

    /// Reads the table, whose kind may be left out.
    pub fn read_scheduler_table(t: &mut Table) -> Scheduler {
        let default = if t.has("groups") {
            ("ets", Origin::Computed("because it has groups".to_owned()), "\"strict\"")
        } else {
            ("strict", Origin::Default, "\"strict\"")
        };
        let doc =
            "Which priority switches and NICs serve next: the highest, or shares of the link (IEEE 802.1Qaz)";
        Scheduler::read(t, "kind", Some(default), doc).unwrap_or(Scheduler::STRICT)
    }
}

const EXAMPLE: &str = "as in groups = [{ priorities = [0], share = 40 }, { priorities = [3], share = 60 }]";

fn check_ets_groups(t: &mut Table, groups: &[EtsGroup]) {
    if !t.is_documenting() && !t.has("groups") {
        t.check(false, "groups", || "is required: a list of tables".to_owned(), EXAMPLE);
    }
    let total: u32 = groups.iter().map(|group| u32::from(group.share)).sum();
    let wrong = !groups.is_empty() && total != 100;
    t.check(!wrong, "groups", || format!("the shares make {total} % together, not 100"), "");
    let all: Vec<Priority> = groups.iter().flat_map(|group| group.priorities.iter().copied()).collect();
    let twice = all.iter().enumerate().find(|(i, priority)| all[..*i].contains(priority));
    let message = || format!("priority {} is named twice", twice.map_or_else(Priority::default, |(_, p)| *p));
    t.check(twice.is_none(), "groups", message, "a priority belongs to one group, or to none");
}
