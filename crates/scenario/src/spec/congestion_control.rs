//! `transport.congestion_control` and the constants of each: names, keys, defaults, ranges and documentation all come
//! from the registry of `pauseframe-transport`, so a congestion control that is added there needs nothing here.

use pauseframe_schema::bounds::Bounds;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::{Choice, Setting};
use pauseframe_transport::{CongestionControlConfig, Constant, Parameter, Value};
use pauseframe_units::Span;

/// The registry's entries as names of a key.
#[derive(Clone, Copy, PartialEq)]
struct Control(&'static str);

/// What Linux has unless it is told otherwise.
const DEFAULT: Control = Control("cubic");

const COUNT: usize = CongestionControlConfig::NAMES.len();

/// The names, as the schema wants them.
const CONTROLS: [(&str, Control); COUNT] = {
    let mut controls = [("", Control("")); COUNT];
    let mut index = 0;
    while index < COUNT {
        let name = CongestionControlConfig::NAMES[index].0;
        controls[index] = (name, Control(name));
        index += 1;
    }
    controls
};

impl Choice for Control {
    const NAMES: &'static [(&'static str, Self)] = &CONTROLS;
}

/// Reads which one, and the constants of all: those of others may stand in a file that is run with several.
pub(super) fn congestion_control(t: &mut Table, key: &'static str, _: &str) -> CongestionControlConfig {
    let what = |(_, config): &(&str, CongestionControlConfig)| config.doc();
    let doc = format!(
        "Congestion control: {}",
        CongestionControlConfig::NAMES.iter().map(what).collect::<Vec<_>>().join("; ")
    );
    let name = t.or(key, DEFAULT, &doc);
    let named = CongestionControlConfig::NAMES.iter().find(|(known, _)| *known == name.0);
    let mut chosen = named.map_or(CongestionControlConfig::NewReno, |(_, config)| *config);
    let path = t.at(key);
    for (name, config) in CongestionControlConfig::NAMES {
        t.under(&format!("{path} = {name}"), |t| {
            for (index, parameter) in config.parameters().iter().enumerate() {
                let (is_chosen, is_given) = (*name == chosen.name(), t.has(parameter.key));
                if is_given && !is_chosen {
                    let key = t.at(parameter.key);
                    t.ledger.warn(format!("{key}: only congestion_control {name:?} uses it"));
                }
                let value = constant(t, parameter, is_chosen || is_given);
                assert!(!is_chosen || chosen.set(index, value), "{} is of another kind", parameter.key);
            }
        });
    }
    chosen
}

/// The value of a constant: from the file, a preset, or its default. What nobody asks for is noted, not recorded.
fn constant(t: &mut Table, parameter: &Parameter, is_asked_for: bool) -> Value {
    match parameter.default {
        Value::Number(_) => typed::<f64>(t, parameter, is_asked_for),
        Value::Count(_) => typed::<u32>(t, parameter, is_asked_for),
        Value::Flag(_) => typed::<bool>(t, parameter, is_asked_for),
        Value::Time(_) => typed::<Span>(t, parameter, is_asked_for),
    }
}

fn typed<T: Constant + Setting + PartialOrd>(
    t: &mut Table,
    parameter: &Parameter,
    is_asked_for: bool,
) -> Value {
    let &Parameter { key, doc, .. } = parameter;
    let Some(default) = T::from_value(parameter.default) else { return parameter.default };
    let range = parameter.range.and_then(|(low, high)| Some(T::from_value(low)?..=T::from_value(high)?));
    let value = match range {
        range if !is_asked_for => {
            t.unused(key, &default, range.as_ref().map(|range| range as &dyn Bounds<T>), doc);
            default
        }
        Some(range) => t.or_in(key, default, range, doc),
        None => t.or(key, default, doc),
    };
    value.value()
}
