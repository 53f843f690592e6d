//! Histories in columns, as Python holds them.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use isolde_history as core;
use isolde_history::{Compression, Error, Format, Output, Plain, Reading, Status, Writing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter;
use crate::input::failed_cas_of;

type PlainParts = (Option<Orders>, bool, Option<Vec<u32>>);

/// Orders of versions by the operations of a history.
#[pyclass(frozen, module = "isolde._core._native")]
pub struct Orders {
    pub(crate) chains: Arc<Vec<Vec<u32>>>,
}

#[pymethods]
impl Orders {
    fn __len__(&self) -> usize {
        self.chains.len()
    }

    /// The same by transactions and the places of their operations; `None` is an initial version.
    fn places(&self, history: &History) -> Vec<Vec<Option<(u32, u32)>>> {
        let ends = &history.inner.txns.ops_end;
        let place = |&op: &u32| {
            let txn = ends.partition_point(|&end| end <= op);
            let first = if txn == 0 { 0 } else { ends[txn - 1] };
            (op != core::INITIAL_VERSION).then(|| (txn as u32, op - first))
        };
        self.chains.iter().map(|chain| chain.iter().map(place).collect()).collect()
    }
}

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
    /// Reads JSON Lines in memory.
    #[staticmethod]
    fn from_jsonl(py: Python<'_>, text: &[u8]) -> PyResult<History> {
        let text = text.to_vec();
        let history =
            enter(py, move |keep_on| core::read_jsonl(core::decompress(&text[..])?, 1, &Reading::default(), keep_on))?;
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
        let (inner, compression) = (self.inner.clone(), compression_named(compression));
        enter(py, move |_| {
            let mut output = Output::new(create(path)?, compression)?;
            core::write_jsonl(&inner, &mut output)?;
            Ok(output.finish()?)
        })
    }

    /// Writes the format of another tool, as [`History::write_jsonl`] does; gives what was renamed or left out.
    fn write_foreign(
        &self,
        py: Python<'_>,
        format: &str,
        path: Option<PathBuf>,
        compression: &str,
        compared: bool,
        lossy: bool,
    ) -> PyResult<Vec<String>> {
        let format = format_named(format)?;
        let writing = Writing { failed_cas: failed_cas_of(compared), lossy };
        let (inner, compression) = (self.inner.clone(), compression_named(compression));
        enter(py, move |_| {
            if let (true, Some(path)) = (format.is_directory(), &path) {
                return core::write_foreign_directory(format, &inner, writing, path);
            }
            let mut output = Late { path, compression, output: None };
            let notes = core::write_foreign(format, &inner, writing, &mut output)?;
            output.finish()?;
            Ok(notes)
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

    /// The length of one of `parts` equal parts of the time, and of each how many committed, were aborted and are of unknown outcome,
    /// with the median and the longest time of those that committed; `None` where no transaction has times.
    #[allow(clippy::type_complexity)]
    fn pace(&self, parts: usize) -> Option<(i64, Vec<(u64, u64, u64, Option<(i64, i64)>)>)> {
        let (length, found) = core::pace(&self.inner, parts)?;
        Some((length, found.into_iter().map(|one| (one.committed, one.aborted, one.unknown, one.took)).collect()))
    }

    /// At most so many parts that have no key and no session in common: the transactions of each, and their JSON Lines.
    #[allow(clippy::type_complexity)]
    fn components<'py>(
        &self,
        py: Python<'py>,
        session_order: bool,
        most: usize,
    ) -> PyResult<Option<Vec<(Vec<u32>, Bound<'py, PyBytes>)>>> {
        let inner = self.inner.clone();
        let found = enter(py, move |_| Ok(core::components(&inner, session_order, most)))?;
        Ok(found.map(|parts| parts.into_iter().map(|part| (part.rows, PyBytes::new(py, &part.text))).collect()))
    }

    /// The names of these transactions, as JSON text.
    fn ids(&self, transactions: Vec<u32>) -> Vec<String> {
        transactions.iter().map(|&txn| self.inner.json(self.inner.txns.id[txn as usize])).collect()
    }

    /// The orders that a plain certificate tells and whether they are complete, or its serial order; `None` if it is not plain.
    fn plain_certificate(&self, py: Python<'_>, text: &[u8]) -> PyResult<Option<PlainParts>> {
        let (inner, text) = (self.inner.clone(), text.to_vec());
        let plain = enter(py, move |_| Ok(core::plain_certificate(&inner, &text)))?;
        Ok(plain.map(|plain| match plain {
            Plain::Orders { chains, complete } => (Some(Orders { chains: Arc::new(chains) }), complete, None),
            Plain::Serial(serial) => (None, false, Some(serial)),
        }))
    }

    /// The lines that these transactions were read from; 0 where there is none.
    fn lines(&self, transactions: Vec<u32>) -> Vec<u32> {
        transactions.iter().map(|&txn| self.inner.txns.line[txn as usize]).collect()
    }
}

/// The format of another tool by its name.
pub(crate) fn format_named(name: &str) -> PyResult<Format> {
    Format::named(name).ok_or_else(|| PyValueError::new_err(format!("no format is called {name:?}")))
}

/// How an output is packed.
pub(crate) fn compression_named(name: &str) -> Compression {
    match name {
        "gzip" => Compression::Gzip,
        "zstd" => Compression::Zstd,
        _ => Compression::Plain,
    }
}

/// An output that is created, or overwritten, when the first bytes are written: not if the history is refused.
struct Late {
    path: Option<PathBuf>,
    compression: Compression,
    output: Option<Output<Box<dyn Write>>>,
}

impl Late {
    fn created(&mut self) -> io::Result<&mut Output<Box<dyn Write>>> {
        if self.output.is_none() {
            self.output = Some(Output::new(create(self.path.take())?, self.compression)?);
        }
        Ok(self.output.as_mut().expect("it was just created"))
    }

    fn finish(mut self) -> io::Result<()> {
        self.created()?;
        self.output.map_or(Ok(()), Output::finish)
    }
}

impl Write for Late {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.created()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.created()?.flush()
    }
}

/// A file, or standard output.
pub(crate) fn create(path: Option<PathBuf>) -> io::Result<Box<dyn Write>> {
    Ok(match path {
        Some(path) => Box::new(File::create(path)?),
        None => Box::new(io::stdout().lock()),
    })
}
