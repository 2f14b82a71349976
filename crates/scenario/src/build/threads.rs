//! Chooses the number of threads of a run, and gives the reason.
//!
//! Threads wait for each other after every window, so a thread that shares its core with another program
//! delays all threads: on a machine with two cores and two other programs, two threads took 1.8 times as long
//! as one. The default therefore uses at most one thread for each idle core.

use crate::run::RunOptions;
use crate::spec::{HostStack, Scenario};
use pauseframe_fabric::{self as fabric, NetworkPlan};
use pauseframe_units::Span;
use std::fs;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

/// Number of samples of the machine's load, and the interval between two samples; other programs start and
/// end within milliseconds.
const LOOKS: usize = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(3);

/// The load of the machine by other programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    /// Cores of the machine, including cores that this process may not use.
    cores: usize,
    /// Runnable threads of other programs.
    busy: usize,
}

/// The number of threads of a run, and the reason for that number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadChoice {
    threads: usize,
    pub(crate) reason: String,
    /// A warning if the run uses fewer threads than requested.
    pub(crate) warning: Option<String>,
}

/// Divides a network into one partition for each thread.
pub(super) fn divide(
    scenario: &Scenario,
    network: &mut fabric::Network,
    &RunOptions { threads, .. }: &RunOptions,
) -> ThreadChoice {
    let plan = network.network_plan();
    let choice = match (threads, network.required_reaction_time()) {
        _ if scenario.host.stack == HostStack::Kernel => {
            ThreadChoice { threads: 1, reason: "hosts share one kernel".to_owned(), warning: None }
        }
        (asked, Some(lookahead)) => reacting(asked, lookahead),
        (0, None) => automatic(plan, usable_cores(), load),
        (count, None) => self::asked(plan, count),
    };
    if choice.threads > 1 {
        let partition_of = plan.assign_nodes(choice.threads);
        network.divide_into_partitions(&partition_of);
    }
    choice
}

/// The number of threads that a network can use well.
trait Network {
    /// Number of threads that shorten a run on the given number of cores.
    fn paying(&self, cores: usize) -> usize;
    /// Maximum number of partitions of the network.
    fn most(&self) -> usize;
}

impl Network for NetworkPlan {
    fn paying(&self, cores: usize) -> usize {
        self.useful_partition_count(cores)
    }
    fn most(&self) -> usize {
        self.max_partition_count()
    }
}

/// Number of cores that this process may use: its CPU affinity, limited by the quota of its control group.
fn usable_cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// The requested number of threads, even if fewer would be faster, but at most one for each switch with hosts.
fn asked(network: &impl Network, asked: usize) -> ThreadChoice {
    let most = network.most();
    let threads = asked.min(most);
    let reason = if threads == asked { "as asked for".to_owned() } else { fewer(threads, most) };
    let warning =
        (threads < asked).then(|| format!("threads: {asked} were asked for, {threads} taken: {reason}"));
    ThreadChoice { threads, reason, warning }
}

/// One thread per idle core, or fewer if more would not help. Calls `load` only if several threads would help.
fn automatic(network: &impl Network, usable: usize, load: impl FnOnce() -> Option<Load>) -> ThreadChoice {
    let paying = network.paying(usable);
    let choice =
        |threads, reason: String| ThreadChoice { threads, reason: format!("auto: {reason}"), warning: None };
    if paying == 1 {
        return choice(1, if usable == 1 { only_core() } else { fewer(1, network.most()) });
    }
    let load = load();
    let idle = load.map_or(usable, |load| load.cores.saturating_sub(load.busy)).max(1);
    if let Some(Load { cores, busy }) = load.filter(|_| idle < paying) {
        let others =
            if busy == 1 { "thread of another program runs" } else { "threads of other programs run" };
        return choice(network.paying(idle), format!("{busy} {others} on the {cores} cores"));
    }
    if paying == usable {
        return choice(paying, format!("one for each of {usable} cores"));
    }
    choice(paying, fewer(paying, network.most()))
}

/// A single thread, for applications that answer a completion sooner than the window between two exchanges of
/// the threads.
fn reacting(asked: usize, lookahead: Span) -> ThreadChoice {
    if asked == 1 {
        return ThreadChoice { threads: 1, reason: "as asked for".to_owned(), warning: None };
    }
    let reason = format!(
        "flows or messages that depend on completions start at once; with host.reaction = \"{lookahead}\" or more they start \
         that much later, on several threads"
    );
    let warning = (asked > 1).then(|| format!("threads: {asked} were asked for, 1 taken: {reason}"));
    ThreadChoice { threads: 1, reason: if asked == 0 { format!("auto: {reason}") } else { reason }, warning }
}

fn only_core() -> String {
    "this process may use one core".to_owned()
}

fn fewer(threads: usize, most: usize) -> String {
    if threads == most {
        format!(
            "only {most} {} hosts, and a thread has at least one of them",
            if most == 1 { "switch has" } else { "switches have" }
        )
    } else {
        "more would not help in a network of this size".to_owned()
    }
}

/// The load by other programs, from proc(5): the median of a few samples. The load average is unsuitable
/// because it includes programs that ended within the last minute, such as the previous run. `None` if the
/// system does not report the load.
fn load() -> Option<Load> {
    let mut looks = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            sleep(BETWEEN_LOOKS);
        }
        looks.push(parse(&fs::read_to_string("/proc/stat").ok()?)?);
    }
    looks.sort_unstable_by_key(|load| load.busy);
    Some(looks[LOOKS / 2])
}

/// Parses the number of cores and of runnable threads from /proc/stat, without the calling thread.
fn parse(stat: &str) -> Option<Load> {
    let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running "))?;
    let running: usize = running.trim().parse().ok()?;
    Some(Load { cores: stat.lines().filter(is_core).count(), busy: running.saturating_sub(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test network that gains from up to `pays` cores and has `most` switches with hosts.
    struct Fabric {
        pays: usize,
        most: usize,
    }

    impl Network for Fabric {
        fn paying(&self, cores: usize) -> usize {
            cores.min(self.pays).min(self.most).max(1)
        }
        fn most(&self) -> usize {
            self.most
        }
    }

    const LARGE: Fabric = Fabric { pays: 32, most: 512 };

    fn chosen(network: &Fabric, usable: usize, cores: usize, busy: usize) -> (usize, String) {
        let choice = automatic(network, usable, || Some(Load { cores, busy }));
        assert_eq!(choice.warning, None, "nobody asked for a number");
        (choice.threads, choice.reason)
    }

    #[test]
    fn an_idle_machine_gives_all_its_cores() {
        assert_eq!(chosen(&LARGE, 8, 8, 0), (8, "auto: one for each of 8 cores".to_owned()));
    }

    /// The case of issue 36: beside two other programs, two threads at k = 32 took 1.8 times as long as one
    /// thread.
    #[test]
    fn busy_cores_are_left_to_others() {
        assert_eq!(
            chosen(&LARGE, 2, 2, 2),
            (1, "auto: 2 threads of other programs run on the 2 cores".to_owned())
        );
        assert_eq!(
            chosen(&LARGE, 8, 8, 1),
            (7, "auto: 1 thread of another program runs on the 8 cores".to_owned())
        );
        assert_eq!(chosen(&LARGE, 8, 8, 50).0, 1);
    }

    /// In a container with a quota of four cores on a machine with 64 cores, other containers matter only if
    /// they leave fewer than four cores idle.
    #[test]
    fn a_quota_is_all_there_is() {
        assert_eq!(chosen(&LARGE, 4, 64, 0), (4, "auto: one for each of 4 cores".to_owned()));
        assert_eq!(chosen(&LARGE, 4, 64, 50).0, 4);
        assert_eq!(chosen(&LARGE, 4, 64, 62).0, 2);
    }

    #[test]
    fn small_networks_do_not_look_at_the_machine() {
        let small = Fabric { pays: 1, most: 4 };
        let choice = automatic(&small, 8, || panic!("looks"));
        assert_eq!(
            (choice.threads, choice.reason.as_str()),
            (1, "auto: more would not help in a network of this size")
        );
        let choice = automatic(&LARGE, 1, || panic!("looks"));
        assert_eq!((choice.threads, choice.reason.as_str()), (1, "auto: this process may use one core"));
        assert_eq!(
            chosen(&Fabric { pays: 9, most: 2 }, 8, 8, 0),
            (2, "auto: only 2 switches have hosts, and a thread has at least one of them".to_owned())
        );
    }

    #[test]
    fn a_system_that_does_not_tell_counts_as_idle() {
        assert_eq!(automatic(&LARGE, 4, || None).threads, 4);
    }

    #[test]
    fn a_number_is_taken_whatever_the_machine_does() {
        let choice = asked(&LARGE, 4);
        assert_eq!((choice.threads, choice.reason.as_str(), choice.warning), (4, "as asked for", None));
        let small = Fabric { pays: 1, most: 4 };
        assert_eq!(asked(&small, 2).threads, 2);
        let choice = asked(&small, 9);
        let text = "threads: 9 were asked for, 4 taken: only 4 switches have hosts, and a thread has at least one of them";
        assert_eq!((choice.threads, choice.warning.as_deref()), (4, Some(text)));
    }

    #[test]
    fn reactions_within_a_window_stay_on_one_thread() {
        let why = "flows or messages that depend on completions start at once; with host.reaction = \"600 ns\" or more they \
                   start that much later, on several threads";
        let choice = |asked| reacting(asked, Span::from_ns(600));
        let warning = format!("threads: 4 were asked for, 1 taken: {why}");
        assert_eq!(choice(4), ThreadChoice { threads: 1, reason: why.to_owned(), warning: Some(warning) });
        assert_eq!(choice(1), ThreadChoice { threads: 1, reason: "as asked for".to_owned(), warning: None });
        assert_eq!(choice(0), ThreadChoice { threads: 1, reason: format!("auto: {why}"), warning: None });
    }

    #[test]
    fn proc_stat_tells_cores_and_what_runs() {
        let stat = "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\nctxt 7\nprocs_running 4\nprocs_blocked 1\n";
        assert_eq!(parse(stat), Some(Load { cores: 2, busy: 3 }));
        assert_eq!(parse("cpu0 1\n"), None);
        if cfg!(target_os = "linux") {
            assert!(load().is_some_and(|load| load.cores >= usable_cores()));
        }
    }
}
