//! Synthetic histories.

use isolde_generator::{Anomaly, Distribution, Level, Parameters, Workload};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::enter;
use crate::history::History;

fn named<T: Copy>(all: &[(&str, T)], kind: &str, name: &str) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| PyValueError::new_err(format!("no {kind} {name:?}")))
}

/// Generates a history; impossible parameters are a `ValueError` that says why.
#[pyfunction]
#[pyo3(signature = (*, sessions, transactions, keys, operations, distribution, workload, level, abort_rate, unknown_rate, blind_writes, versions, inject, seed))]
#[allow(clippy::too_many_arguments)]
pub fn generate(
    py: Python<'_>,
    sessions: u32,
    transactions: u64,
    keys: u32,
    operations: u32,
    distribution: &str,
    workload: &str,
    level: &str,
    abort_rate: f64,
    unknown_rate: f64,
    blind_writes: Option<f64>,
    versions: f64,
    inject: Vec<String>,
    seed: u64,
) -> PyResult<History> {
    let inject: PyResult<Vec<Anomaly>> = inject.iter().map(|name| named(Anomaly::ALL, "anomaly", name)).collect();
    let parameters = Parameters {
        sessions,
        transactions,
        keys,
        ops_per_transaction: operations,
        distribution: named(Distribution::ALL, "distribution", distribution)?,
        workload: named(Workload::ALL, "workload", workload)?,
        level: named(Level::ALL, "level", level)?,
        abort_rate,
        unknown_rate,
        blind_writes,
        versions,
        inject: inject?,
        seed,
    };
    let history = enter(py, move |_| Ok(isolde_generator::generate(&parameters)))?;
    history.map(History::from).map_err(PyValueError::new_err)
}

/// The names that `generate` takes: workloads, distributions, levels, anomalies.
#[pyfunction]
pub fn generator_names() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    fn names<T>(all: &[(&'static str, T)]) -> Vec<&'static str> {
        all.iter().map(|(name, _)| *name).collect()
    }
    (names(Workload::ALL), names(Distribution::ALL), names(Level::ALL), names(Anomaly::ALL))
}
