//! Empirical flow-size distributions: built-in ones by name, and CDF files in common formats.
//!
//! Three forms of file, recognised by their columns and last value:
//! - `bytes cdf`, ending at 1;
//! - `bytes percent`, ending at 100 (HPCC's generator);
//! - `packets 1 cdf`, sizes in packets of 1460 bytes (pFabric's).
//!
//! Columns are separated by blanks or commas; `#` begins a comment; a first line of words is a header.

use super::distributions::{DATA_MINING, FACEBOOK_KEY_VALUE, WEB_SEARCH};
use pauseframe_units::{counted, files};
use std::path::Path;

/// Bytes per packet in pFabric's files.
const PFABRIC_PACKET: f64 = 1460.0;

const BUILT_IN: [(&str, &[(f64, f64)]); 3] =
    [("web_search", WEB_SEARCH), ("data_mining", DATA_MINING), ("facebook_key_value", FACEBOOK_KEY_VALUE)];

/// The built-in distribution `name`: pairs (bytes, cumulative probability), ascending, ending at 1.
pub fn builtin(name: &str) -> Option<&'static [(f64, f64)]> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, points)| *points)
}

/// The names of the built-in distributions.
pub fn builtin_names() -> impl Iterator<Item = &'static str> + Clone {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Reads a CDF file: pairs (bytes, cumulative probability), ascending, ending at 1.
///
/// # Errors
/// An error that names the file, the line and the problem.
pub fn read_cdf(path: &Path) -> Result<Vec<(f64, f64)>, String> {
    let text = files::read_rows(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_cdf(&text).map_err(|message| format!("{}, {message}", path.display()))
}

/// One line: its number, the size and the probability as written.
type Row = (usize, f64, f64);

fn parse_cdf(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut rows = Vec::new();
    let mut width = 0;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let content = line.split('#').next().unwrap_or("");
        let fields: Vec<&str> = content
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|field| !field.is_empty())
            .collect();
        let is_header = rows.is_empty() && fields.iter().all(|field| field.parse::<f64>().is_err());
        if fields.is_empty() || is_header {
            continue;
        }
        rows.push(parse_row(line_number, &fields)?);
        if rows.len() > 1 && fields.len() != width {
            return Err(format!("line {line_number}: {}, {width} before", counted(fields.len(), "column")));
        }
        width = fields.len();
    }
    let scale = if width == 3 { PFABRIC_PACKET } else { 1.0 };
    check(&rows, scale)
}

#[expect(clippy::float_cmp, reason = "a literal 1 is what the form asks for")]
fn parse_row(line: usize, fields: &[&str]) -> Result<Row, String> {
    let number = |text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("line {line}: {text:?} is not a number of at least 0")),
    };
    match fields {
        [size, p] => Ok((line, number(size)?, number(p)?)),
        [size, one, p] if number(one)? == 1.0 => Ok((line, number(size)?, number(p)?)),
        _ => Err(format!("line {line}: expected \"bytes cdf\", \"bytes percent\" or \"packets 1 cdf\"")),
    }
}

/// Scales to bytes and probabilities; checks that both ascend and that the probability ends at exactly 1.
#[expect(clippy::float_cmp, reason = "a literal 1 or 100 tells the forms apart")]
fn check(rows: &[Row], size_scale: f64) -> Result<Vec<(f64, f64)>, String> {
    let Some(&(last_line, largest, end)) = rows.last() else {
        return Err("there is no line with two numbers".into());
    };
    let p_scale = if end == 100.0 { 0.01 } else { 1.0 };
    if end * p_scale != 1.0 {
        return Err(format!(
            "line {last_line}: the last probability is {end}; expected 1, or 100 for per cent"
        ));
    }
    if largest <= 0.0 {
        return Err(format!("line {last_line}: the largest size is 0"));
    }
    for pair in rows.windows(2) {
        let ((_, size, p), (line, next_size, next_p)) = (pair[0], pair[1]);
        if next_size < size {
            return Err(format!("line {line}: the size {next_size} is below {size}, the one before"));
        }
        if next_p < p {
            return Err(format!("line {line}: the probability {next_p} is below {p}, the one before"));
        }
    }
    Ok(rows.iter().map(|(_, size, p)| (size * size_scale, p * p_scale)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_mean_the_same() {
        let plain = parse_cdf("# web search\n1460 0\n14600 0.5 # half\n\n2.92e+04 1\n").unwrap();
        assert_eq!(plain, [(1460.0, 0.0), (14_600.0, 0.5), (29_200.0, 1.0)]);
        assert_eq!(parse_cdf("bytes,percent\n1460,0\n14600,50\n29200,100").unwrap(), plain);
        assert_eq!(parse_cdf("1 1 0\n10 1 0.5\n20 1 1\n").unwrap(), plain);
    }

    #[test]
    fn built_in_distributions_obey_the_rules_of_files() {
        for name in builtin_names() {
            let points = builtin(name).unwrap();
            let rows: Vec<Row> = points.iter().map(|(size, p)| (1, *size, *p)).collect();
            assert_eq!(check(&rows, 1.0).unwrap(), points, "{name}");
        }
        assert_eq!(builtin("websearch"), None);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, message) in [
            ("", "there is no line with two numbers"),
            ("0 0\n10 0.5\n5 1\n", "line 3: the size 5 is below 10, the one before"),
            ("0 0\n10 0.5\n20 0.4\n30 1", "line 3: the probability 0.4 is below 0.5, the one before"),
            ("0 0\n10 0.98\n", "line 2: the last probability is 0.98; expected 1, or 100 for per cent"),
            ("0 0\n10 x\n", "line 2: \"x\" is not a number of at least 0"),
            ("0 0\n-1 1\n", "line 2: \"-1\" is not a number of at least 0"),
            ("0 0\nnan 1\n", "line 2: \"nan\" is not a number of at least 0"),
            ("187.77\n1 1", "line 1: expected \"bytes cdf\", \"bytes percent\" or \"packets 1 cdf\""),
            ("8 0.3 0.3\n", "line 1: expected \"bytes cdf\", \"bytes percent\" or \"packets 1 cdf\""),
            ("1 1 0\n10 1\n", "line 2: 2 columns, 3 before"),
            ("0 0\n0 1\n", "line 2: the largest size is 0"),
        ] {
            assert_eq!(parse_cdf(text), Err(message.to_string()), "{text:?}");
        }
    }

    #[test]
    fn a_file_is_named_in_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sizes.txt");
        assert!(read_cdf(&path).unwrap_err().contains("sizes.txt"));
        std::fs::write(&path, "0 0\n1 2\n").unwrap();
        assert!(read_cdf(&path).unwrap_err().contains("sizes.txt, line 2"));
        std::fs::write(&path, "0 0\n10 1\n").unwrap();
        assert_eq!(read_cdf(&path).unwrap(), [(0.0, 0.0), (10.0, 1.0)]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a-z #.,\\n-]{0,60}") {
            if let Ok(points) = parse_cdf(&text) {
                prop_assert!(points.last().is_some_and(|(_, p)| p.total_cmp(&1.0).is_eq()));
                prop_assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
            }
        }
    }
}
