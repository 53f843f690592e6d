//! Inputs that are looked into before they are read.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use isolde_history as core;
use isolde_history::{Error, FORMATS, FailedCas, Output, Reading, Source};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter;
use crate::history::{History, compression_named, create, format_named};
use crate::pipe;

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
                Some(path) => Source::open(pipe::open(&path)?)?,
                None => Source::open(io::stdin())?,
            })
        })?;
        Ok(Input { head: source.head().to_vec(), source: Mutex::new(Some(source)) })
    }

    /// What is in memory already.
    #[staticmethod]
    fn of(content: &[u8]) -> PyResult<Input> {
        let source = Source::open(std::io::Cursor::new(content.to_vec()))?;
        Ok(Input { head: source.head().to_vec(), source: Mutex::new(Some(source)) })
    }

    /// The first bytes.
    fn head<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.head)
    }

    /// Everything, as it is.
    fn content<'py>(&self, py: Python<'py>, reading: ReadingTuple) -> PyResult<Bound<'py, PyBytes>> {
        let (source, reading) = (self.take()?, reading_of(reading));
        let content = enter(py, move |mut keep_on| core::read_whole(source.into_read(), &reading, &mut keep_on))?;
        Ok(PyBytes::new(py, &content))
    }

    /// The lines of a Parquet file that has nothing else.
    fn lines<'py>(&self, py: Python<'py>, reading: ReadingTuple) -> PyResult<Bound<'py, PyBytes>> {
        let (source, reading) = (self.take()?, reading_of(reading));
        let text =
            enter(py, move |mut keep_on| core::read_lines_of_parquet(source.into_read(), &reading, &mut keep_on))?;
        Ok(PyBytes::new(py, &text))
    }

    /// The history in this format.
    fn read(&self, py: Python<'_>, format: &str, threads: usize, reading: ReadingTuple) -> PyResult<History> {
        let (source, reading) = (self.take()?, reading_of(reading));
        let history = match format {
            "jsonl" => enter(py, move |keep_on| core::read_jsonl(source.into_read(), threads, &reading, keep_on)),
            "parquet" => enter(py, move |keep_on| core::read_parquet(source.into_read(), threads, &reading, keep_on)),
            other => {
                let format = format_named(other)?;
                enter(py, move |keep_on| core::read_foreign(format, source.into_read(), &reading, keep_on))
            }
        };
        Ok(history?.into())
    }
}

/// Writes a text as it is, packed if asked for; without a path, to standard output.
#[pyfunction]
pub fn write_lines(py: Python<'_>, text: Vec<u8>, path: Option<PathBuf>, compression: &str) -> PyResult<()> {
    let compression = compression_named(compression);
    enter(py, move |_| {
        let mut output = Output::new(create(path)?, compression)?;
        output.write_all(&text)?;
        Ok(output.finish()?)
    })
}

/// Writes the lines of a text to Parquet, a row each.
#[pyfunction]
pub fn write_lines_as_parquet(py: Python<'_>, text: String, path: PathBuf) -> PyResult<()> {
    enter(py, move |_| core::write_lines_as_parquet(&text, File::create(path).map_err(Error::Io)?))
}

/// Reads a history that is a directory.
#[pyfunction]
pub fn read_directory(py: Python<'_>, format: &str, path: PathBuf, reading: ReadingTuple) -> PyResult<History> {
    let (format, reading) = (format_named(format)?, reading_of(reading));
    let history = enter(py, move |keep_on| core::read_foreign_directory(format, &path, &reading, keep_on))?;
    Ok(history.into())
}

/// Whether failed compare-and-sets are taken as compared, the limits of a line and of the whole, in bytes, and the initial value.
pub(crate) type ReadingTuple = (bool, Option<u64>, Option<u64>, Option<i64>);

fn reading_of((compared, line_bytes, size_bytes, initial): ReadingTuple) -> Reading {
    let line_bytes = line_bytes.unwrap_or(Reading::default().line_bytes);
    Reading { failed_cas: failed_cas_of(compared), line_bytes, size_bytes, initial }
}

/// What a failed compare-and-set means.
pub(crate) fn failed_cas_of(compared: bool) -> FailedCas {
    if compared { FailedCas::Compared } else { FailedCas::Aborted }
}

/// The names of the formats of other tools.
#[pyfunction]
pub fn foreign_formats() -> Vec<&'static str> {
    FORMATS.iter().map(|(name, _)| *name).collect()
}
