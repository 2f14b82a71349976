//! Recognises files of other languages given as a scenario, so that the error names the language instead of the first
//! invalid token.

/// The position where a scenario would start.
const INSTEAD: &str =
    "scenario files are TOML: a table is [topology], a key is kind = \"star\", a text stands in quotes";

/// The format of a text that is not TOML, and the remedy; `None` if it may be TOML with a mistake.
pub(crate) fn recognise(text: &str, file_name: &str) -> Option<(String, String)> {
    let extension = file_name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    let lines = || {
        text.lines()
            .map(str::trim_end)
            .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    };
    let first = lines().next()?.trim_start();
    let is = |language: &str| Some((format!("this is {language}, not TOML"), INSTEAD.to_owned()));
    if first.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok()
        || extension == "json"
    {
        return is("JSON");
    }
    if first.starts_with('{') {
        return is("JSON with a mistake, or a Python dictionary");
    }
    if first.starts_with('<') {
        return is("XML");
    }
    let of_yaml = lines().filter(|line| is_yaml(line)).count();
    if first == "---" || matches!(extension.as_str(), "yaml" | "yml") || 2 * of_yaml > lines().count() {
        return is("YAML");
    }
    if lines().all(|line| line.split_whitespace().take(2).all(|word| word.parse::<f64>().is_ok())) {
        let hint = "a scenario names such files: kind = \"file\" and path in [topology], kind = \"flows\" and file in [[workload]]";
        return Some(("this is a list of numbers, not a scenario in TOML".to_owned(), hint.to_owned()));
    }
    let commas = first.matches(',').count();
    let is_csv =
        commas > 0 && !first.contains(['=', '[']) && lines().all(|line| line.matches(',').count() == commas);
    if is_csv || extension == "csv" {
        let hint = "a list of flows is named by a scenario: kind = \"flows\" and file = \"flows.csv\" in [[workload]]";
        return Some(("this is CSV, not a scenario in TOML".to_owned(), hint.to_owned()));
    }
    if is_python(first) || extension == "py" {
        return Some(("this is Python, not a scenario in TOML".to_owned(), "run it with python".to_owned()));
    }
    None
}

/// True for a YAML line: `key: value`, `key:` or `- item`.
fn is_yaml(line: &str) -> bool {
    let line = line.trim_start();
    let item = line.strip_prefix("- ").unwrap_or(line);
    let key =
        item.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with(' ')).map(|(key, _)| key);
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '"'))
    };
    key.is_some_and(is_key) || item.len() < line.len() && !line.contains('=')
}

fn is_python(line: &str) -> bool {
    ["import ", "from ", "def ", "#!/usr/bin/env python"].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::recognise;

    fn told(text: &str, name: &str) -> String {
        recognise(text, name).map_or(String::new(), |(message, _)| message)
    }

    #[test]
    fn a_dictionary_is_no_list_of_flows() {
        let text = "{'name': 'first', 'topology': {'kind': 'star'}}";
        assert_eq!(told(text, "a.toml"), "this is JSON with a mistake, or a Python dictionary, not TOML");
    }

    #[test]
    fn other_languages_are_called_by_their_names() {
        assert_eq!(
            told("name: incast\ntopology:\n  kind: star\n  hosts: 4\n", "a.toml"),
            "this is YAML, not TOML"
        );
        assert_eq!(told("---\nname: x\n", "a.toml"), "this is YAML, not TOML");
        assert_eq!(
            told("workload:\n  - kind: incast\n    size: 10 KB\n", "a.yaml"),
            "this is YAML, not TOML"
        );
        assert_eq!(told("{\"name\": \"x\"}", "a.toml"), "this is JSON, not TOML");
        assert_eq!(told("{\"name\": ", "a.json"), "this is JSON, not TOML");
        assert_eq!(told("<graphml/>", "a.graphml"), "this is XML, not TOML");
        assert!(told("src,dst,size_bytes,start_us\nh0,h1,1,0\n", "flows.csv").starts_with("this is CSV"));
        assert!(told("1\n0 1 3 100 1000 2\n", "flow.txt").starts_with("this is a list of numbers"));
        assert!(told("import pauseframe as pf\n", "a.py").starts_with("this is Python"));
        for toml in [
            "stop = 50 ms\n[topology\n",
            "[topology]\nkind = star\nhosts = 4\n",
            "a = [\n  \"x: y\",\n",
            "x\n",
        ] {
            assert_eq!(told(toml, "a.toml"), "", "{toml}");
        }
    }
}
