//! `[plugins]`: files of congestion controls that are not built in.
//!
//! Reading a scenario loads nothing: a plug-in is a program, so only the command line (or the caller in Python) loads
//! it. The table lists the plug-ins that must be loaded, and their versions.

use super::{Scenario, TransportSpec};
use pauseframe_plugin::{LoadedPlugin, PluginSource, loaded_plugins};
use pauseframe_results::PluginRecord;
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use pauseframe_transport::CongestionControlConfig;
use std::path::Path;

/// Plug-ins that a scenario needs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PluginsSpec {
    /// Their files.
    pub files: Vec<String>,
    /// SHA-256 of each, or empty.
    pub sha256: Vec<String>,
}

impl PluginsSpec {
    /// Reads the table.
    pub(crate) fn read(t: &mut Table) -> PluginsSpec {
        t.about(
            "Plugins",
            "Files of congestion controls that the scenario needs; loaded only if the command line allows it",
        );
        let files = "Python files or shared libraries with congestion controls; the command line must load them: --plugin \
                     FILE, or --allow-plugins for all of these";
        let files = t.source::<Vec<String>>("files", "none", files).unwrap_or_default();
        let sha256 = "SHA-256 of each of files; other content is an error";
        let sha256 = t.source::<Vec<String>>("sha256", "not checked", sha256).unwrap_or_default();
        PluginsSpec { files, sha256 }
    }

    /// Checks that all are loaded with the right content, and records those that `transports` use.
    pub(crate) fn settle<'s>(
        &self,
        ledger: &mut Ledger,
        transports: impl Iterator<Item = &'s TransportSpec>,
    ) {
        let known = loaded_plugins();
        if !self.sha256.is_empty() && self.sha256.len() != self.files.len() {
            let message = format!("has {} values for {} files", self.sha256.len(), self.files.len());
            ledger.problem("plugins.sha256", message, "leave it out, or give one for each of plugins.files");
            return;
        }
        for (index, file) in self.files.iter().enumerate() {
            match known.iter().find(|code| is_same_file(&code.source.file, file)) {
                None => refuse(ledger, file),
                Some(code) => check_digest(ledger, file, code, self.sha256.get(index)),
            }
        }
        // A plug-in whose constants are given must be loaded to read the scenario, even if another one is chosen.
        let is_read = |code: &&LoadedPlugin| code.parameters.iter().any(|one| ledger.has_key(one.key));
        let read: Vec<_> = known.iter().copied().filter(is_read).collect();
        let used = transports.filter_map(plugin_of);
        let mut all: Vec<(String, String)> = Vec::new();
        let named = known
            .iter()
            .copied()
            .filter(|code| self.files.iter().any(|file| is_same_file(&code.source.file, file)));
        for code in named.chain(read).chain(used) {
            let entry = (file_name(&code.source.file).to_owned(), code.source.sha256.clone());
            if !all.contains(&entry) {
                all.push(entry);
            }
        }
        if all.is_empty() {
            return;
        }
        let (files, sha256): (Vec<String>, Vec<String>) = all.into_iter().unzip();
        let origin = Origin::Computed("the plug-ins in use".to_owned());
        ledger.entry("plugins.files".to_owned(), files.toml(), origin.clone());
        ledger.entry("plugins.sha256".to_owned(), sha256.toml(), origin);
    }
}

fn plugin_of(spec: &TransportSpec) -> Option<&'static LoadedPlugin> {
    if let Some(pairs) = spec.rdma() {
        return pairs.control.plugin();
    }
    match &spec.tcp()?.config.congestion_control {
        CongestionControlConfig::Plugin(config) => Some(config.code()),
        _ => None,
    }
}

impl Scenario {
    /// The loaded congestion controls in use.
    pub fn plugins(&self) -> Vec<PluginRecord> {
        let mut all: Vec<PluginRecord> = Vec::new();
        for code in self.transport_specs().filter_map(plugin_of) {
            let PluginSource { file, sha256, text, .. } = code.source.clone();
            let file = file_name(&file).to_owned();
            let record = PluginRecord { name: code.name.to_owned(), file, sha256, source: text };
            if !all.contains(&record) {
                all.push(record);
            }
        }
        all
    }
}

fn refuse(ledger: &mut Ledger, file: &str) {
    let message =
        format!("{file:?} is not loaded: a plug-in is a program, and a scenario file alone starts none");
    let hint = format!(
        "if you trust it, add --plugin {file}, or --allow-plugins for all that the scenario names (in Python: \
         plugins=[\"{file}\"])"
    );
    ledger.problem("plugins.files", message, hint);
}

fn check_digest(ledger: &mut Ledger, file: &str, code: &LoadedPlugin, expected: Option<&String>) {
    let Some(expected) = expected else { return };
    let found = &code.source.sha256;
    if found != expected {
        let message = format!("{file} has SHA-256 {found}, not {expected}: it has changed");
        let hint =
            "use the file that the scenario was made with, or leave plugins.sha256 out to take the new one";
        ledger.problem("plugins.sha256", message, hint);
    }
}

/// By name, because results are read in other folders than they were written from.
fn is_same_file(loaded: &str, named: &str) -> bool {
    file_name(loaded) == file_name(named)
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
