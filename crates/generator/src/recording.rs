//! The history as it is written down.

use isolde_history::{Cas, History, Op, Status, Value};

/// When a transaction began and ended.
#[derive(Clone, Copy)]
pub struct Interval {
    pub start: i64,
    pub end: i64,
}

/// A history that grows by whole transactions, and the values not yet used in it.
#[derive(Default)]
pub struct Recording {
    history: History,
    values: i64,
}

impl Recording {
    /// A value that no other write of the history has: 1, 2, 3, …
    pub fn fresh_value(&mut self) -> Value {
        self.values += 1;
        integer(self.values)
    }

    /// Says that a key, not seen before, starts with 0.
    pub fn start_with_zero(&mut self, key: u32) {
        let name = integer(i64::from(key));
        self.history.keys.number(name);
        self.history.header.initial.push((name, integer(0)));
    }

    pub fn read(&mut self, key: u32, value: Value) {
        let key = self.key(key);
        self.history.push_op(Op::Read(key, value));
    }

    /// A read of a list; an empty one was never appended to, and is absent.
    pub fn read_list(&mut self, key: u32, elements: impl Iterator<Item = Value>) {
        let mut elements = elements.peekable();
        let value = match elements.peek() {
            None => Value::NULL,
            Some(_) => self.history.lists.start(),
        };
        elements.for_each(|element| self.history.lists.push(element));
        self.read(key, value);
    }

    pub fn write(&mut self, key: u32, value: Value) {
        let key = self.key(key);
        self.history.push_op(Op::Write(key, value));
    }

    pub fn append(&mut self, key: u32, element: Value) {
        let key = self.key(key);
        self.history.push_op(Op::Append(key, element));
    }

    pub fn cas(&mut self, key: u32, cas: Cas) {
        let key = self.key(key);
        self.history.push_op(Op::Cas(key, cas));
    }

    /// The order of versions of a key, oldest first.
    pub fn versions(&mut self, key: u32, values: Vec<Value>) {
        let key = self.key(key);
        self.history.versions.push((key, values));
    }

    /// Ends the transaction of the operations recorded since the one before.
    pub fn end(&mut self, session: u32, status: Status, interval: Interval) {
        let session = self.history.sessions.number(integer(i64::from(session)));
        let id = integer(self.history.len() as i64);
        self.history.push_txn(id, session, status, interval.start, interval.end, 0);
    }

    pub fn finish(mut self) -> History {
        self.history.finish().expect("ids are positions, and there are no serials: nothing can be wrong");
        self.history
    }

    fn key(&mut self, key: u32) -> u32 {
        self.history.keys.number(integer(i64::from(key)))
    }
}

/// A key, session, value or id; none of them comes near the 18 digits that fit.
pub fn integer(number: i64) -> Value {
    Value::small_int(number).expect("generated numbers have fewer than 18 digits")
}
