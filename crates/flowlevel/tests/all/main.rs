//! Tests of the public interface: one file per subject, one binary.

mod dynamic;
mod fabrics;
mod linear_program;
mod max_min;
mod shares;
