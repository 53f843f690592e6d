//! Dense numbers for keys and sessions.

use rustc_hash::FxHashMap;

use crate::value::Value;

/// Small non-negative integers are found by index instead of by hash; this bounds that table.
const DIRECT_MAX: i64 = 1 << 20;
const NONE: u32 = u32::MAX;

/// Names (strings or integers) numbered in the order of their first appearance.
#[derive(Default, Debug)]
pub struct Names {
    names: Vec<Value>,
    direct: Vec<u32>,
    hashed: FxHashMap<u64, u32>,
}

impl Names {
    /// The number of `name`, given now if it is new.
    #[inline]
    pub fn number(&mut self, name: Value) -> u32 {
        if let Some(i) = name.as_small_int()
            && (0..DIRECT_MAX).contains(&i)
        {
            let i = i as usize;
            if i >= self.direct.len() {
                self.direct.resize((i + 1).next_power_of_two(), NONE);
            }
            if self.direct[i] == NONE {
                self.direct[i] = self.names.len() as u32;
                self.names.push(name);
            }
            return self.direct[i];
        }
        *self.hashed.entry(name.bits()).or_insert_with(|| {
            self.names.push(name);
            self.names.len() as u32 - 1
        })
    }

    /// The number of `name`, if it has one.
    pub fn find(&self, name: Value) -> Option<u32> {
        if let Some(i) = name.as_small_int()
            && (0..DIRECT_MAX).contains(&i)
        {
            return self.direct.get(i as usize).copied().filter(|&n| n != NONE);
        }
        self.hashed.get(&name.bits()).copied()
    }

    /// The name behind a number.
    #[inline]
    pub fn name(&self, number: u32) -> Value {
        self.names[number as usize]
    }

    /// All names, in the order of their numbers.
    pub fn all(&self) -> &[Value] {
        &self.names
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
