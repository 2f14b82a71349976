//! Observers: they read partitions between two windows and change nothing.

pub(crate) mod deadlock;
pub(crate) mod notes;
pub(crate) mod paths;
pub(crate) mod pause_tree;
pub(crate) mod ports;
pub(crate) mod sampler;
pub(crate) mod states;
pub(crate) mod view;
