//! A JSON Schema (draft 2020-12) of a language, from the declarations of its readers.
//!
//! It has types, units, ranges, names, and the keys of each kind, but no rules about several keys (a host exists, XON
//! is below XOFF). Extensions: `x-order`, the keys of a table in the order of the reference; `x-source`, the source of
//! a key.

use crate::docs::{Documentation, OptionDoc, Range};
use crate::language::Language;
use crate::shape::Shape;
use crate::short::Short;
use crate::text::parent;
use serde_json::{Map, Value, json};

/// The schema with its `$id`; the document itself is at its top.
pub fn schema(language: &'static Language, id: &str) -> Value {
    let mut writer = Writer { language, found: language.documentation(), defs: Map::new() };
    let root = writer.table("", &[]);
    let name = root["$ref"].as_str().unwrap_or("").trim_start_matches("#/$defs/").to_owned();
    let mut schema = writer.defs.remove(&name).unwrap_or(root);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$id"] = json!(id);
    schema["$defs"] = Value::Object(writer.defs);
    schema
}

/// The selected kinds: path of the key and name of the kind.
type Fixed = [(String, String)];

struct Writer {
    language: &'static Language,
    found: &'static Documentation,
    defs: Map<String, Value>,
}

impl Writer {
    /// The schema of the table at `path` if these kinds are selected.
    fn table(&mut self, path: &str, fixed: &Fixed) -> Value {
        let own = |variants: &&crate::docs::Variants| {
            parent(&variants.path) == path && self.options_at(&variants.path, fixed).next().is_some()
        };
        let Some(variants) = self.found.variants.iter().find(own) else {
            return self.kind(path, fixed, None);
        };
        let (key, has_default) = (variants.path.clone(), variants.has_default);
        let branch = |name: &&'static str| {
            let mut further = fixed.to_vec();
            further.push((key.clone(), (*name).to_owned()));
            further
        };
        let branches: Vec<_> = variants.names.iter().map(branch).collect();
        let kinds = branches.iter().map(|fixed| self.kind(path, fixed, Some((&key, has_default)))).collect();
        any_of(kinds)
    }

    /// The options at exactly this path if these kinds are selected.
    fn options_at<'s>(
        &'s self,
        path: &'s str,
        fixed: &'s Fixed,
    ) -> impl Iterator<Item = (&'static OptionDoc, bool)> + 's {
        let of_path = self.found.options.iter().filter(move |option| option.path == path);
        of_path.filter_map(move |option| Some((option, self.holds(&option.when, fixed)?)))
    }

    /// Whether keys with this condition exist under these choices, and whether always.
    fn holds(&self, when: &str, fixed: &Fixed) -> Option<bool> {
        let mut always = true;
        for condition in when.split(" and ").filter(|condition| !condition.is_empty()) {
            match condition.split_once(" = ") {
                Some((path, name)) if self.found.variants.iter().any(|variants| variants.path == path) => {
                    fixed.iter().find(|(fixed, chosen)| fixed == path && chosen == name)?;
                }
                _ => always = false,
            }
        }
        Some(always)
    }

    /// One kind of table; `choice` is the key that selects it, and whether that may be omitted.
    fn kind(&mut self, path: &str, fixed: &Fixed, choice: Option<(&str, bool)>) -> Value {
        let (mut properties, mut required, mut order) = (Map::new(), Vec::new(), Vec::new());
        for key in self.keys(path, fixed) {
            let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let (value, needed) = match choice {
                Some((choice, has_default)) if choice == at => {
                    let name = fixed.last().map_or("", |(_, name)| name);
                    let doc = self.options_at(&at, fixed).next().map_or("", |(option, _)| &option.doc);
                    (json!({ "const": name, "description": doc }), !has_default)
                }
                _ => self.key(&at, fixed),
            };
            if needed {
                required.push(key.clone());
            }
            order.push(key.clone());
            properties.insert(key, value);
        }
        let (name, doc, is_own) = self.name(path, fixed);
        let mut table = json!({
            "title": name,
            "description": doc,
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
            "x-order": order,
        });
        if !required.is_empty() {
            table["required"] = json!(required);
        }
        let kind = fixed.last().map_or("", |(_, kind)| kind);
        let (of_kind, of_path) = (format!("{name}.{kind}"), format!("{name}.{path}"));
        let names = match choice {
            Some(_) if !is_own => [of_kind, of_path, name],
            Some(_) => [name, of_kind, of_path],
            None => [name, of_path, of_kind],
        };
        self.define(&names, table)
    }

    /// Adds a table to the definitions; different tables of one name are distinguished by their kinds or paths.
    fn define(&mut self, names: &[String; 3], table: Value) -> Value {
        let is_free = |name: &&String| self.defs.get(*name).is_none_or(|other| *other == table);
        let key = names.iter().find(is_free).cloned().unwrap_or_else(|| names.concat());
        let reference = json!({ "$ref": format!("#/$defs/{}", key.replace('~', "~0").replace('/', "~1")) });
        self.defs.insert(key, table);
        reference
    }

    /// Name and description of a table, and whether the description applies only to its kind.
    fn name(&self, path: &str, fixed: &Fixed) -> (String, String, bool) {
        let of_path = self.found.tables.iter().filter(|table| table.path == path);
        let fitting = of_path.filter(|table| self.holds(&table.when, fixed).is_some());
        let Some(table) = fitting.max_by_key(|table| table.when.len()) else {
            return (path.to_owned(), String::new(), false);
        };
        let own = fixed.last().is_some_and(|(path, name)| table.when.ends_with(&format!("{path} = {name}")));
        (table.name.clone(), table.doc.clone(), own)
    }

    /// The keys of a table, in the order of the reference.
    fn keys(&self, path: &str, fixed: &Fixed) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for option in &self.found.options {
            let below = if path.is_empty() {
                Some(option.path.as_str())
            } else {
                option.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
            };
            let Some(key) = below.and_then(|below| below.split('.').next()) else { continue };
            let key = key.trim_end_matches("[]").to_owned();
            if key != "NAME" && !keys.contains(&key) && self.holds(&option.when, fixed).is_some()
                || below.is_some_and(|below| below.contains('.'))
                    && !keys.contains(&key)
                    && Self::reaches(option, fixed)
            {
                keys.push(key);
            }
        }
        keys
    }

    /// Whether a key within a table below exists only under a further choice.
    fn reaches(option: &OptionDoc, fixed: &Fixed) -> bool {
        let conflicts = |condition: &str| {
            let Some((path, name)) = condition.split_once(" = ") else { return false };
            fixed.iter().any(|(fixed, chosen)| fixed == path && chosen != name)
        };
        !option.when.split(" and ").any(conflicts)
    }

    /// A key, and whether it is required.
    fn key(&mut self, path: &str, fixed: &Fixed) -> (Value, bool) {
        let rows: Vec<(&OptionDoc, bool)> = self.options_at(path, fixed).collect();
        let Some(&(option, always)) = rows.first() else { return self.section(path, fixed) };
        let needed = option.default == "required" && always;
        let value = match &option.shape {
            Shape::Switchable => {
                let table = self.table(path, fixed);
                let mut forms = vec![json!({ "const": false }), table];
                forms.extend(self.short(path, fixed));
                any_of(forms)
            }
            Shape::Rows => {
                let element = format!("{path}[]");
                let is_inline = self.found.options.iter().any(|option| parent(&option.path) == element);
                let element = if is_inline { element.as_str() } else { path };
                let mut forms = vec![self.table(element, fixed)];
                forms.extend(if is_inline { self.short(element, fixed) } else { None });
                let (table, is_one) = (any_of(forms), !is_inline);
                let list = json!({ "type": "array", "items": table.clone() });
                if is_one { any_of(vec![list, table]) } else { list }
            }
            Shape::Named { like } => {
                let path = if like.is_empty() { format!("{path}.NAME") } else { (*like).to_owned() };
                json!({ "type": "object", "additionalProperties": self.table(&path, fixed) })
            }
            shape => scalar(shape, option.range.as_ref()),
        };
        (described(value, option), needed)
    }

    /// The schema of a nested table, and whether the table is required.
    fn section(&mut self, path: &str, fixed: &Fixed) -> (Value, bool) {
        let table = self.table(path, fixed);
        let needed = self.needs_something(&table);
        let mut forms = vec![table];
        forms.extend(self.short(path, fixed));
        (any_of(forms), needed)
    }

    fn needs_something(&self, table: &Value) -> bool {
        match (table.get("$ref").and_then(Value::as_str), table.get("anyOf").and_then(Value::as_array)) {
            (Some(reference), _) => {
                let name = reference.trim_start_matches("#/$defs/");
                self.defs.get(name).is_some_and(|table| table.get("required").is_some())
            }
            (_, Some(forms)) => forms.iter().all(|form| self.needs_something(form)),
            _ => false,
        }
    }

    /// The short form of the table at `path`.
    fn short(&self, path: &str, fixed: &Fixed) -> Option<Value> {
        let plain = path.replace(".NAME", "").replace("[]", "");
        let (_, short) = self.language.shorts.iter().find(|(of, _)| of.replace(".*", "") == plain)?;
        let of_key = |key: &str| {
            let at = format!("{path}.{key}");
            let known = self.found.options.iter().filter(|option| option.path == at);
            let known = known.filter(|option| Self::reaches(option, fixed));
            let mut forms: Vec<Value> = Vec::new();
            for option in known {
                let form = scalar(&option.shape, option.range.as_ref());
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
            any_of(forms)
        };
        Some(match short {
            Short::Key(key) | Short::List(key) => of_key(key),
            Short::TextOrTrue(key) => any_of(vec![json!({ "const": true }), of_key(key)]),
            Short::True => json!({ "const": true }),
            Short::Text(..) => json!({ "type": "string" }),
            Short::One => return None,
        })
    }
}

fn any_of(mut forms: Vec<Value>) -> Value {
    let mut flat: Vec<Value> = Vec::new();
    for form in forms.drain(..) {
        match form.get("anyOf").and_then(Value::as_array) {
            Some(inner) if form.as_object().is_some_and(|form| form.len() == 1) => {
                flat.extend(inner.iter().cloned());
            }
            _ => flat.push(form),
        }
    }
    if flat.len() == 1 { flat.swap_remove(0) } else { json!({ "anyOf": flat }) }
}

/// Adds the meaning of a key, and its default if that is a value.
fn described(mut value: Value, option: &OptionDoc) -> Value {
    let default = serde_json::from_str::<Value>(&option.default).ok();
    let doc = match (&default, option.default.as_str()) {
        (Some(_), _) | (None, "required") => option.doc.clone(),
        (None, words) => format!("{} (default: {words})", option.doc),
    };
    value["description"] = json!(doc);
    if !option.source.is_empty() {
        value["x-source"] = json!(option.source);
    }
    if let Some(default) = default {
        value["default"] = default;
    }
    value
}

fn scalar(shape: &Shape, range: Option<&Range>) -> Value {
    let own = range.filter(|range| !range.each);
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Truth => json!({ "type": "boolean" }),
        Shape::Whole { max } => bounded(json!({ "type": "integer", "minimum": 0, "maximum": max }), own),
        Shape::Number => bounded(json!({ "type": "number" }), own),
        Shape::Quantity { units, .. } => {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let is_positive = own.is_some_and(|range| range.low.chars().any(|c| ('1'..='9').contains(&c)));
            let number = if is_positive {
                r"(0*[1-9][0-9]*(\.[0-9]*)?|0+\.0*[1-9][0-9]*)"
            } else {
                r"[0-9]+(\.[0-9]*)?"
            };
            json!({ "type": "string", "pattern": format!(r"^\s*{number}\s*({})\s*$", names.join("|")) })
        }
        Shape::OneOf(names) => json!({ "enum": names }),
        Shape::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
        Shape::Any(_, forms) => any_of(forms.iter().map(|form| scalar(form, own)).collect()),
        Shape::List(of) => json!({ "type": "array", "items": scalar(of, of_each(range).as_ref()) }),
        Shape::Map(of) => {
            json!({ "type": "object", "additionalProperties": scalar(of, own), "minProperties": 1 })
        }
        Shape::Pair(of) => {
            json!({ "type": "array", "items": scalar(of, None), "minItems": 2, "maxItems": 2 })
        }
        Shape::Table => json!({ "type": "object" }),
        Shape::Switchable | Shape::Rows | Shape::Named { .. } => json!({}),
    }
}

fn of_each(range: Option<&Range>) -> Option<Range> {
    range.filter(|range| range.each).map(|range| Range { each: false, ..range.clone() })
}

/// Adds the bounds of a number.
fn bounded(mut value: Value, range: Option<&Range>) -> Value {
    let Some(range) = range else { return value };
    let number = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
    if let Some(low) = number(&range.low) {
        value[if range.above { "exclusiveMinimum" } else { "minimum" }] = low;
    }
    if let Some(high) = number(&range.high) {
        value["maximum"] = high;
    }
    value
}
