//! Progress of long computations, shown by Python, and Ctrl-C.

use pauseframe_topology::watch::{Stopped, Watch};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Instant;

/// Calls `progress` with stage, done and of about ten times a second, and looks for signals then.
pub(crate) struct PyWatch<'a> {
    progress: Option<&'a Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl<'a> PyWatch<'a> {
    pub(crate) fn new(progress: Option<&'a Py<PyAny>>) -> PyWatch<'a> {
        PyWatch { progress, last: Instant::now(), raised: None }
    }

    /// What stopped the computation: the exception of a signal or of the display.
    pub(crate) fn into_raised(self) -> Option<PyErr> {
        self.raised
    }
}

impl Watch for PyWatch<'_> {
    fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        if self.raised.is_some() {
            return Err(Stopped);
        }
        if self.last.elapsed() < crate::DISPLAY_EVERY {
            return Ok(());
        }
        self.last = Instant::now();
        let looked = Python::attach(|py| {
            if let Some(show) = self.progress {
                let now = PyDict::new(py);
                now.set_item("stage", stage)?;
                now.set_item("done", done)?;
                now.set_item("of", of)?;
                show.call1(py, (now,))?;
            }
            py.check_signals()
        });
        looked.map_err(|error| {
            self.raised = Some(error);
            Stopped
        })
    }
}
