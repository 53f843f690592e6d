//! The order in which the database says that transactions took effect: by the number that it gave to each.

use std::cmp::Ordering;

use crate::history::{History, Status};
use crate::value::{Kind, Value};

impl History {
    /// The transactions that have a place in it and were not aborted, in order.
    pub fn serial_order(&self) -> Vec<u32> {
        let placed = |(txn, serial): (u32, Option<Value>)| Some((serial?, txn));
        let all = self.extras.iter().map(|(txn, extra)| (*txn, extra.serial)).filter_map(placed);
        let mut all: Vec<(Value, u32)> =
            all.filter(|&(_, txn)| self.txns.status[txn as usize] != Status::Aborted).collect();
        all.sort_unstable_by(|a, b| self.compare_numbers(a.0, b.0));
        all.into_iter().map(|(_, txn)| txn).collect()
    }

    fn compare_numbers(&self, a: Value, b: Value) -> Ordering {
        match (a.as_small_int(), b.as_small_int()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => Decimal::of(&self.text(a)).cmp(&Decimal::of(&self.text(b))),
        }
    }

    fn text(&self, number: Value) -> String {
        match self.atoms.kind(number) {
            Kind::Int(i) => i.to_string(),
            Kind::Number(text) => text.to_owned(),
            _ => "0".to_owned(),
        }
    }
}

/// A number by its sign, the place of its first digit, and its digits without zeros at either end.
#[derive(PartialEq, Eq, Debug)]
struct Decimal {
    sign: i8,
    point: i64,
    digits: Vec<u8>,
}

impl Decimal {
    /// Reads the canonical text of a number.
    fn of(text: &str) -> Decimal {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
        let leading = all.iter().take_while(|&&digit| digit == b'0').count();
        let end = all.iter().rposition(|&digit| digit != b'0').map_or(leading, |last| last + 1);
        let digits = all[leading..end].to_vec();
        let sign = if digits.is_empty() {
            0
        } else if negative {
            -1
        } else {
            1
        };
        let point = whole.len() as i64 - leading as i64 + exponent.parse::<i64>().unwrap_or(0);
        Decimal { sign, point: if digits.is_empty() { 0 } else { point }, digits }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let by_size = || (self.point, &self.digits).cmp(&(other.point, &other.digits));
        self.sign.cmp(&other.sign).then_with(|| if self.sign < 0 { by_size().reverse() } else { by_size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_come_in_their_order() {
        let ascending = [
            "-1e20",
            "-12.5",
            "-12.25",
            "-1",
            "-0.001",
            "0",
            "1e-30",
            "0.5",
            "1",
            "1.5",
            "9",
            "10",
            "12345678901234567890.5",
            "1e300",
        ];
        for pair in ascending.windows(2) {
            assert_eq!(Decimal::of(pair[0]).cmp(&Decimal::of(pair[1])), Ordering::Less, "{pair:?}");
        }
    }
}
