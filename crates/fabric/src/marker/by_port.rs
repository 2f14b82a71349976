//! A value of a marker that can differ from port to port: by the rate of a link, or by names of ports.

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
pub enum ByPort<T> {
    /// The value of every port.
    All(T),
    /// In the order of the file.
    Rows(Arc<[(PortSelector, T)]>),
}

/// Which ports a value is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortSelector {
    /// Ports whose link has this rate.
    Rate(BitRate),
    /// Ports whose names (NODE:NUMBER) match this glob; "*" is for all that nothing else selects.
    Name(String),
}

impl PortSelector {
    fn of(text: &str) -> PortSelector {
        text.parse().map_or_else(|_| PortSelector::Name(text.to_owned()), PortSelector::Rate)
    }

    /// How narrowly this selects a port: a name, a rate, or all; `None`: not that port.
    fn narrowness(&self, port: &str, rate: BitRate) -> Option<u8> {
        match self {
            PortSelector::Name(glob) if glob == "*" => Some(0),
            PortSelector::Rate(own) => (*own == rate).then_some(1),
            PortSelector::Name(glob) => wildmatch::WildMatch::new(glob).matches(port).then_some(2),
        }
    }

    /// As in a file.
    pub fn text(&self) -> String {
        match self {
            PortSelector::Rate(rate) => rate.to_string(),
            PortSelector::Name(glob) => glob.clone(),
        }
    }
}

impl<T: Copy + PartialEq> ByPort<T> {
    /// Whether ports differ.
    pub(crate) fn varies(&self) -> bool {
        matches!(self, ByPort::Rows(_))
    }

    /// The value of a marker that stands for one port ([`super::Marker::at`]); the first one otherwise.
    #[inline]
    pub(crate) fn value(&self) -> T {
        match self {
            ByPort::All(value) => *value,
            ByPort::Rows(rows) => rows[0].1,
        }
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let (one, rows) = match self {
            ByPort::All(value) => (Some(value), &[][..]),
            ByPort::Rows(rows) => (None, &rows[..]),
        };
        one.into_iter().chain(rows.iter().map(|(_, value)| value))
    }

    /// Selectors that no port, of a name and a rate each, matches.
    pub(crate) fn unused(&self, ports: &[(String, BitRate)]) -> Vec<String> {
        let ByPort::Rows(rows) = self else { return Vec::new() };
        let matches_none = |selector: &&PortSelector| {
            ports.iter().all(|(port, rate)| selector.narrowness(port, *rate).is_none())
        };
        rows.iter().map(|(selector, _)| selector).filter(matches_none).map(PortSelector::text).collect()
    }

    /// The value of one port: names go before rates, and both before "*".
    ///
    /// # Errors
    /// If nothing selects the port, or two names with different values.
    pub(crate) fn at(&self, port: &str, rate: BitRate) -> Result<ByPort<T>, String> {
        let ByPort::Rows(rows) = self else { return Ok(self.clone()) };
        let selected = |(selector, _): &&(PortSelector, T)| selector.narrowness(port, rate);
        let narrowest = rows.iter().filter_map(|row| selected(&row)).max();
        let mut found = rows.iter().filter(|row| selected(row) == narrowest && narrowest.is_some());
        let Some((selector, value)) = found.next() else {
            return Err(format!(
                "has no value for port {port} ({rate}): add one for \"{rate}\" or for \"*\""
            ));
        };
        if let Some((other, _)) = found.find(|(_, other)| other != value) {
            let names = format!("{:?} and {:?}", selector.text(), other.text());
            return Err(format!("has two values for port {port}: {names} both match it"));
        }
        Ok(ByPort::All(*value))
    }
}

impl<T: Setting + Copy> Setting for ByPort<T> {
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
        let Value::Table(rows) = &item.value else { return T::read(item).map(ByPort::All) };
        let row = |(key, item): &(String, Item)| {
            let value =
                T::read(item).map_err(|e| Mistake { message: format!("{key:?}: {}", e.message), ..e })?;
            if key.parse::<BitRate>().is_err() && key != "*" && !key.contains(':') {
                let message = format!("{key:?} is neither a rate nor a port");
                let hint = "write a rate as in \"25 Gbps\", a port as in \"leaf0:3\" or \"leaf*:*\", or \"*\" for the rest";
                return Err(Mistake { message, hint: hint.to_owned() });
            }
            Ok((PortSelector::of(key), value))
        };
        if rows.is_empty() {
            let hint = "write one value, or some by rate as in { \"25 Gbps\" = ... }".to_owned();
            return Err(Mistake { message: "has no values".to_owned(), hint });
        }
        Ok(ByPort::Rows(rows.iter().map(row).collect::<Result<Vec<_>, _>>()?.into()))
    }
    fn toml(&self) -> String {
        match self {
            ByPort::All(value) => value.toml(),
            ByPort::Rows(rows) => {
                let row = |(selector, value): &(PortSelector, T)| {
                    format!("{} = {}", quoted(&selector.text()), value.toml())
                };
                format!("{{ {} }}", rows.iter().map(row).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The bounds of every value.
#[derive(Clone, Debug)]
pub(crate) struct EachPort<T>(pub(crate) RangeInclusive<T>);

/// All values, whichever port they are for.
fn values<T>(by_port: &ByPort<T>) -> impl Iterator<Item = &T> {
    let (one, rows) = match by_port {
        ByPort::All(value) => (Some(value), &[][..]),
        ByPort::Rows(rows) => (None, &rows[..]),
    };
    one.into_iter().chain(rows.iter().map(|(_, value)| value))
}

impl<T: Setting + Copy + PartialOrd> Bounds<ByPort<T>> for EachPort<T> {
    fn complaint(&self, by_port: &ByPort<T>) -> Option<String> {
        values(by_port).find_map(|value| self.0.complaint(value))
    }
    fn hint(&self, by_port: &ByPort<T>) -> String {
        let wrong = values(by_port).find(|value| self.0.complaint(value).is_some());
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

    fn sizes(rows: &[(&str, &str)]) -> Result<ByPort<u64>, String> {
        let read =
            ByPort::<pauseframe_units::Bytes>::read(&table(rows)).map_err(|e| e.message + "; " + &e.hint)?;
        let ByPort::Rows(rows) = read else { return Err("one value".to_owned()) };
        Ok(ByPort::Rows(rows.iter().map(|(selector, size)| (selector.clone(), size.0)).collect()))
    }

    #[test]
    fn names_go_before_rates_and_rates_before_the_rest() {
        let values = sizes(&[("*", "1 KB"), ("100 Gbps", "4 KB"), ("leaf*:0", "2 KB")]).unwrap();
        let at = |port, gbps| values.at(port, BitRate::gbps(gbps)).unwrap().value();
        assert_eq!([at("leaf7:0", 100), at("leaf7:1", 100), at("leaf7:1", 25)], [2000, 4000, 1000]);
    }

    #[test]
    fn what_is_missing_or_ambiguous_is_an_error_with_the_port() {
        let rates = sizes(&[("25 Gbps", "1 KB")]).unwrap();
        let missing = rates.at("s0:4", BitRate::gbps(40)).unwrap_err();
        assert!(missing.contains("port s0:4 (40 Gbps)") && missing.contains("\"40 Gbps\""), "{missing}");
        let names = sizes(&[("s0:*", "1 KB"), ("*:4", "2 KB")]).unwrap();
        assert!(names.at("s0:4", BitRate::gbps(40)).unwrap_err().contains("\"s0:*\" and \"*:4\""));
        assert_eq!(names.at("s1:4", BitRate::gbps(40)).unwrap().value(), 2000);
        for (wrong, says) in [("25", "neither a rate nor a port"), ("25Gbits", "neither a rate")] {
            assert!(sizes(&[(wrong, "1 KB")]).unwrap_err().contains(says), "{wrong}");
        }
        assert!(sizes(&[]).unwrap_err().contains("has no values"));
    }
}
