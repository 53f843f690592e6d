//! Synthetic histories.

use isolde_generator::{Anomaly, Distribution, Level, Parameters, Skew, Workload};
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
#[pyo3(signature = (*, sessions, transactions, keys, operations, distribution, workload, level, abort_rate, unknown_rate, blind_writes, versions, inject, seed, exponent, hot_keys, hot_accesses, concurrent))]
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
    exponent: Option<f64>,
    hot_keys: Option<f64>,
    hot_accesses: Option<f64>,
    concurrent: f64,
) -> PyResult<History> {
    let inject: PyResult<Vec<Anomaly>> = inject.iter().map(|name| named(Anomaly::ALL, "anomaly", name)).collect();
    let parameters = Parameters {
        sessions,
        transactions,
        keys,
        ops_per_transaction: operations,
        distribution: named(Distribution::ALL, "distribution", distribution)?,
        skew: Skew { exponent, hot_keys, hot_accesses },
        concurrent,
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

/// The transactions that one client of a real database means to send.
#[pyclass]
pub struct Plans(isolde_generator::Plans);

#[pymethods]
impl Plans {
    #[new]
    #[pyo3(signature = (*, workload, session, keys, operations, distribution, blind_writes, deletes, seed, exponent, hot_keys, hot_accesses))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        workload: &str,
        session: u32,
        keys: u32,
        operations: u32,
        distribution: &str,
        blind_writes: Option<f64>,
        deletes: f64,
        seed: u64,
        exponent: Option<f64>,
        hot_keys: Option<f64>,
        hot_accesses: Option<f64>,
    ) -> PyResult<Plans> {
        let parameters = Parameters {
            sessions: 1,
            transactions: 0,
            keys,
            ops_per_transaction: operations,
            distribution: named(Distribution::ALL, "distribution", distribution)?,
            skew: Skew { exponent, hot_keys, hot_accesses },
            concurrent: 1.0,
            workload: named(Workload::ALL, "workload", workload)?,
            // No store is simulated; a list that the client itself appended to may be read back.
            level: Level::StrictSerializable,
            abort_rate: 0.0,
            unknown_rate: 0.0,
            blind_writes,
            versions: 0.0,
            inject: Vec::new(),
            seed,
        };
        let plans = isolde_generator::Plans::new(&parameters, session, deletes);
        plans.map(Plans).map_err(PyValueError::new_err)
    }

    /// The next transaction: what is meant to be done to which key, in order.
    fn next(&mut self) -> Vec<(u8, u32)> {
        self.0.next_plan().into_iter().map(|(intent, key)| (intent as u8, key)).collect()
    }
}
