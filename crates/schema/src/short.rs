//! Expands short forms of a document before it is read, so that each table has one form: `buffer = "225 KB"`, `pfc =
//! true`, one workload without the array, `sizes = "web_search"`. `false` (for "off") stays.

use crate::document::{Item, Value};

/// A short form of a table.
#[derive(Clone, Copy, Debug)]
pub enum Short {
    /// Anything but a table becomes the value of this key.
    Key(&'static str),
    /// A text becomes the value of this key, `true` an empty table.
    TextOrTrue(&'static str),
    /// `true` stands for an empty table.
    True,
    /// A list becomes the value of this key.
    List(&'static str),
    /// One table becomes a list of one.
    One,
    /// A text becomes one kind of table if it matches a form, else another: (does it match, kind and key if so, kind
    /// and key else).
    Text(fn(&str) -> bool, [&'static str; 2], [&'static str; 2]),
}

/// Expands all short forms; long forms stay. In a path `*` matches every key or element.
pub fn expand(root: &mut Item, shorts: &[(&str, Short)]) {
    for (path, short) in shorts {
        let segments: Vec<&str> = path.split('.').collect();
        each(root, &segments, *short);
    }
}

fn each(item: &mut Item, path: &[&str], short: Short) {
    let Some((first, rest)) = path.split_first() else { return apply(item, short) };
    match (*first, &mut item.value) {
        ("*", Value::Array(items)) => items.iter_mut().for_each(|item| each(item, rest, short)),
        ("*", Value::Table(pairs)) => pairs.iter_mut().for_each(|(_, item)| each(item, rest, short)),
        (key, _) => {
            if let Some(inner) = item.get_mut(key) {
                each(inner, rest, short);
            }
        }
    }
}

fn apply(item: &mut Item, short: Short) {
    match (short, &item.value) {
        (_, Value::Table(_)) if !matches!(short, Short::One) => {}
        (Short::Key(key), _)
        | (Short::List(key), Value::Array(_))
        | (Short::TextOrTrue(key), Value::Text(_)) => {
            wrap(item, key);
        }
        (Short::True | Short::TextOrTrue(_), Value::Bool(true)) => item.value = Value::Table(Vec::new()),
        (Short::One, Value::Table(_)) => item.value = Value::Array(vec![item.clone()]),
        (Short::Text(fits, then, otherwise), Value::Text(text)) => {
            let [kind, key] = if fits(text) { then } else { otherwise };
            let place = item.place;
            wrap(item, key);
            item.insert("kind", Item { value: Value::Text(kind.to_owned()), place });
        }
        _ => {}
    }
}

fn wrap(item: &mut Item, key: &str) {
    let inner = item.clone();
    item.value = Value::Table(vec![(key.to_owned(), inner)]);
}
