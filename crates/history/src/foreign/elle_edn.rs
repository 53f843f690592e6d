//! Jepsen's and Elle's operations in EDN: maps back to back, or all in one vector or list.

use std::io::Write;

use super::edn::Edn;
use super::elle::Recorder;
use super::elle_write::{Syntax, write_operations};
use super::text::utf8;
use super::{Writing, fault};
use crate::error::Result;
use crate::history::History;
use crate::line::snippet;
use crate::reading::FailedCas;

pub(super) fn read(content: &[u8], failed_cas: FailedCas) -> Result<History> {
    let text = utf8(content)?;
    let mut edn = Edn::new(text);
    let mut recorder = Recorder::new(failed_cas);
    let close = match edn.peek()? {
        Some(b'[') => Some(b']'),
        Some(b'(') => Some(b')'),
        _ => None,
    };
    let open = edn.line();
    if close.is_some() {
        edn.take(b'[');
        edn.take(b'(');
    }
    loop {
        edn.peek()?;
        let line = edn.line();
        let Some(operation) = edn.next()? else { break };
        recorder.operation(&operation, line)?;
    }
    if let Some(close) = close
        && !edn.take(close)
    {
        let expected = format!("{:?} at its end", char::from(close));
        return Err(fault(open, "", "a history that is never closed", expected).into());
    }
    if edn.peek()?.is_some() {
        let line = edn.line();
        return Err(fault(line, "", snippet(edn.rest()), "the end of the history").into());
    }
    recorder.finish()
}

/// One map a line, its fields in the order that the strictest readers ask for.
pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    write_operations(history, Syntax::Edn, writing, output)
}
