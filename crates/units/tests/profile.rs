//! All tests of the workspace run optimised and rely on overflow checks: an arithmetic overflow must panic.

use std::hint::black_box;

#[test]
#[should_panic(expected = "attempt to add with overflow")]
fn overflows_are_caught() {
    black_box(black_box(u64::MAX) + black_box(1));
}

#[test]
#[should_panic(expected = "caught")]
fn assertions_are_on() {
    debug_assert!(black_box(false), "caught");
}
