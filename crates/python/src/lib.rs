//! The binding: one door between Python and the core.
//!
//! Histories cross as files or as JSON Lines; results cross as plain tuples, which `isolde._core` gives
//! their types. Every function lets go of the interpreter while it works, and no panic gets through.

// `create_exception!` and `#[pymodule]` expand to items that cannot carry documentation of their own.
#![allow(missing_docs)]

mod analysis;
mod generate;
mod history;

use std::panic::{AssertUnwindSafe, catch_unwind};

use isolde_history::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

create_exception!(_native, Malformed, PyException, "An input is not a history: line, field, found, expected, before.");

/// Runs `work` without the interpreter, and turns what goes wrong into Python's exceptions.
pub(crate) fn enter<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Error::Io(error))) => Err(error.into()),
        Ok(Err(Error::Malformed(wrong))) => {
            Err(Malformed::new_err((wrong.line, wrong.field, wrong.found, wrong.expected, wrong.transactions_before)))
        }
        Ok(Err(Error::Interrupted)) => Err(PyKeyboardInterrupt::new_err(())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Err(PyRuntimeError::new_err(format!("the core failed: {}", text.unwrap_or_default())))
        }
    }
}

/// Whether nobody pressed Ctrl-C; asked between blocks of work.
pub(crate) fn keep_on() -> bool {
    Python::attach(|py| py.check_signals().is_ok())
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Malformed", module.py().get_type::<Malformed>())?;
    module.add_class::<history::History>()?;
    module.add_class::<analysis::Analysis>()?;
    module.add_function(wrap_pyfunction!(generate::generate, module)?)?;
    module.add_function(wrap_pyfunction!(generate::generator_names, module)?)?;
    Ok(())
}
