//! The link of the tests.

use pauseframe_topology::Channel;
use pauseframe_units::{BitRate, Span};

pub(crate) const LINK: Channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
