//! A marker setting that can differ between ports: by link rate or by port name.

use pauseframe_schema::bounds::Bounds;
use pauseframe_schema::docs::Range;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, quoted};
use pauseframe_units::BitRate;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// One value for all ports, or one for each rate or name of a port.
#[derive(Clone, PartialEq, Debug)]
pub enum ValueByPort<T> {
    /// The value of every port.
    All(T),
    /// Rows in the order of the file.
    Rows(Arc<[(PortSelector, T)]>),
}

/// Which ports a value is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortSelector {
    /// Ports whose link has this rate.
    Rate(BitRate),
    /// Ports whose names (NODE:NUMBER) match this glob; "*" selects all other ports.
    Name(String),
}

impl PortSelector {
    fn parse(text: &str) -> PortSelector {
        text.parse().map_or_else(|_| PortSelector::Name(text.to_owned()), PortSelector::Rate)
    }

    /// How specifically this selects a port (name over rate over "*"); `None`: not at all.
    fn selector_specificity(&self, port: &str, rate: BitRate) -> Option<u8> {
        match self {
            PortSelector::Name(glob) if glob == "*" => Some(0),
            PortSelector::Rate(own) => (*own == rate).then_some(1),
            PortSelector::Name(glob) => wildmatch::WildMatch::new(glob).matches(port).then_some(2),
        }
    }

    /// Text form, as in a scenario file.
    pub fn selector_text(&self) -> String {
        match self {
            PortSelector::Rate(rate) => rate.to_string(),
            PortSelector::Name(glob) => glob.clone(),
        }
    }
}

impl<T: Copy + PartialEq> ValueByPort<T> {
    /// Whether ports can have different values.
    pub(crate) fn varies_by_port(&self) -> bool {
        matches!(self, ValueByPort::Rows(_))
    }

    /// The value in a marker of one port ([`super::Marker::for_port`]); otherwise the first value.
    #[inline]
    pub(crate) fn single_value(&self) -> T {
        match self {
            ValueByPort::All(value) => *value,
            ValueByPort::Rows(rows) => rows[0].1,
        }
    }

    /// All values.
    pub(crate) fn iter_values(&self) -> impl Iterator<Item = &T> {
        let (one, rows) = match self {
            ValueByPort::All(value) => (Some(value), &[][..]),
            ValueByPort::Rows(rows) => (None, &rows[..]),
        };
        one.into_iter().chain(rows.iter().map(|(_, value)| value))
    }

    /// Selectors that match none of `ports` (name and rate).
    pub(crate) fn unmatched_selectors(&self, ports: &[(String, BitRate)]) -> Vec<String> {
        let ValueByPort::Rows(rows) = self else { return Vec::new() };
        let matches_none = |selector: &&PortSelector| {
            ports.iter().all(|(port, rate)| selector.selector_specificity(port, *rate).is_none())
        };
        rows.iter()
            .map(|(selector, _)| selector)
            .filter(matches_none)
            .map(PortSelector::selector_text)
            .collect()
    }

    /// The value of one port: names precede rates, and both precede "*".
    ///
    /// # Errors
    /// If no selector matches the port, or two names match with different values.
    pub(crate) fn for_port(&self, port: &str, rate: BitRate) -> Result<ValueByPort<T>, String> {
        let ValueByPort::Rows(rows) = self else { return Ok(self.clone()) };
        let selected = |(selector, _): &&(PortSelector, T)| selector.selector_specificity(port, rate);
        let narrowest = rows.iter().filter_map(|row| selected(&row)).max();
        let mut found = rows.iter().filter(|row| selected(row) == narrowest && narrowest.is_some());
        let Some((selector, value)) = found.next() else {
            return Err(format!(
                "has no value for port {port} ({rate}): add one for \"{rate}\" or for \"*\""
            ));
        };
        if let Some((other, _)) = found.find(|(_, other)| other != value) {
            let names = format!("{:?} and {:?}", selector.selector_text(), other.selector_text());
            return Err(format!("has two values for port {port}: {names} both match it"));
        }
        Ok(ValueByPort::All(*value))
    }
}

impl<T: Setting + Copy> Setting for ValueByPort<T> {
    fn shape() -> Shape {
        let each = Shape::Map(Box::new(T::shape()));
        Shape::Any(
            "a value, or a table of values by rate (\"25 Gbps\") or port (\"leaf*:0\")",
            vec![T::shape(), each],
        )
    }
    fn type_name() -> String {
        format!("{}, or a table of them by rate or port", T::type_name())
    }
    fn read(item: &Item) -> Result<Self, Mistake> {
        let Value::Table(rows) = &item.value else { return T::read(item).map(ValueByPort::All) };
        let row = |(key, item): &(String, Item)| {
            let value =
                T::read(item).map_err(|e| Mistake { message: format!("{key:?}: {}", e.message), ..e })?;
            if key.parse::<BitRate>().is_err() && key != "*" && !key.contains(':') {
                let message = format!("{key:?} is neither a rate nor a port");
                let hint = "write a rate as in \"25 Gbps\", a port as in \"leaf0:3\" or \"leaf*:*\", or \"*\" for the rest";
                return Err(Mistake { message, hint: hint.to_owned() });
            }
            Ok((PortSelector::parse(key), value))
        };
        if rows.is_empty() {
            let hint = "write one value, or some by rate as in { \"25 Gbps\" = ... }".to_owned();
            return Err(Mistake { message: "has no values".to_owned(), hint });
        }
        Ok(ValueByPort::Rows(rows.iter().map(row).collect::<Result<Vec<_>, _>>()?.into()))
    }
    fn toml(&self) -> String {
        match self {
            ValueByPort::All(value) => value.toml(),
            ValueByPort::Rows(rows) => {
                let row = |(selector, value): &(PortSelector, T)| {
                    format!("{} = {}", quoted(&selector.selector_text()), value.toml())
                };
                format!("{{ {} }}", rows.iter().map(row).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Bounds for each value.
#[derive(Clone, Debug)]
pub(crate) struct PerPortBounds<T>(pub(crate) RangeInclusive<T>);

/// All values of all ports.
fn iter_values<T>(by_port: &ValueByPort<T>) -> impl Iterator<Item = &T> {
    let (one, rows) = match by_port {
        ValueByPort::All(value) => (Some(value), &[][..]),
        ValueByPort::Rows(rows) => (None, &rows[..]),
    };
    one.into_iter().chain(rows.iter().map(|(_, value)| value))
}

impl<T: Setting + Copy + PartialOrd> Bounds<ValueByPort<T>> for PerPortBounds<T> {
    fn complaint(&self, by_port: &ValueByPort<T>) -> Option<String> {
        iter_values(by_port).find_map(|value| self.0.complaint(value))
    }
    fn hint(&self, by_port: &ValueByPort<T>) -> String {
        let wrong = iter_values(by_port).find(|value| self.0.complaint(value).is_some());
        wrong.map_or(String::new(), |value| self.0.hint(value))
    }
    fn text(&self) -> String {
        self.0.text()
    }
    fn range(&self) -> Range {
        self.0.range()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_schema::document::Place;

    fn table(rows: &[(&str, &str)]) -> Item {
        let item = |text: &str| Item { value: Value::Text(text.to_owned()), place: Place::Nowhere };
        let rows = rows.iter().map(|(key, value)| ((*key).to_owned(), item(value)));
        Item { value: Value::Table(rows.collect()), place: Place::Nowhere }
    }

    fn sizes(rows: &[(&str, &str)]) -> Result<ValueByPort<u64>, String> {
        let read = ValueByPort::<pauseframe_units::Bytes>::read(&table(rows))
            .map_err(|e| e.message + "; " + &e.hint)?;
        let ValueByPort::Rows(rows) = read else { return Err("one value".to_owned()) };
        Ok(ValueByPort::Rows(rows.iter().map(|(selector, size)| (selector.clone(), size.0)).collect()))
    }

    #[test]
    fn names_go_before_rates_and_rates_before_the_rest() {
        let values = sizes(&[("*", "1 KB"), ("100 Gbps", "4 KB"), ("leaf*:0", "2 KB")]).unwrap();
        let at = |port, gbps| values.for_port(port, BitRate::gbps(gbps)).unwrap().single_value();
        assert_eq!([at("leaf7:0", 100), at("leaf7:1", 100), at("leaf7:1", 25)], [2000, 4000, 1000]);
    }

    #[test]
    fn what_is_missing_or_ambiguous_is_an_error_with_the_port() {
        let rates = sizes(&[("25 Gbps", "1 KB")]).unwrap();
        let missing = rates.for_port("s0:4", BitRate::gbps(40)).unwrap_err();
        assert!(missing.contains("port s0:4 (40 Gbps)") && missing.contains("\"40 Gbps\""), "{missing}");
        let names = sizes(&[("s0:*", "1 KB"), ("*:4", "2 KB")]).unwrap();
        assert!(names.for_port("s0:4", BitRate::gbps(40)).unwrap_err().contains("\"s0:*\" and \"*:4\""));
        assert_eq!(names.for_port("s1:4", BitRate::gbps(40)).unwrap().single_value(), 2000);
        for (wrong, says) in [("25", "neither a rate nor a port"), ("25Gbits", "neither a rate")] {
            assert!(sizes(&[(wrong, "1 KB")]).unwrap_err().contains(says), "{wrong}");
        }
        assert!(sizes(&[]).unwrap_err().contains("has no values"));
    }
}
