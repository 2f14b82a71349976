//! Models, schedulers, markers and classes of switches: values from the file, origins of defaults, and
//! refused values.

use super::{GOOD, resolve_as};
use pauseframe_scenario::Resolved;
use pauseframe_scenario::spec::{
    BufferPolicy, MarkAt, MarkSpacing, Marker, QueueDiscipline, QueueLengthThreshold, Scheduler, ValueByPort,
};
use pauseframe_scenario::spec::{Ets, IdealOutputQueuedBuffer, Red, SharedBuffer, StepMarker};
use pauseframe_units::{Bytes, Priority};

fn priority(code_point: u8) -> Priority {
    Priority::new(code_point).expect("code points below 8")
}

fn good(addition: &str, overrides: &[(&str, &str)]) -> Resolved {
    resolve_as("s.toml", &format!("{GOOD}{addition}"), overrides, None)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn errors(addition: &str) -> String {
    match resolve_as("s.toml", &format!("{GOOD}{addition}"), &[], None) {
        Ok(resolved) => panic!("this was accepted:\n{}", resolved.to_toml()),
        Err(error) => error.to_string(),
    }
}

/// The value and the origin of a key.
fn explained(resolved: &Resolved, path: &str) -> (String, String) {
    let entry = resolved.explain().iter().find(|entry| entry.path == path);
    let entry = entry.unwrap_or_else(|| panic!("{path} is not there:\n{}", resolved.to_toml()));
    (entry.value.clone(), entry.origin.to_string())
}

#[test]
fn a_model_is_a_layer_of_defaults_that_says_so() {
    let resolved = good("[switch]\nmodel = \"g8264\"\n", &[]);
    let preset = |value: &str| (value.to_owned(), "preset g8264".to_owned());
    assert_eq!(explained(&resolved, "switch.buffer.policy"), preset("\"shared\""));
    assert_eq!(explained(&resolved, "switch.buffer.size"), preset("\"9 MB\""));
    assert_eq!(explained(&resolved, "switch.buffer.alpha").1, "default");
    // The file's value takes precedence over the model's; if the file sets a buffer policy, the sizes of the
    // model do not apply.
    let resolved = good("[switch]\nmodel = \"g8264\"\nbuffer.size = \"5 MB\"\n", &[]);
    assert_eq!(explained(&resolved, "switch.buffer.size"), ("\"5 MB\"".into(), "file".into()));
    assert!(matches!(
        resolved.scenario.switch.buffer,
        BufferPolicy::Shared(SharedBuffer { size: Bytes(5_000_000), .. })
    ));
    let resolved = good("[switch]\nmodel = \"g8264\"\nbuffer.policy = \"per_port\"\n", &[]);
    assert_eq!(explained(&resolved, "switch.buffer.size"), ("\"225 KB\"".into(), "default".into()));
}

/// Every switch model is runnable: its row sets existing keys to valid values.
#[test]
fn all_models_are_sound() {
    for model in pauseframe_scenario::switch_models::MODELS {
        let text = format!("[switch]\nmodel = \"{}\"\npfc = true\n", model.name);
        let resolved = good(&text, &[]);
        for value in model.row {
            let (_, origin) = explained(&resolved, &format!("switch.{}", value.key));
            assert_eq!(origin, format!("preset {}", model.name), "{}", value.key);
        }
        assert!(model.row.iter().all(|value| !value.source.is_empty()));
        let again = resolve_as("s.toml", &resolved.to_toml(), &[], None).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.scenario, resolved.scenario);
    }
}

#[test]
fn schedulers_markers_and_classes_are_read() {
    let text = "[switch]\nqueue = \"pfabric\"\nscheduler.groups = [{ priorities = [0, 1], share = 40 }, { priorities = [3], share \
                = 60 }]\n[switch.marker]\nkind = \"red\"\n[switch.classes.rdma]\npriorities = [3]\nqueue = \"fifo\"\nmarker.k \
                = \"20 packets\"\n[switch.buffer]\npolicy = \"ideal_output_queued\"\n";
    let resolved =
        good(text, &[("switch.scheduler.groups.0.share", "30"), ("switch.scheduler.groups.1.share", "70")]);
    let switch = &resolved.scenario.switch;
    let Scheduler::Ets(Ets { groups }) = &switch.scheduler else { panic!("{:?}", switch.scheduler) };
    assert_eq!(
        (groups[0].priorities.as_slice(), groups[0].share, groups[1].share),
        ([0, 1].map(priority).as_slice(), 30, 70)
    );
    // The thresholds of cee Table I; otherwise as switches have it.
    let Marker::Red(Red { min, max, w_q, p_max, at, spacing, .. }) = &switch.marker else {
        panic!("{:?}", switch.marker)
    };
    assert_eq!((min, max), (&ValueByPort::All(Bytes(25_600)), &ValueByPort::All(Bytes(76_800))));
    assert!((w_q - 1.0).abs() < 1e-12 && *p_max == ValueByPort::All(0.02));
    assert_eq!((*at, *spacing), (MarkAt::Dequeue, MarkSpacing::Geometric));
    let (name, class) = &switch.classes[0];
    assert_eq!(
        (name.as_str(), class.priorities.as_slice(), class.queue),
        ("rdma", [priority(3)].as_slice(), Some(QueueDiscipline::Fifo))
    );
    let Some(Marker::StepMarker(StepMarker { k, .. })) = &class.marker else { panic!("{:?}", class.marker) };
    assert_eq!(*k, ValueByPort::All(QueueLengthThreshold::Packets(20)));
    assert_eq!(
        switch.buffer,
        BufferPolicy::IdealOutputQueued(IdealOutputQueuedBuffer { size: Bytes(100_000) })
    );
    // A sweep can set keys of a class like any other key, and an override alone can create a class.
    let resolved =
        good("", &[("switch.classes.bulk.priorities", "[1]"), ("switch.classes.bulk.marker.k", "9 KB")]);
    assert_eq!(explained(&resolved, "switch.classes.bulk.marker.k"), ("\"9 KB\"".into(), "--set".into()));
}

#[test]
fn a_dscp_gives_the_priority() {
    let text = "[switch]\npriority_of_dscp = [[10, 5]]\n[transport]\ndscp = 10\n";
    let resolved = good(text, &[]);
    let why = ("5".to_owned(), "computed: switch.priority_of_dscp for DSCP 10".to_owned());
    assert_eq!(explained(&resolved, "transport.priority"), why);
    assert_eq!(resolved.scenario.transport.priority, priority(5));
    // A packet with another DSCP keeps its previous priority.
    assert_eq!(good(text, &[("transport.dscp", "11")]).scenario.transport.priority, priority(0));
    assert_eq!(
        errors(&format!("{text}priority = 2\n")),
        "s.toml:14: transport.priority: 2, but switch.priority_of_dscp gives DSCP 10 priority 5; leave one of them out"
    );
    // A lossy transport that its DSCP puts into a lossless priority.
    let lossless = errors("[switch]\npriority_of_dscp = [[0, 3]]\npfc = { priorities = [3] }\n");
    assert!(
        lossless.contains("transport.priority: 3 is a lossless priority, but the transport is lossy"),
        "{lossless}"
    );
}

/// judd's remedy: the marker of the DCTCP class drops TCP without ECN only if TCP is in that class.
#[test]
fn warnings_are_about_the_marker_of_the_transports_own_class() {
    let shared = "[switch]\nmarker = { k = \"20 KB\", not_ect = \"drop\" }\n";
    assert_eq!(good(shared, &[]).warnings.len(), 1);
    let own = "[switch.classes.dctcp]\npriorities = [1]\nmarker = { k = \"20 KB\", not_ect = \"drop\" }\n";
    let unused = "switch.classes.dctcp: nothing is sent in its priorities: it changes nothing";
    assert_eq!(good(own, &[]).warnings, [unused]);
}

/// A marker drops a packet without ECN only on arrival, only if the marker does not queue the packet, and
/// only if the packet is lossy.
#[test]
fn a_marker_that_drops_nothing_is_not_said_to_drop() {
    let told = |addition: &[(&str, &str)]| {
        let newreno = [("switch.marker.k", "20 KB"), ("transport.preset", "newreno")];
        let drop = [("switch.marker.not_ect", "drop")];
        good("", &[&newreno[..], &drop, addition].concat()).warnings
    };
    let drops = "transport \"default\" has no ECN: switch.marker drops its packets above a backlog of 20 KB";
    assert_eq!(told(&[]), [drops]);
    let unheeded = "switch.marker: nothing that passes it is ECN-capable: it marks nothing";
    assert_eq!(told(&[("switch.marker.not_ect", "queue")]), [unheeded]);
    let idle = "switch.marker.not_ect: it changes nothing: at is \"dequeue\", where every packet passes";
    assert_eq!(told(&[("switch.marker.at", "dequeue")]), [idle, unheeded]);
    assert_eq!(told(&[("transport.lossless", "true")]), [unheeded]);
}

#[test]
fn mistakes_are_named() {
    let text = "[switch]\nmodel = \"g8265\"\nqueue = \"lifo\"\npriority_of_dscp = [[64, 1]]\n\
                scheduler.groups = [{ priorities = [0], share = 40 }, { priorities = [0], share = 50 }]\n\
                [switch.marker]\nkind = \"red\"\nmin = \"80 KB\"\nw_q = 0\n\
                [switch.classes.a]\npriorities = [1, 8]\nalpha = 1.0\n[switch.classes.b]\npriorities = [1]\nmarker.k = \"0 packets\"\n";
    assert_eq!(
        errors(text),
        "s.toml:11: switch.model: \"g8265\" is not one of none, g8264, triumph, scorpion, cat4948, trident2, s6100, \
         arista_7050cx3, msn2700; did you mean \"g8264\"?\n\
         s.toml:12: switch.queue: \"lifo\" is not one of fifo, pfabric, trim, codel, fq_codel; did you mean \"fifo\"?\n\
         s.toml:13: switch.priority_of_dscp: [64, 1]: a DSCP is 0 to 63, a priority 0 to 7\n\
         s.toml:14: switch.scheduler.groups: the shares make 90 % together, not 100\n\
         s.toml:17: switch.marker.min: 80 KB is above max (76.8 KB); lower it, or raise max\n\
         s.toml:18: switch.marker.w_q: 0 is not above 0 and at most 1\n\
         s.toml:20: switch.classes.a.priorities: element 1: 8 is outside 0 to 7\n\
         s.toml:21: switch.classes.a.alpha: has no meaning: switch.buffer.policy is not \"shared\"; leave it out, or \
         share the buffer\n\
         s.toml:24: switch.classes.b.marker.k: it is outside 1 B to 4 GB, and 1 packet or more"
    );
    let twice = "[switch.classes.a]\npriorities = [1]\n[switch.classes.b]\npriorities = [1]\n";
    assert!(errors(twice).contains(
        "switch.classes.b.priorities: switch.classes.a has some of them too; a priority belongs to one class at most"
    ));
    let groups = "[switch.scheduler]\nkind = \"ets\"\ngroups = []\n";
    assert!(errors(groups).contains("switch.scheduler.groups: [] shares the link"), "{}", errors(groups));
    let twice = "[switch]\nscheduler.groups = [{ priorities = [0, 1], share = 40 }, { priorities = [1], share = 60 }]\n";
    assert!(errors(twice).contains("priority 1 is named twice; a priority belongs to one group, or to none"));
    let pool = "[switch]\nbuffer = { policy = \"shared\", size = \"1 MB\", egress_pool = \"1 MB\" }\n";
    assert!(errors(pool).contains("switch.buffer.egress_pool: 1 MB is not below size (1 MB); lower it"));
}

/// Thresholds and buffers follow the rates and delays of the links, whatever the transports are.
#[test]
fn defaults_of_switches_follow_the_links() {
    for (rate, delay, k, size) in [
        ("1 Gbps", "1 us", "\"22.5 KB\"", "\"225 KB\""),
        ("10 Gbps", "1 us", "\"22.5 KB\"", "\"225 KB\""),
        ("25 Gbps", "1 us", "\"56.25 KB\"", "\"250 KB\""),
        ("40 Gbps", "1 us", "\"90 KB\"", "\"375 KB\""),
        ("100 Gbps", "1 us", "\"225 KB\"", "\"1 MB\""),
        ("400 Gbps", "1 us", "\"900 KB\"", "\"2 MB\""),
        ("400 Gbps", "10 us", "\"900 KB\"", "\"2.098 MB\""),
    ] {
        for preset in ["cubic", "dctcp", "tcp_bolt", "roce_dcqcn"] {
            let links = [("topology.link.rate", rate), ("topology.link.delay", delay)];
            let resolved = good("", &[&links[..], &[("transport.preset", preset)]].concat());
            let values = ["switch.marker.k", "switch.buffer.size"].map(|path| explained(&resolved, path).0);
            assert_eq!(values, [k.to_owned(), size.to_owned()], "{rate} {delay} {preset}");
        }
    }
    let text = GOOD.replace("kind = \"star\"\nhosts = 4", "kind = \"dumbbell\"\nleft = 2\nright = 2");
    let mixed = resolve_as("s.toml", &text, &[("topology.fabric_link.rate", "100 Gbps")], None).unwrap();
    let (k, why) = explained(&mixed, "switch.marker.k");
    assert_eq!(k, "{ \"10 Gbps\" = \"22.5 KB\", \"100 Gbps\" = \"225 KB\" }");
    assert!(why.contains("in proportion to the rate"), "{why}");
}
