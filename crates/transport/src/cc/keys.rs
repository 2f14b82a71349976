//! `transport.congestion_control` and its constants: names, keys, defaults, ranges and documentation come from the
//! registry and of its loaded plug-ins.

use super::CongestionControlConfig;
use pauseframe_plugin::{NAME_PATTERN, excuse_constants, is_plugin_loaded, load_hint, read_constants};
use pauseframe_schema::document::{Item, Value as Given};
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, choose, quoted};

use std::sync::OnceLock;

/// A name of the registry, or of a loaded plug-in.
#[derive(Clone, Copy, PartialEq)]
struct CongestionControlName(&'static str);

/// Linux's default.
const DEFAULT: CongestionControlName = CongestionControlName("cubic");

impl Setting for CongestionControlName {
    fn shape() -> Shape {
        static KIND: OnceLock<String> = OnceLock::new();
        let built_in = || CongestionControlConfig::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let kind =
            KIND.get_or_init(|| format!("one of {}, or MODULE:NAME of a plug-in", built_in().join(", ")));
        let names = CongestionControlConfig::all().into_iter().map(|(name, _)| name).collect();
        Shape::Any(kind, vec![Shape::OneOf(names), Shape::Pattern(NAME_PATTERN)])
    }
    fn read(item: &Item) -> Result<CongestionControlName, Mistake> {
        let names: Vec<_> = CongestionControlConfig::all()
            .into_iter()
            .map(|(name, _)| (name, CongestionControlName(name)))
            .collect();
        choose(item, &names).map_err(|mistake| match (&item.value, mistake.hint.as_str()) {
            (Given::Text(name), hint)
                if name.contains(':') && (hint.is_empty() || is_plugin_loaded(name)) =>
            {
                Mistake { hint: load_hint(name), ..mistake }
            }
            _ => mistake,
        })
    }
    fn toml(&self) -> String {
        quoted(self.0)
    }
}

/// Reads the congestion control and the constants of all, because a file may be run with several.
pub(crate) fn read_congestion_control(t: &mut Table, key: &'static str, _: &str) -> CongestionControlConfig {
    let all = CongestionControlConfig::all();
    let docs: Vec<_> = all.iter().map(|(_, config)| config.description_and_source()).collect();
    let doc = format!("Congestion control: {}", docs.join("; "));
    let name = t.or(key, DEFAULT, &doc);
    let named = all.iter().find(|(known, _)| *known == name.0);
    let mut chosen = named.map_or(CongestionControlConfig::NewReno, |(_, config)| *config);
    let path = t.at(key);
    if named.is_none() || t.ledger.failed(&path) {
        excuse_constants(t, key);
    }
    let algorithms: Vec<_> = all.iter().map(|(name, config)| (*name, config.constants())).collect();
    let own = chosen.name();
    read_constants(t, key, &algorithms, own, |index, value| chosen.set_constant(index, value));
    chosen
}
