//! `transport.congestion_control` and its constants: names, keys, defaults, ranges and documentation come from the
//! registry and of its loaded plug-ins.

use super::CongestionControlConfig;
use super::parameter::{
    CongestionControlConstantType, CongestionControlConstantValue, CongestionControlParameter,
};
use pauseframe_schema::bounds::Bounds;
use pauseframe_schema::document::{Item, Value as Given};
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, choose, quoted};

use pauseframe_units::Span;
use std::sync::OnceLock;

/// A name of the registry, or of a loaded plug-in.
#[derive(Clone, Copy, PartialEq)]
struct CongestionControlName(&'static str);

/// Linux's default.
const DEFAULT: CongestionControlName = CongestionControlName("cubic");

/// "MODULE:NAME": a plug-in, loaded or not.
const PLUGIN: &str = "^[A-Za-z0-9_-]+:[A-Za-z][A-Za-z0-9_]*$";

impl Setting for CongestionControlName {
    fn shape() -> Shape {
        static KIND: OnceLock<String> = OnceLock::new();
        let built_in = || CongestionControlConfig::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let kind =
            KIND.get_or_init(|| format!("one of {}, or MODULE:NAME of a plug-in", built_in().join(", ")));
        let names = CongestionControlConfig::built_in_and_loaded_congestion_controls()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        Shape::Any(kind, vec![Shape::OneOf(names), Shape::Pattern(PLUGIN)])
    }
    fn read(item: &Item) -> Result<CongestionControlName, Mistake> {
        let names: Vec<_> = CongestionControlConfig::built_in_and_loaded_congestion_controls()
            .into_iter()
            .map(|(name, _)| (name, CongestionControlName(name)))
            .collect();
        choose(item, &names).map_err(|mistake| match (&item.value, mistake.hint.as_str()) {
            (Given::Text(name), "") if name.contains(':') => {
                Mistake { hint: hint_to_load_plugin(name), ..mistake }
            }
            _ => mistake,
        })
    }
    fn toml(&self) -> String {
        quoted(self.0)
    }
}

/// How to load the plug-in "mine:swift".
fn hint_to_load_plugin(name: &str) -> String {
    let module = name.split(':').next().unwrap_or_default();
    format!(
        "a plug-in must be loaded first: add --plugin with its file, such as {module}.py or lib{module}.so (in Python: \
         plugins=[...])"
    )
}

/// The constants of an unloaded plug-in are not further mistakes.
fn ignore_constants_of_unloaded_plugin(t: &mut Table, key: &str) {
    let item = t.item.and_then(|item| item.get(key));
    if let Some(Item { value: Given::Text(name), .. }) = item
        && let Some((_, own)) = name.split_once(':')
    {
        t.excuse(&format!("{}_", own.to_ascii_lowercase()));
    }
}

/// Reads the congestion control and the constants of all, because a file may be run with several.
pub(crate) fn read_congestion_control_and_constants(
    t: &mut Table,
    key: &'static str,
    _: &str,
) -> CongestionControlConfig {
    let all = CongestionControlConfig::built_in_and_loaded_congestion_controls();
    let docs: Vec<_> = all.iter().map(|(_, config)| config.description_and_source()).collect();
    let doc = format!("Congestion control: {}", docs.join("; "));
    let name = t.or(key, DEFAULT, &doc);
    let named = all.iter().find(|(known, _)| *known == name.0);
    let mut chosen = named.map_or(CongestionControlConfig::NewReno, |(_, config)| *config);
    let path = t.at(key);
    if named.is_none() || t.ledger.failed(&path) {
        ignore_constants_of_unloaded_plugin(t, key);
    }
    for (name, config) in &all {
        t.under(&format!("{path} = {name}"), |t| {
            for (index, parameter) in config.congestion_control_parameters().iter().enumerate() {
                let (is_chosen, is_given) = (*name == chosen.name(), t.has(parameter.key));
                if is_given && !is_chosen {
                    let key = t.at(parameter.key);
                    t.ledger.warn(format!("{key}: only congestion_control {name:?} uses it"));
                }
                let value = read_congestion_control_constant(t, parameter, is_chosen || is_given);
                assert!(
                    !is_chosen || chosen.set_constant(index, value),
                    "{} is of another kind",
                    parameter.key
                );
            }
        });
    }
    chosen
}

/// The value of a constant: from the file, a preset, or its default. Unused ones are noted, not recorded.
fn read_congestion_control_constant(
    t: &mut Table,
    parameter: &CongestionControlParameter,
    is_asked_for: bool,
) -> CongestionControlConstantValue {
    match parameter.default {
        CongestionControlConstantValue::Number(_) => read_constant_of_type::<f64>(t, parameter, is_asked_for),
        CongestionControlConstantValue::Count(_) => read_constant_of_type::<u32>(t, parameter, is_asked_for),
        CongestionControlConstantValue::Flag(_) => read_constant_of_type::<bool>(t, parameter, is_asked_for),
        CongestionControlConstantValue::Time(_) => read_constant_of_type::<Span>(t, parameter, is_asked_for),
    }
}

fn read_constant_of_type<T: CongestionControlConstantType + Setting + PartialOrd>(
    t: &mut Table,
    parameter: &CongestionControlParameter,
    is_asked_for: bool,
) -> CongestionControlConstantValue {
    let &CongestionControlParameter { key, doc, .. } = parameter;
    let Some(default) = T::from_constant_value(parameter.default) else { return parameter.default };
    let range = parameter
        .range
        .and_then(|(low, high)| Some(T::from_constant_value(low)?..=T::from_constant_value(high)?));
    let value = match range {
        range if !is_asked_for => {
            t.unused(key, &default, range.as_ref().map(|range| range as &dyn Bounds<T>), doc);
            default
        }
        Some(range) => t.or_in(key, default, range, doc),
        None => t.or(key, default, doc),
    };
    value.to_constant_value()
}
