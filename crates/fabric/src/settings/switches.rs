//! `[[switch.override]]`: switches that differ from the others.

use crate::marker::BUFFER_MAX;
use crate::port_names::matches_glob;
use pauseframe_schema::table;
use pauseframe_units::Bytes;

table! {
    /// Switches with other values; of rows that match a switch, the last one with a key decides
    pub struct SwitchOverride {
        /// Globs over names of switches ("leaf*", "spine2")
        switches: Vec<String> = required();
        /// Size of the shared buffer
        buffer: Option<Bytes> = optional_in(Bytes(1)..=BUFFER_MAX, "switch.buffer.size");
        /// Size of the shared headroom pool
        #[source = "SONiC: shared headroom pool"]
        headroom_pool: Option<Bytes> = optional_in(Bytes(1)..=BUFFER_MAX, "as switch.pfc.headroom_pool says");
    }
    pub fn try_read(t);
}

impl SwitchOverride {
    /// Whether the row is about this switch.
    pub fn matches(&self, switch: &str) -> bool {
        self.switches.iter().any(|glob| matches_glob(glob, switch))
    }

    /// The value that the last matching row gives a switch.
    pub fn last<T>(
        rows: &[SwitchOverride],
        switch: &str,
        key: impl Fn(&SwitchOverride) -> Option<T>,
    ) -> Option<T> {
        rows.iter().rev().filter(|row| row.matches(switch)).find_map(key)
    }
}
