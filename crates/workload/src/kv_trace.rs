//! Requests to a language model from a trace: when each arrived, and the tokens of its prompt.
//!
//! Read are Mooncake's JSON lines (`timestamp` in ms, `input_length`, `hash_ids`), Azure's CSV (`TIMESTAMP`, `ContextTokens`),
//! `BurstGPT`'s (`Timestamp` in s, `Request tokens`) and the columns `timestamp_ms`, `input_tokens`. Time counts from the first
//! request. Requests with equal time stamps (Mooncake's have steps of 3 s) arrive evenly until the next one.

use super::columns::refuse_doubles;
use super::context::{Context, TIME_MAX, TIMES, remedy_of_file};
use super::kv_transfer::Request;
use super::maker::at;
use chrono::NaiveDateTime;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::list_of_rows;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_schema::value::Setting;
use pauseframe_units::{Bytes, Span, counted, files};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const TOKENS: std::ops::RangeInclusive<u64> = 1..=100_000_000;

table! {
    /// One request
    #[derive(Copy)]
    pub struct TraceRequest {
        /// When it arrives
        arrival: Span = or_in(Span::ZERO, TIMES);
        /// Tokens of its prompt
        tokens: u64 = required_in(TOKENS);
        /// Tokens at its beginning whose cache both sides have: not computed and not sent; at least one token is
        cached: u64 = or_if_given_in(0, 0..=100_000_000);
    }
    pub fn try_read(t);
}

/// Requests as listed, or from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestTrace {
    /// The requests.
    pub requests: Vec<TraceRequest>,
    /// Factor for the times of arrival.
    pub time_scale: f64,
}

impl RequestTrace {
    pub(crate) fn read(t: &mut Table, context: &Context) -> Option<RequestTrace> {
        t.about("RequestTrace", "Requests as listed, or from a trace");
        let time_scale = t.or_in("time_scale", 1.0, 0.0..=1e6, "Factor for the times of arrival");
        let listed = t.rows("entries", "none: see file", "The requests themselves", TraceRequest::read);
        let doc = "Trace of Mooncake (.jsonl), or CSV of Azure, of BurstGPT, or with the columns timestamp_ms, input_tokens";
        let file = t.source::<String>("file", "none: see entries", doc);
        if t.is_documenting() {
            return None;
        }
        let requests = match (file, t.has("entries")) {
            (Some(_), true) => {
                t.check(
                    false,
                    "file",
                    || "requests are listed too".to_owned(),
                    "keep one of file and entries",
                );
                return None;
            }
            (Some(file), false) => from_file(t, &file, context)?,
            (None, given) => {
                t.check(given, "file", || "is required: a trace, or entries".to_owned(), "");
                listed?
            }
        };
        let key = if t.has("entries") { "entries" } else { "file" };
        t.check(!requests.is_empty(), key, || "there is no request in it".to_owned(), "");
        Some(RequestTrace { requests, time_scale })
    }

    /// The requests, with the bytes that prefill makes.
    pub(crate) fn requests(&self, bytes_per_token: Bytes) -> impl Iterator<Item = Request> {
        self.requests.iter().map(move |request| Request {
            arrival: at(Span::from_secs_f64(request.arrival.as_secs_f64() * self.time_scale).min(TIME_MAX)),
            bytes: request.tokens.saturating_sub(request.cached).max(1).saturating_mul(bytes_per_token.0),
        })
    }
}

/// Reads a trace and records it like a list in the scenario, so that the resolved scenario needs no file.
fn from_file(t: &mut Table, file: &str, context: &Context) -> Option<Vec<TraceRequest>> {
    let read = match read_trace(&context.base_dir.join(file)) {
        Ok(read) => read,
        Err(message) => {
            t.check(false, "file", || format!("{file}: {message}"), remedy_of_file(context, file));
            return None;
        }
    };
    for note in &read.notes {
        t.ledger.warn(format!("{file}: {note}"));
    }
    let text = |request: &TraceRequest| {
        let TraceRequest { arrival, tokens, cached } = request;
        let cached = if *cached > 0 { format!(", cached = {cached}") } else { String::new() };
        format!("{{ arrival = {}, tokens = {tokens}{cached} }}", arrival.toml())
    };
    let rows: Vec<String> = read.requests.iter().map(text).collect();
    t.ledger.entry(t.at("entries"), list_of_rows(&rows), Origin::Computed(format!("read from {file}")));
    Some(read.requests)
}

#[derive(Debug)]
struct Read {
    requests: Vec<TraceRequest>,
    notes: Vec<String>,
}

/// A request as it stands in a file: time stamp in nanoseconds, tokens, cached tokens.
type Row = (i64, u64, u64);

fn read_trace(path: &Path) -> Result<Read, String> {
    let text = files::read_rows(path).map_err(|error| error.to_string())?;
    let text = text.trim_start_matches('\u{feff}');
    let (mut rows, mut notes) =
        if text.trim_start().starts_with('{') { json_rows(text)? } else { csv_rows(text)? };
    let all = rows.len();
    rows.retain(|row| row.1 > 0);
    if rows.len() < all {
        notes.push(format!("left out: {} without tokens", counted(all - rows.len(), "request")));
    }
    let first = rows.iter().map(|row| row.0).min().unwrap_or_default();
    let since = |row: &Row| u64::try_from(row.0.saturating_sub(first)).unwrap_or(u64::MAX);
    if rows.iter().any(|row| since(row) > TIME_MAX.0 / 1000) {
        return Err(format!("some requests come more than {} after the first", TIME_MAX.plain()));
    }
    let arrivals: Vec<Span> = rows.iter().map(|row| Span::from_ns(since(row))).collect();
    let (spread, moved) = spread(&arrivals);
    if moved > 0 {
        notes.push(format!(
            "{moved} of {} requests have the time stamp of another: they arrive evenly until the next",
            rows.len()
        ));
    }
    let request = |(arrival, (_, tokens, cached)): (Span, Row)| TraceRequest { arrival, tokens, cached };
    Ok(Read { requests: spread.into_iter().zip(rows).map(request).collect(), notes })
}

/// Spreads requests with equal time stamps until the next; those of the last one over as long as those before. Returns how many it moved.
fn spread(arrivals: &[Span]) -> (Vec<Span>, usize) {
    let mut groups: BTreeMap<Span, Vec<usize>> = BTreeMap::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        groups.entry(*arrival).or_default().push(index);
    }
    let stamps: Vec<Span> = groups.keys().copied().collect();
    let (mut spread, mut moved, mut gap) = (arrivals.to_vec(), 0, Span::ZERO);
    for (number, (stamp, members)) in groups.iter().enumerate() {
        gap = stamps.get(number + 1).map_or(gap, |next| *next - *stamp);
        for (place, index) in members.iter().enumerate().skip(1) {
            let after = u128::from(gap.0) * place as u128 / members.len() as u128;
            spread[*index] = *stamp + Span(after as u64);
            moved += 1;
        }
    }
    (spread, moved)
}

/// Mooncake's lines. A block of 512 tokens whose id came earlier, as did all blocks before it, is cached.
fn json_rows(text: &str) -> Result<(Vec<Row>, Vec<String>), String> {
    const BLOCK: u64 = 512;
    const READ: [&str; 3] = ["timestamp", "input_length", "hash_ids"];
    let (mut rows, mut others) = (Vec::new(), BTreeSet::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let in_line = |message: String| format!("line {number}: {message}");
        let value: Value = serde_json::from_str(line).map_err(|error| in_line(no_json(&error)))?;
        let time = value.get("timestamp").and_then(Value::as_f64);
        let time = time.ok_or_else(|| in_line("there is no number \"timestamp\"".to_owned()))?;
        let tokens = value.get("input_length").and_then(Value::as_u64);
        let tokens = tokens.ok_or_else(|| in_line("there is no whole number \"input_length\"".to_owned()))?;
        let ids = value.get("hash_ids").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let blocks: Option<Vec<u64>> = ids.iter().map(Value::as_u64).collect();
        let blocks = blocks.ok_or_else(|| in_line("\"hash_ids\" are not whole numbers".to_owned()))?;
        if !blocks.is_empty() && blocks.len() as u64 != tokens.div_ceil(BLOCK) {
            let count = blocks.len();
            return Err(in_line(format!(
                "{count} blocks for {tokens} tokens: Mooncake's blocks have {BLOCK}, and its times are in ms"
            )));
        }
        others.extend(
            value
                .as_object()
                .into_iter()
                .flat_map(|row| row.keys())
                .filter(|key| !READ.contains(&key.as_str()))
                .cloned(),
        );
        rows.push((checked(time / 1e3, tokens).map_err(in_line)?, blocks));
    }
    rows.sort_by_key(|(row, _)| row.0);
    let mut known: BTreeSet<u64> = BTreeSet::new();
    let mut with_cached = |((time, tokens, _), blocks): (Row, Vec<u64>)| {
        let cached = blocks.iter().take_while(|block| known.contains(block)).count() as u64 * BLOCK;
        known.extend(blocks);
        (time, tokens, cached.min(tokens.saturating_sub(1)))
    };
    let rows = rows.into_iter().map(&mut with_cached).collect();
    Ok((rows, left_out(others.iter().map(String::as_str))))
}

/// A mistake of JSON in one line, whose number the caller adds.
fn no_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    format!("column {}: {reason}", error.column())
}

/// What is not read of each request.
fn left_out<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { Vec::new() } else { vec![format!("left out: {}", names.join(", "))] }
}

fn checked(seconds: f64, tokens: u64) -> Result<Row, String> {
    if tokens > *TOKENS.end() {
        return Err(format!("{tokens} tokens are more than {}", TOKENS.end()));
    }
    if !(-8e9..8e9).contains(&seconds) {
        return Err(format!("{seconds} s is no time stamp"));
    }
    Ok(((seconds * 1e9).round() as i64, tokens, 0))
}

/// Columns of time and tokens, and seconds of a unit of time; `None`: date and time of day.
const FORMS: [(&str, &str, Option<f64>); 3] = [
    ("timestamp_ms", "input_tokens", Some(1e-3)),
    ("Timestamp", "Request tokens", Some(1.0)),
    ("TIMESTAMP", "ContextTokens", None),
];

fn csv_rows(text: &str) -> Result<(Vec<Row>, Vec<String>), String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    refuse_doubles(headers.iter(), &FORMS.map(|(time, _, _)| time))?;
    refuse_doubles(headers.iter(), &FORMS.map(|(_, tokens, _)| tokens))?;
    let column = |name: &str| headers.iter().position(|header| header == name);
    let form = FORMS.iter().find_map(|(time, tokens, unit)| Some((column(time)?, column(tokens)?, *unit)));
    let (time, tokens, unit) = form.ok_or_else(|| {
        let known: Vec<String> =
            FORMS.iter().map(|(time, tokens, _)| format!("{time} and {tokens}")).collect();
        format!(
            "expected JSON lines, or the columns {}; found {}",
            known.join(", or "),
            headers.iter().collect::<Vec<_>>().join(", ")
        )
    })?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = csv_row(&record[time], &record[tokens], unit);
        rows.push(row.map_err(|error| format!("line {line}: {error}"))?);
    }
    let others = headers.iter().enumerate().filter(|(index, _)| *index != time && *index != tokens);
    Ok((rows, left_out(others.map(|(_, name)| name))))
}

fn csv_row(time: &str, tokens: &str, unit: Option<f64>) -> Result<Row, String> {
    let count: u64 = tokens.parse().map_err(|_| format!("{tokens:?} is not a whole number of tokens"))?;
    let Some(unit) = unit else {
        let text = time.trim_end_matches("+00:00");
        let at = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
        let ns = at.ok().and_then(|at| at.and_utc().timestamp_nanos_opt());
        let ns = ns.ok_or_else(|| format!("{time:?} is not like 2023-11-16 18:15:46.68"))?;
        return checked(0.0, count).map(|(_, tokens, cached)| (ns, tokens, cached));
    };
    let number: f64 = time.parse().map_err(|_| format!("{time:?} is not a number"))?;
    checked(number * unit, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Vec<(u64, u64, u64)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let short =
            |request: &TraceRequest| (request.arrival.0 / 1_000_000_000, request.tokens, request.cached);
        read_trace(&path).map(|read| read.requests.iter().map(short).collect())
    }

    #[test]
    fn the_formats_of_four_traces() {
        let mooncake = "{\"timestamp\": 3000, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}\n\
            {\"timestamp\": 3000, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [0, 1]}\n\
            {\"timestamp\": 6000, \"input_length\": 1500, \"output_length\": 5, \"hash_ids\": [0, 9, 1]}\n\
            {\"timestamp\": 6000, \"input_length\": 7, \"output_length\": 5, \"hash_ids\": [8]}\n";
        // The whole second prompt is known but for one token; of the third the first block.
        assert_eq!(
            read("a.jsonl", mooncake).unwrap(),
            [(0, 1100, 0), (1500, 1024, 1023), (3000, 1500, 512), (4500, 7, 0)]
        );
        assert_eq!(
            read("a.csv", "timestamp_ms,input_tokens,output_tokens\n5,10,1\n9,20,1\n").unwrap(),
            [(0, 10, 0), (4, 20, 0)]
        );
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n2.5,ChatGPT,472,18,490,Conversation log\n4,GPT-4,3,1,4,API log\n";
        assert_eq!(read("b.csv", burst).unwrap(), [(0, 472, 0), (1500, 3, 0)]);
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
        assert_eq!(read("c.csv", azure).unwrap(), [(0, 374, 0), (4314, 396, 0)]);
        let later = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01.009930+00:00,1,5\n";
        assert_eq!(read("d.csv", later).unwrap(), [(0, 2162, 0), (1000, 1, 0)]);
    }

    #[test]
    fn what_came_earlier_is_cached_whatever_the_order_of_lines_and_requests_without_tokens_are_left_out() {
        let lines = "{\"timestamp\": 10, \"input_length\": 600, \"hash_ids\": [0, 1]}\n\
            {\"timestamp\": 0, \"input_length\": 700, \"hash_ids\": [0, 1]}\n{\"timestamp\": 5, \"input_length\": 0}\n";
        assert_eq!(read("a.jsonl", lines).unwrap(), [(0, 700, 0), (10, 600, 599)]);
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let wrong = [
            ("a.csv", "a,b\n1,2\n", "expected JSON lines, or the columns timestamp_ms and input_tokens"),
            (
                "a.csv",
                "timestamp_ms,input_tokens\n1,2\n3,-4\n",
                "line 3: \"-4\" is not a whole number of tokens",
            ),
            (
                "a.csv",
                "timestamp_ms,input_tokens\n1,100000001\n",
                "line 2: 100000001 tokens are more than 100000000",
            ),
            (
                "a.jsonl",
                "{\"timestamp\": 61.5, \"input_length\": 100, \"hash_ids\": [1, 2, 3, 4, 5, 6, 7]}\n",
                "line 1: 7 blocks for 100 tokens: Mooncake's blocks have 512",
            ),
            (
                "a.jsonl",
                "{\"timestamp\": 61.5, \"input_length\": 100, \"hash_ids\": [\"x\"]}\n",
                "line 1: \"hash_ids\" are not whole numbers",
            ),
            ("a.csv", "timestamp_ms,input_tokens\nnan,4\n", "line 2: NaN s is no time stamp"),
            ("a.csv", "timestamp_ms,input_tokens\n0,4\n1e12,4\n", "more than 2400 h after the first"),
            ("a.csv", "TIMESTAMP,ContextTokens\n18:15,4\n", "line 2: \"18:15\" is not like 2023"),
            ("a.jsonl", "{\"timestamp\": 1}\n", "line 1: there is no whole number \"input_length\""),
            ("a.jsonl", "{\"timestamp\": 1, \"input_length\": 2}\n{\"tim", "line 2: column 5: EOF"),
        ];
        for (name, text, message) in wrong {
            let found = read(name, text).unwrap_err();
            assert!(found.contains(message), "{found}");
        }
    }
}
