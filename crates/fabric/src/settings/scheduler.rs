//! `[switch.scheduler]`: how the ports of switches and hosts choose among priorities.
//!
//! The default is that of the switches that RoCE runs on: weighted round robin among the priorities of data, those of control strictly first.

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
        #[source = "SONiC: DWRR, weight 14 for lossy queues and 15 for queues 3 and 4; Cumulus: CNPs strict"]
        groups: Vec<EtsGroup> = by(groups_or_default);
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

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler::Ets(Ets { groups: default_groups() })
    }
}

impl Scheduler {
    /// The highest priority first.
    pub const STRICT: Scheduler = Scheduler::Strict(StrictPriorityScheduler {});

    /// Reads the table, whose kind may be left out.
    pub fn read_table(t: &mut Table) -> Scheduler {
        let doc =
            "Which priority switches and NICs serve next: the highest, or shares of the link (IEEE 802.1Qaz)";
        Scheduler::read(t, "kind", Some(("ets", Origin::Default, "\"ets\"")), doc)
            .unwrap_or(Scheduler::STRICT)
    }

    /// The bandwidth groups that have a priority of `priorities`; empty if these are served like strict ones: none is in a group, or one alone and it
    /// is the lowest.
    pub(crate) fn groups_in_use(&self, priorities: &[Priority]) -> Vec<&EtsGroup> {
        let Scheduler::Ets(Ets { groups }) = self else { return Vec::new() };
        let is_used = |group: &&EtsGroup| group.priorities.iter().any(|p| priorities.contains(p));
        let in_use: Vec<&EtsGroup> = groups.iter().filter(is_used).collect();
        let is_grouped = |p: &&Priority| in_use.iter().any(|group| group.priorities.contains(p));
        let mut grouped = priorities.iter().filter(is_grouped);
        match (grouped.next(), grouped.next()) {
            (Some(only), None) if priorities.iter().min() == Some(only) => Vec::new(),
            _ => in_use,
        }
    }
}

const EXAMPLE: &str = "as in groups = [{ priorities = [0], share = 40 }, { priorities = [3], share = 60 }]";

/// Percentage of each priority of data by default; CNPs, CNMs and the like have 6 and 7, which are strict.
const DEFAULT_SHARES: [u8; 6] = [16, 16, 16, 18, 18, 16];

fn default_groups() -> Vec<EtsGroup> {
    let group = |(code, share)| Some(EtsGroup { priorities: vec![Priority::new(code)?], share });
    (0..).zip(DEFAULT_SHARES).filter_map(group).collect()
}

fn groups_or_default(t: &mut Table, key: &'static str, doc: &str) -> Vec<EtsGroup> {
    const RULE: &str = "16 % for each of 0, 1, 2 and 5, 18 % for each of 3 and 4; 6 and 7 are strict";
    let is_given = t.has(key);
    let groups = t.rows(key, RULE, doc, EtsGroup::read).unwrap_or_default();
    if !is_given {
        return default_groups();
    }
    t.check(!groups.is_empty(), key, || "[] shares the link among nobody".to_owned(), EXAMPLE);
    check_ets_groups(t, &groups);
    groups
}

fn check_ets_groups(t: &mut Table, groups: &[EtsGroup]) {
    let total: u32 = groups.iter().map(|group| u32::from(group.share)).sum();
    let wrong = !groups.is_empty() && total != 100;
    t.check(!wrong, "groups", || format!("the shares make {total} % together, not 100"), "");
    let all: Vec<Priority> = groups.iter().flat_map(|group| group.priorities.iter().copied()).collect();
    let twice = all.iter().enumerate().find(|(i, priority)| all[..*i].contains(priority));
    let message = || format!("priority {} is named twice", twice.map_or_else(Priority::default, |(_, p)| *p));
    t.check(twice.is_none(), "groups", message, "a priority belongs to one group, or to none");
}
