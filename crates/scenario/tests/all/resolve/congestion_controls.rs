//! Resolves every congestion control of the registry with its constants. No test names a congestion control,
//! and this crate names them only in presets.

use super::resolve_as;
use pauseframe_scenario::resolve::options;
use pauseframe_scenario::{Resolved, RunCallbackDecision, RunOptions, run};
use pauseframe_transport::{CongestionControlConfig, ConstantValue};
use std::fmt::Write;

fn text(rest: &str) -> String {
    format!(
        "stop = \"20 ms\"\n[topology]\nkind = \"dumbbell\"\nleft = 2\nright = 2\n\
         [switch]\nbuffer = \"60 KB\"\n[transport]\nstack = \"none\"\n{rest}\n[[workload]]\nkind = \"permutation\"\nsize = \"100 KB\"\n"
    )
}

fn resolved(text: &str) -> Resolved {
    resolve_as("s.toml", text, &[], None).expect("a good scenario")
}

/// Returns a value other than the default, as TOML.
fn other(default: ConstantValue, range: Option<(ConstantValue, ConstantValue)>) -> (ConstantValue, String) {
    let value = match (default, range) {
        (ConstantValue::Flag(on), _) => ConstantValue::Flag(!on),
        (_, Some((low, high))) => {
            if low == default {
                high
            } else {
                low
            }
        }
        (_, None) => panic!("a number without a range"),
    };
    let text = match value {
        ConstantValue::Number(x) => format!("{x:?}"),
        ConstantValue::Count(x) => x.to_string(),
        ConstantValue::Flag(x) => x.to_string(),
        ConstantValue::Time(x) => format!("\"{} ps\"", x.0),
    };
    (value, text)
}

#[test]
fn every_one_runs_with_every_constant_set() {
    for (name, config) in CongestionControlConfig::NAMES {
        let mut expected = *config;
        let mut lines = format!("congestion_control = \"{name}\"\n");
        for (index, parameter) in config.constants().iter().enumerate() {
            let (value, shown) = other(parameter.default, parameter.range);
            assert!(expected.set_constant(index, value));
            writeln!(lines, "{} = {shown}", parameter.key).unwrap();
        }
        let plain = resolved(&text(&format!("congestion_control = \"{name}\"\n")));
        assert_eq!(plain.scenario.transport.tcp().expect("TCP").config.congestion_control, *config);
        let set = resolved(&text(&lines));
        assert_eq!(set.scenario.transport.tcp().expect("TCP").config.congestion_control, expected, "{name}");
        assert!(set.warnings.iter().all(|warning| !warning.contains("uses it")));
        assert_eq!(resolved(&set.to_toml()).scenario, set.scenario);
        for scenario in [&plain, &set] {
            let results = run(scenario, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap();
            assert!(results.flows.num_rows() > 0, "{name}");
        }
    }
}

#[test]
fn every_constant_is_in_the_reference_under_its_name() {
    for (name, config) in CongestionControlConfig::NAMES {
        for parameter in config.constants() {
            let path = format!("transport.{}", parameter.key);
            let option = options().iter().find(|option| option.path == path).expect("documented");
            assert_eq!(
                option.when,
                format!("transport.kind = tcp and transport.congestion_control = {name}")
            );
            assert!(option.doc.starts_with(parameter.doc));
        }
    }
}

#[test]
fn a_constant_of_another_is_warned_of() {
    let resolved = resolved(&text("congestion_control = \"newreno\"\ndctcp_g = 0.5\n"));
    let warning = "transport.dctcp_g: only congestion_control \"dctcp\" uses it";
    assert!(resolved.warnings.iter().any(|found| found == warning), "{:?}", resolved.warnings);
}
