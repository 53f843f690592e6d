//! The binding: one door between Python and the core.
//!
//! Histories cross as files or as JSON Lines; results cross as plain tuples, which `isolde._core` gives
//! their types. Every function lets go of the interpreter while it works, and no panic gets through.

// `create_exception!` and `#[pymodule]` expand to items that cannot carry documentation of their own.
#![allow(missing_docs)]

mod analysis;
mod explore;
mod generate;
mod history;
mod input;
mod layout;
mod out_of_memory;
mod pipe;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use isolde_history::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

create_exception!(_native, Malformed, PyException, "An input is not a history: line, field, found, expected, before.");
create_exception!(
    _native,
    Unusable,
    PyException,
    "Evidence does not fit its history: the part, the place there, the place in that."
);
create_exception!(_native, Refused, PyException, "A format cannot say what a history holds: the reason.");

/// How often a running call looks for Ctrl-C.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own, so that Ctrl-C ends the call at once, and turns what goes wrong into
/// Python's exceptions. `work` is handed a question to ask now and then: whether to go on.
pub(crate) fn enter<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (send, receive) = sync_channel(1);
    let stopped = stop.clone();
    std::thread::spawn(move || {
        let keep_on = || !stopped.load(Ordering::Relaxed);
        // Nobody is left to be told when the call was interrupted.
        let _ = send.send(catch_unwind(AssertUnwindSafe(|| work(&keep_on))));
    });
    // Waiting without the interpreter needs something that threads may share.
    let receive = Mutex::new(receive);
    let wait = || receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNAL_POLL);
    let answer = loop {
        match py.detach(wait) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    stop.store(true, Ordering::Relaxed);
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the core gave no answer")),
        }
    };
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Error::Io(error))) => Err(match error.raw_os_error() {
            Some(code) => PyOSError::new_err((code, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        }),
        Ok(Err(Error::Malformed(wrong))) => {
            Err(Malformed::new_err((wrong.line, wrong.field, wrong.found, wrong.expected, wrong.transactions_before)))
        }
        Ok(Err(Error::Refused(reason))) => Err(Refused::new_err(reason)),
        Ok(Err(Error::Interrupted)) => Err(PyKeyboardInterrupt::new_err(())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Err(PyRuntimeError::new_err(format!("the core failed: {}", text.unwrap_or_default())))
        }
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // What panics is caught and told as an exception; the default hook would print it as well.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("Malformed", module.py().get_type::<Malformed>())?;
    module.add("Refused", module.py().get_type::<Refused>())?;
    module.add("Unusable", module.py().get_type::<Unusable>())?;
    module.add_class::<history::History>()?;
    module.add_class::<history::Orders>()?;
    module.add_class::<input::Input>()?;
    module.add_class::<analysis::Analysis>()?;
    module.add_function(wrap_pyfunction!(analysis::question_names, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::relation_names, module)?)?;
    module.add_function(wrap_pyfunction!(input::read_directory, module)?)?;
    module.add_function(wrap_pyfunction!(input::foreign_formats, module)?)?;
    module.add_function(wrap_pyfunction!(input::write_lines, module)?)?;
    module.add_function(wrap_pyfunction!(input::write_lines_as_parquet, module)?)?;
    module.add_class::<explore::Exploration>()?;
    module.add_function(wrap_pyfunction!(explore::exploration_levels, module)?)?;
    module.add_class::<generate::Plans>()?;
    module.add_function(wrap_pyfunction!(generate::generate, module)?)?;
    module.add_function(wrap_pyfunction!(generate::generator_names, module)?)?;
    module.add_function(wrap_pyfunction!(layout::layered, module)?)?;
    Ok(())
}
