//! Inputs that are looked into before they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use isolde_history as core;
use isolde_history::{FORMATS, Source};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter;
use crate::history::{History, format_named};

/// A file or standard input, unpacked if need be. It can be read once.
#[pyclass(frozen, module = "isolde._core._native")]
pub struct Input {
    head: Vec<u8>,
    source: Mutex<Option<Source>>,
}

impl Input {
    fn take(&self) -> PyResult<Source> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        source.ok_or_else(|| PyValueError::new_err("this input was read already"))
    }
}

#[pymethods]
impl Input {
    /// Opens a file; without a path, standard input.
    #[staticmethod]
    fn open(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Input> {
        let source = enter(py, move |_| {
            Ok(match path {
                Some(path) => Source::open(File::open(path)?)?,
                None => Source::open(io::stdin())?,
            })
        })?;
        Ok(Input { head: source.head().to_vec(), source: Mutex::new(Some(source)) })
    }

    /// The first bytes.
    fn head<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.head)
    }

    /// Everything, as it is.
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let source = self.take()?;
        let content = enter(py, move |_| {
            let mut content = Vec::new();
            source.into_read().read_to_end(&mut content)?;
            Ok(content)
        })?;
        Ok(PyBytes::new(py, &content))
    }

    /// The history in this format.
    fn read(&self, py: Python<'_>, format: &str, threads: usize) -> PyResult<History> {
        let source = self.take()?;
        let history = match format {
            "jsonl" => enter(py, move |keep_on| core::read_jsonl(source.into_read(), threads, keep_on)),
            "parquet" => enter(py, move |keep_on| core::read_parquet(source.into_read(), threads, keep_on)),
            other => {
                let format = format_named(other)?;
                enter(py, move |keep_on| core::read_foreign(format, source.into_read(), keep_on))
            }
        };
        Ok(history?.into())
    }
}

/// Reads a history that is a directory.
#[pyfunction]
pub fn read_directory(py: Python<'_>, format: &str, path: PathBuf) -> PyResult<History> {
    let format = format_named(format)?;
    let history = enter(py, move |keep_on| core::read_foreign_directory(format, &path, keep_on))?;
    Ok(history.into())
}

/// The names of the formats of other tools.
#[pyfunction]
pub fn foreign_formats() -> Vec<&'static str> {
    FORMATS.iter().map(|(name, _)| *name).collect()
}
