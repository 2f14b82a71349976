//! Panics as values with their place, without output on stderr.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A failed assertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// The violated assertion.
    pub message: String,
    /// The file, line and column, or "".
    pub place: String,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.place)
    }
}

impl std::error::Error for Panic {}

thread_local! {
    /// Depth of nested calls of [`caught`] in this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PLACE: Cell<String> = const { Cell::new(String::new()) };
}

/// Runs `work`; a panic in it becomes the error. Data that `work` was changing must not be used afterwards.
///
/// # Errors
/// The panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(keep_places);
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|payload| Panic { message: message(payload.as_ref()), place: PLACE.take() })
}

/// As the previous function, for a partition on its thread: the violated assertion and its place.
///
/// # Errors
/// The panic's message.
pub fn shield(work: &mut dyn FnMut()) -> Result<(), String> {
    caught(work).map_err(|panic| panic.to_string())
}

/// Only the hook knows the place. Uncaught panics behave as usual.
fn keep_places() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        if DEPTH.get() == 0 {
            before(panic);
        } else {
            PLACE.set(panic.location().map(ToString::to_string).unwrap_or_default());
        }
    }));
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a failed assertion without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_says_what_and_where() {
        assert_eq!(caught(|| 3), Ok(3));
        let text = String::from("a count");
        let panic = caught(|| assert!(text.is_empty(), "{text} is not 0")).unwrap_err();
        assert_eq!(panic.message, "a count is not 0");
        assert!(panic.place.contains("panics.rs:"), "{}", panic.place);
        // Of two nested calls the inner one catches first.
        let inner = caught(|| caught(|| panic!("inner")).unwrap_err().message);
        assert_eq!(inner.as_deref(), Ok("inner"));
    }
}
