//! Histories in columns, as Python holds them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use isolde_history as core;
use isolde_history::{Compression, Error, Output, Status};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter;

/// An immutable history in columns.
#[pyclass(frozen, module = "isolde._core._native")]
pub struct History {
    pub(crate) inner: Arc<core::History>,
}

impl From<core::History> for History {
    fn from(inner: core::History) -> Self {
        History { inner: Arc::new(inner) }
    }
}

#[pymethods]
impl History {
    /// Reads JSON Lines (plain, gzip, zstd) or Parquet; without a path, from standard input.
    #[staticmethod]
    fn read(py: Python<'_>, path: Option<PathBuf>, threads: usize) -> PyResult<History> {
        let history = enter(py, move |keep_on| {
            let Some(path) = path else {
                return core::read_jsonl(core::decompress(io::stdin())?, threads, keep_on);
            };
            let mut file = File::open(path)?;
            let mut head = Vec::new();
            (&mut file).take(4).read_to_end(&mut head)?;
            if core::is_parquet(&head) {
                return core::read_parquet(file, threads, keep_on);
            }
            // A pipe cannot be rewound, so what was looked at is put back in front.
            let rest = if file.rewind().is_ok() { io::Cursor::new(Vec::new()) } else { io::Cursor::new(head) };
            core::read_jsonl(core::decompress(rest.chain(file))?, threads, keep_on)
        })?;
        Ok(history.into())
    }

    /// Reads JSON Lines in memory.
    #[staticmethod]
    fn from_jsonl(py: Python<'_>, text: &[u8]) -> PyResult<History> {
        let text = text.to_vec();
        let history = enter(py, move |keep_on| core::read_jsonl(core::decompress(&text[..])?, 1, keep_on))?;
        Ok(history.into())
    }

    /// JSON Lines of these transactions, or of the whole history.
    #[pyo3(signature = (transactions=None))]
    fn to_jsonl<'py>(&self, py: Python<'py>, transactions: Option<Vec<u32>>) -> PyResult<Bound<'py, PyBytes>> {
        let inner = self.inner.clone();
        let text = enter(py, move |_| {
            let mut text = Vec::new();
            match transactions {
                None => core::write_jsonl(&inner, &mut text)?,
                Some(rows) => core::write_jsonl_rows(&inner, &rows, &mut text)?,
            }
            Ok(text)
        })?;
        Ok(PyBytes::new(py, &text))
    }

    /// Writes JSON Lines, packed as `compression` ("plain", "gzip", "zstd") says; without a path, to standard output.
    fn write_jsonl(&self, py: Python<'_>, path: Option<PathBuf>, compression: &str) -> PyResult<()> {
        let compression = match compression {
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            _ => Compression::Plain,
        };
        let inner = self.inner.clone();
        enter(py, move |_| {
            let output: Box<dyn Write> = match path {
                Some(path) => Box::new(File::create(path)?),
                None => Box::new(io::stdout().lock()),
            };
            let mut output = Output::new(output, compression)?;
            core::write_jsonl(&inner, &mut output)?;
            Ok(output.finish()?)
        })
    }

    /// Writes Parquet.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let inner = self.inner.clone();
        enter(py, move |_| core::write_parquet(&inner, File::create(path).map_err(Error::Io)?))
    }

    /// Transactions, committed, aborted, unknown, sessions, operations, keys.
    fn counts(&self) -> (usize, usize, usize, usize, usize, usize, usize) {
        let of = |status| self.inner.txns.status.iter().filter(|&&s| s == status).count();
        (
            self.inner.len(),
            of(Status::Committed),
            of(Status::Aborted),
            of(Status::Unknown),
            self.inner.sessions.len(),
            self.inner.ops.kind.len(),
            self.inner.keys.len(),
        )
    }

    /// The names of these transactions, as JSON text.
    fn ids(&self, transactions: Vec<u32>) -> Vec<String> {
        transactions.iter().map(|&txn| self.inner.json(self.inner.txns.id[txn as usize])).collect()
    }

    /// The lines that these transactions were read from; 0 where there is none.
    fn lines(&self, transactions: Vec<u32>) -> Vec<u32> {
        transactions.iter().map(|&txn| self.inner.txns.line[txn as usize]).collect()
    }
}
