//! The file format: length-prefixed protobuf messages, one `GlobalMetadata` and then `Node`s.

use crate::read::Source;
use crate::read::text::{ReadError, at_file};
use pauseframe_units::limits::Limit;
use prost::Message;

/// The protobuf message `ChakraProtoMsg.GlobalMetadata`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) attributes: Vec<Attribute>,
}

/// The protobuf message `ChakraProtoMsg.Node` without inputs and outputs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) control_dependencies: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) data_dependencies: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub(super) start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    pub(super) duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    pub(super) attributes: Vec<Attribute>,
}

/// The protobuf message `ChakraProtoMsg.AttributeProto` without lists and bytes: of such an attribute only the name is known.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "Value", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub(super) value: Option<Value>,
}

/// Values of attributes: numbers of all types that writers use, flags and text.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    /// The value as an integer; `None` for a fraction or another text.
    pub(super) fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::Double(value) => whole(value)?,
            Value::Float(value) => whole(value.into())?,
            Value::Int32(value) | Value::Sint32(value) | Value::Sfixed32(value) => value.into(),
            Value::Int64(value) | Value::Sint64(value) | Value::Sfixed64(value) => value.into(),
            Value::Uint32(value) | Value::Fixed32(value) => value.into(),
            Value::Uint64(value) | Value::Fixed64(value) => value.into(),
            Value::Bool(value) => value.into(),
            Value::Text(ref value) => value.parse().ok()?,
        })
    }
}

/// A number without a fraction that an `f64` represents exactly.
fn whole(value: f64) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i128)
}

/// Types of nodes in the Chakra format.
pub(super) const METADATA: i32 = 1;
pub(super) const MEMORY: std::ops::RangeInclusive<i32> = 2..=3;
pub(super) const COMPUTE: i32 = 4;
pub(super) const SEND: i32 = 5;
pub(super) const RECEIVE: i32 = 6;
pub(super) const COLLECTIVE: i32 = 7;

/// True if the bytes begin like a Chakra trace: metadata with a version or a "schema" attribute.
pub(in crate::read) fn recognise(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    // Plain text is not metadata, although some letters would be a valid length.
    let plain = bytes.iter().take(64).all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let metadata = GlobalMetadata::decode_length_delimited(&mut rest);
    !plain && metadata.is_ok_and(|first| !first.version.is_empty() || !first.attributes.is_empty())
}

/// Decodes the nodes of a file, which come after `before` nodes of other files.
pub(super) fn decode(source: &Source, before: usize) -> Result<Vec<Node>, ReadError> {
    let mut rest = source.bytes.as_slice();
    let total = rest.len();
    GlobalMetadata::decode_length_delimited(&mut rest)
        .map_err(|error| at_file(&source.name, format!("is not a Chakra trace, or cut short: {error}")))?;
    let mut nodes = Vec::new();
    let limit = Limit::Steps.value().map_err(|reason| at_file(&source.name, reason))?;
    while !rest.is_empty() {
        if (before + nodes.len()) as u64 >= limit {
            let reason = Limit::Steps.exceeded("nodes").unwrap_or_else(|reason| reason);
            return Err(at_file(&source.name, reason));
        }
        let at = total - rest.len();
        let node = Node::decode_length_delimited(&mut rest).map_err(|error| {
            let reason = format!("node {} (from byte {at} of {total}): {error}", nodes.len() + 1);
            at_file(&source.name, format!("is cut short or no Chakra trace: {reason}"))
        })?;
        nodes.push(node);
    }
    Ok(nodes)
}

impl Node {
    pub(super) fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.name == name)
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// If it has one that is not read, such as a list.
    pub(super) fn value(&self, name: &str) -> Result<Option<&Value>, String> {
        let Some(attribute) = self.attributes.iter().find(|attribute| attribute.name == name) else {
            return Ok(None);
        };
        let unread = || self.error(&format!("{name} is no single number or text"));
        attribute.value.as_ref().map(Some).ok_or_else(unread)
    }

    /// The value of the first attribute with one of these names, as a number.
    pub(super) fn number<T: TryFrom<i128>>(&self, names: &[&str]) -> Result<Option<T>, String> {
        let Some(name) = names.iter().find(|name| self.has(name)) else { return Ok(None) };
        let Some(value) = self.value(name)? else { return Ok(None) };
        let number = value.integer().and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.error(&format!("{name} is {value:?}")))
    }

    pub(super) fn required<T: TryFrom<i128>>(&self, name: &str) -> Result<T, String> {
        self.number(&[name])?.ok_or_else(|| self.error(&format!("has no {name}")))
    }

    pub(super) fn error(&self, reason: &str) -> String {
        format!("node {} ({}): {reason}", self.id, self.name)
    }

    /// The process group of a collective operation, whose name may be a number; `None`: all ranks.
    pub(super) fn group(&self) -> Result<Option<String>, String> {
        let Some(name) = ["pg_name", "comm_group"].into_iter().find(|name| self.has(name)) else {
            return Ok(None);
        };
        match self.value(name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(value) => {
                let number = value.integer().ok_or_else(|| self.error(&format!("{name} is {value:?}")))?;
                Ok(Some(number.to_string()))
            }
        }
    }
}
