//! Plain certificates of histories over keys, matched with the history's columns in one pass over their text.
//!
//! A plain certificate has orders of versions and nothing about reads, or a serial order and nothing else, and everything in it fits
//! the history. Whatever is not plain, or wrong, is left to the reader that says what and where: the answer is `None`.

use jiter::JsonValue;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::history::{History, Op, Status};
use crate::value::{Kind, Value};

/// Where a chain begins with the initial version.
pub const INITIAL_VERSION: u32 = u32::MAX;

/// What a plain certificate says.
#[derive(Debug, PartialEq, Eq)]
pub enum Plain {
    /// Orders of the versions of keys.
    Orders {
        /// The versions of a key, oldest first: the operations that wrote them, and perhaps [`INITIAL_VERSION`] first.
        chains: Vec<Vec<u32>>,
        /// Whether the order of every key that was written is told as a whole.
        complete: bool,
    },
    /// The transactions in the order in which the database says that they took effect.
    Serial(Vec<u32>),
}

/// Reads a certificate beside its history; `None` if it is not plain.
pub fn plain_certificate(history: &History, text: &[u8]) -> Option<Plain> {
    if history.txns.status.contains(&Status::Unknown) {
        return None;
    }
    let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let header = JsonValue::parse(lines.next()?, false).ok()?;
    if !is_header(&header) {
        return None;
    }
    let mut reader = Reader::new(history);
    for line in lines {
        reader.line(&JsonValue::parse(line, false).ok()?)?;
    }
    reader.whole()
}

fn is_header(line: &JsonValue) -> bool {
    let JsonValue::Object(fields) = line else { return false };
    fields.len() == fields.iter().map(|(name, _)| name).collect::<FxHashSet<_>>().len()
        && fields.iter().all(|(name, value)| match (name.as_ref(), value) {
            ("isolde", JsonValue::Str(word)) => word == "certificate",
            ("version", JsonValue::Int(version)) => *version == 1,
            ("source", value) => matches!(value, JsonValue::Str(_)),
            _ => false,
        })
        && ["isolde", "version"].iter().all(|wanted| fields.iter().any(|(name, _)| name == wanted))
}

/// The name of a transaction or a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'a> {
    Int(i64),
    Text(&'a str),
}

fn name_of(history: &History, value: Value) -> Option<Name<'_>> {
    match history.atoms.kind(value) {
        Kind::Int(i) => Some(Name::Int(i)),
        Kind::Text(text) => Some(Name::Text(text)),
        _ => None,
    }
}

fn named<'a>(value: &'a JsonValue) -> Option<Name<'a>> {
    match value {
        JsonValue::Int(i) => Some(Name::Int(*i)),
        JsonValue::Str(text) => Some(Name::Text(text)),
        _ => None,
    }
}

struct Reader<'h> {
    history: &'h History,
    txns: FxHashMap<Name<'h>, u32>,
    keys: FxHashMap<Name<'h>, u32>,
    /// The last operation of each transaction that writes a key, by both; aborted ones are left out.
    last: FxHashMap<(u32, u32), u32>,
    /// By key, how many transactions wrote it.
    writers: Vec<u32>,
    chains: Vec<Vec<u32>>,
    told: Vec<bool>,
    whole: Vec<bool>,
    commits: bool,
    serial: Option<Vec<u32>>,
}

impl<'h> Reader<'h> {
    fn new(history: &'h History) -> Self {
        let txns = (0..history.len() as u32)
            .filter_map(|txn| Some((name_of(history, history.txns.id[txn as usize])?, txn)))
            .collect();
        let keys: FxHashMap<Name, u32> = (0..history.keys.len() as u32)
            .filter_map(|key| Some((name_of(history, history.keys.name(key))?, key)))
            .collect();
        let (mut last, mut writers) = (FxHashMap::default(), vec![0; history.keys.len()]);
        for txn in 0..history.len() as u32 {
            if history.txns.status[txn as usize] == Status::Aborted {
                continue;
            }
            for op in history.ops_of(txn) {
                if let Some(key) = written(history, op)
                    && last.insert((txn, key), op as u32).is_none()
                {
                    writers[key as usize] += 1;
                }
            }
        }
        let (told, whole) = (vec![false; history.keys.len()], vec![false; history.keys.len()]);
        Reader { history, txns, keys, last, writers, chains: Vec::new(), told, whole, commits: false, serial: None }
    }

    fn line(&mut self, line: &JsonValue) -> Option<()> {
        let JsonValue::Object(fields) = line else { return None };
        let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        match (fields.len(), field("object"), field("versions"), field("partial"), field("commits"), field("serial")) {
            (2, Some(object), Some(JsonValue::Array(versions)), None, None, None) => {
                self.order(object, versions, false)
            }
            (3, Some(object), Some(JsonValue::Array(versions)), Some(JsonValue::Bool(partial)), None, None) => {
                self.order(object, versions, *partial)
            }
            (1, None, None, None, Some(JsonValue::Array(names)), None) if !self.commits => {
                self.commits = true;
                self.transactions(names).map(|_| ())
            }
            (1, None, None, None, None, Some(JsonValue::Array(names))) if self.serial.is_none() => {
                self.serial = Some(self.transactions(names)?);
                Some(())
            }
            _ => None,
        }
    }

    fn transactions(&self, names: &[JsonValue]) -> Option<Vec<u32>> {
        let mut seen = FxHashSet::default();
        names.iter().map(|name| self.txns.get(&named(name)?).copied().filter(|&txn| seen.insert(txn))).collect()
    }

    fn order(&mut self, object: &JsonValue, versions: &[JsonValue], partial: bool) -> Option<()> {
        let key = *self.keys.get(&named(object)?)?;
        if std::mem::replace(&mut self.told[key as usize], true) {
            return None;
        }
        let begins = matches!(versions.first(), Some(JsonValue::Null));
        let mut chain: Vec<u32> = Vec::with_capacity(versions.len() + 1);
        if begins || !partial {
            chain.push(INITIAL_VERSION);
        }
        let (mut seen, mut before, mut whole) = (FxHashSet::default(), None, 0);
        for version in &versions[usize::from(begins)..] {
            let (txn, op) = self.version(version, key)?;
            if before == Some(txn) {
                // Of a transaction's versions the last is the one that is installed.
                chain.pop();
            } else if !seen.insert(txn) {
                return None;
            }
            before = Some(txn);
            chain.push(op);
        }
        for &op in chain.iter().filter(|&&op| op != INITIAL_VERSION) {
            let txn = self.history.txns.ops_end.partition_point(|&end| end <= op) as u32;
            whole += u32::from(self.last.get(&(txn, key)) == Some(&op));
        }
        if !partial && whole < self.writers[key as usize] {
            return None;
        }
        self.whole[key as usize] = !partial;
        if !seen.is_empty() {
            self.chains.push(chain);
        }
        Some(())
    }

    /// A version: its transaction, and the operation that wrote it.
    fn version(&self, version: &JsonValue, key: u32) -> Option<(u32, u32)> {
        let JsonValue::Array(pair) = version else { return None };
        let [name, JsonValue::Int(place)] = &pair[..] else { return None };
        let txn = *self.txns.get(&named(name)?)?;
        let ops = self.history.ops_of(txn);
        let op = ops.start.checked_add(usize::try_from(*place).ok()?)?;
        let fits = ops.contains(&op)
            && self.history.txns.status[txn as usize] == Status::Committed
            && written(self.history, op) == Some(key);
        fits.then_some((txn, op as u32))
    }

    fn whole(self) -> Option<Plain> {
        let history = self.history;
        let any_order = self.told.contains(&true);
        let Some(serial) = self.serial else {
            // Elements of lists say who appended them: what is not told of their order is not guessed.
            let complete =
                !history.has_lists() && (0..history.keys.len()).all(|key| self.whole[key] || self.writers[key] == 0);
            return any_order.then_some(Plain::Orders { chains: self.chains, complete });
        };
        let committed = |&txn: &u32| history.txns.status[txn as usize] == Status::Committed;
        let all = history.txns.status.iter().filter(|&&status| status == Status::Committed).count();
        let plain = !any_order && !self.commits && serial.len() == all && serial.iter().all(committed);
        plain.then_some(Plain::Serial(serial))
    }
}

fn written(history: &History, op: usize) -> Option<u32> {
    match history.op(op) {
        Op::Write(key, _) | Op::Append(key, _) => Some(key),
        Op::Cas(key, cas) if cas.applied => Some(key),
        Op::Read(..) | Op::Cas(..) | Op::Scan(_) | Op::Sql(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_jsonl_bytes;

    const HISTORY: &str = concat!(
        r#"{"isolde":"history","version":1}"#,
        "\n",
        r#"{"id":"a","session":1,"ops":[["w","x",1],["w","x",2]]}"#,
        "\n",
        r#"{"id":"b","session":2,"ops":[["w","x",3],["r","x",2]]}"#,
        "\n",
    );

    fn told(lines: &str) -> Option<Plain> {
        let history = read_jsonl_bytes(HISTORY.as_bytes()).unwrap();
        plain_certificate(&history, format!("{{\"isolde\":\"certificate\",\"version\":1}}\n{lines}\n").as_bytes())
    }

    #[test]
    fn orders_name_operations_and_the_last_version_of_a_transaction_counts() {
        let chains = vec![vec![INITIAL_VERSION, 1, 2]];
        let expected = Some(Plain::Orders { chains, complete: true });
        assert_eq!(told(r#"{"object":"x","versions":[null,["a",1],["b",0]]}"#), expected);
        assert_eq!(told(r#"{"object":"x","versions":[["a",0],["a",1],["b",0]]}"#), expected);
        let part = told(r#"{"object":"x","versions":[["b",0]],"partial":true}"#);
        assert_eq!(part, Some(Plain::Orders { chains: vec![vec![2]], complete: false }));
    }

    #[test]
    fn what_does_not_fit_is_not_plain() {
        for lines in [
            r#"{"object":"x","versions":[["a",1]]}"#,
            r#"{"object":"x","versions":[["a",1],["b",0],["a",1]]}"#,
            r#"{"object":"x","versions":[["a",1],["b",1]]}"#,
            r#"{"object":"x","versions":[["a",1],null,["b",0]]}"#,
            r#"{"object":"y","versions":[]}"#,
            r#"{"read":["b",1],"versions":[]}"#,
            r#"{"serial":["a"]}"#,
            r#"{"serial":["a","a"]}"#,
            r#"{"commits":["c"]}"#,
            "{",
        ] {
            assert_eq!(told(lines), None, "{lines}");
        }
        assert_eq!(told(r#"{"serial":["b","a"]}"#), Some(Plain::Serial(vec![1, 0])));
    }
}
