//! `rdma_control`: a congestion control of the registry, or a plug-in with the values of its constants.

use super::ControlName;
use pauseframe_plugin::{
    LoadedPlugin, NAME_PATTERN, PluginConfig, excuse_constants, is_plugin_loaded, load_hint, loaded_plugins,
    read_constants,
};
use pauseframe_schema::document::{Item, Value as Given};
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Choice, Mistake, Setting, choose, quoted};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Which congestion control of queue pairs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RdmaControl {
    /// One of the registry.
    BuiltIn(ControlName),
    /// A plug-in that was loaded at run time.
    Plugin(&'static PluginConfig),
}

impl From<ControlName> for RdmaControl {
    fn from(name: ControlName) -> RdmaControl {
        RdmaControl::BuiltIn(name)
    }
}

impl RdmaControl {
    /// The control of that name, with default constants.
    pub fn find(name: &str) -> Option<RdmaControl> {
        let built_in = ControlName::NAMES.iter().find(|(known, _)| *known == name);
        let plugin = || rate_controls().into_iter().find(|code| code.name == name);
        built_in
            .map(|(_, control)| (*control).into())
            .or_else(|| Some(RdmaControl::Plugin(intern(&PluginConfig::new(plugin()?)))))
    }

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            RdmaControl::BuiltIn(name) => name.name(),
            RdmaControl::Plugin(config) => config.code().name,
        }
    }

    /// The control of the registry, if it is one.
    pub fn built_in(self) -> Option<ControlName> {
        if let RdmaControl::BuiltIn(name) = self { Some(name) } else { None }
    }

    /// The plug-in, if it is one.
    pub fn plugin(self) -> Option<&'static LoadedPlugin> {
        if let RdmaControl::Plugin(config) = self { Some(config.code()) } else { None }
    }

    fn property(self, built_in: fn(ControlName) -> bool, plugin: fn(&LoadedPlugin) -> bool) -> bool {
        match self {
            RdmaControl::BuiltIn(name) => built_in(name),
            RdmaControl::Plugin(config) => plugin(config.code()),
        }
    }

    /// Whether its data packets carry telemetry of switches.
    pub fn reads_telemetry(self) -> bool {
        self.property(ControlName::reads_telemetry, LoadedPlugin::reads_telemetry)
    }

    /// Whether it reacts to CNPs.
    pub fn reacts_to_cnps(self) -> bool {
        self.property(ControlName::reacts_to_cnps, LoadedPlugin::reacts_to_cnps)
    }

    /// Whether it is one of DCQCN's forms.
    pub fn is_dcqcn(self) -> bool {
        self.property(ControlName::reacts_to_cnps, |_| false)
    }

    /// Whether it limits the bytes in flight by itself.
    pub fn has_window(self) -> bool {
        self.property(ControlName::has_window, LoadedPlugin::sets_window)
    }

    /// Whether its target follows from the number of links on the path.
    pub fn follows_links(self) -> bool {
        self.property(ControlName::follows_links, |_| true)
    }

    /// Whether it is part of a transport that delivers in any order.
    pub fn is_unordered(self) -> bool {
        self.property(ControlName::is_unordered, |_| false)
    }

    /// Reads the control and the constants of all plug-ins, because a file may be run with several.
    pub fn read(t: &mut Table, key: &'static str, doc: &str) -> RdmaControl {
        let name = t.or(key, Name(ControlName::DcqcnConnectx.name()), doc);
        let path = t.at(key);
        let plugins = rate_controls();
        let chosen = plugins.iter().find(|code| code.name == name.0);
        let built_in = ControlName::NAMES.iter().find(|(known, _)| *known == name.0);
        if t.ledger.failed(&path) {
            excuse_constants(t, key);
        }
        let mut config = chosen.map(|code| PluginConfig::new(code));
        let algorithms: Vec<_> = plugins.iter().map(|code| (code.name, code.parameters)).collect();
        read_constants(t, key, &algorithms, name.0, |index, value| {
            config.as_mut().is_some_and(|config| config.set_constant(index, value))
        });
        config.map_or_else(
            || RdmaControl::BuiltIn(built_in.map_or(ControlName::None, |(_, control)| *control)),
            |config| RdmaControl::Plugin(intern(&config)),
        )
    }
}

fn rate_controls() -> Vec<&'static LoadedPlugin> {
    loaded_plugins().into_iter().filter(|code| code.is_rate_control()).collect()
}

/// Settings of queue pairs are copied into each, so they hold a reference. Equal configurations are kept once.
fn intern(config: &PluginConfig) -> &'static PluginConfig {
    static CONFIGS: Mutex<Vec<&'static PluginConfig>> = Mutex::new(Vec::new());
    let mut known = CONFIGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().find(|other| **other == config) {
        return same;
    }
    let new: &'static PluginConfig = Box::leak(Box::new(*config));
    known.push(new);
    new
}

/// A name of the registry, or of a loaded plug-in.
#[derive(Clone, Copy, PartialEq)]
struct Name(&'static str);

impl Name {
    fn all() -> Vec<(&'static str, Name)> {
        let built_in = ControlName::NAMES.iter().map(|(name, _)| *name);
        built_in
            .chain(rate_controls().into_iter().map(|code| code.name))
            .map(|name| (name, Name(name)))
            .collect()
    }
}

impl Setting for Name {
    fn shape() -> Shape {
        static KIND: OnceLock<String> = OnceLock::new();
        let built_in = || ControlName::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let kind =
            KIND.get_or_init(|| format!("one of {}, or MODULE:NAME of a plug-in", built_in().join(", ")));
        let names = Name::all().into_iter().map(|(name, _)| name).collect();
        Shape::Any(kind, vec![Shape::OneOf(names), Shape::Pattern(NAME_PATTERN)])
    }
    fn read(item: &Item) -> Result<Name, Mistake> {
        choose(item, &Name::all()).map_err(|mistake| match (&item.value, mistake.hint.as_str()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    type Property = fn(RdmaControl) -> bool;

    #[test]
    fn controls_of_the_registry_have_their_properties() {
        let dcqcn = ["dcqcn_paper", "dcqcn_connectx", "dcqcn_cx5_measured", "dcqcn_hpcc"].as_slice();
        let properties: [(&str, Property, &[&str]); 6] = [
            ("reads_telemetry", RdmaControl::reads_telemetry, &["hpcc"]),
            ("reacts_to_cnps", RdmaControl::reacts_to_cnps, dcqcn),
            ("is_dcqcn", RdmaControl::is_dcqcn, dcqcn),
            ("has_window", RdmaControl::has_window, &["swift", "hpcc", "nscc"]),
            ("follows_links", RdmaControl::follows_links, &["swift"]),
            ("is_unordered", RdmaControl::is_unordered, &["nscc"]),
        ];
        for (property, has, expected) in properties {
            let names = ControlName::NAMES.iter().map(|(name, _)| *name);
            let having: Vec<_> = names.filter(|name| RdmaControl::find(name).is_some_and(has)).collect();
            assert_eq!(having, expected, "{property}");
        }
        assert_eq!(RdmaControl::find("hpc"), None);
    }
}
