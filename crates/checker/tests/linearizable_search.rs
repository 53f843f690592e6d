//! The search for a linearization of one key, by small cases.

use isolde_checker::linearizable::calls::{Call, Effect, Initial, NEVER, Need, Object};
use isolde_checker::linearizable::problem::{Problem, Start};
use isolde_checker::linearizable::search::{Outcome, search};
use isolde_history::Value;

fn int(i: i64) -> Value {
    Value::small_int(i).expect("small")
}

fn call(txn: u32, start: i64, end: i64, need: Need<'static>, effect: Effect) -> Call<'static> {
    Call { txn, start, end, need, effect, required: true }
}

fn write(txn: u32, start: i64, end: i64, value: i64) -> Call<'static> {
    call(txn, start, end, Need::Anything, Effect::Set(int(value)))
}

fn read(txn: u32, start: i64, end: i64, value: i64) -> Call<'static> {
    call(txn, start, end, Need::Value(int(value)), Effect::Nothing)
}

fn maybe(call: Call<'static>) -> Call<'static> {
    Call { end: NEVER, required: false, ..call }
}

fn ordered(calls: Vec<Call<'_>>, budget: u64) -> Outcome {
    let object = Object { initial: Initial::Value(int(0)), calls, chains: Vec::new() };
    search(&Problem::new(&object, &Start::Initial, &[]), &mut budget.clone())
}

#[test]
fn a_read_goes_where_its_value_was() {
    let calls = vec![write(0, 0, 10, 1), write(1, 0, 10, 2), read(2, 11, 12, 1), read(3, 2, 9, 2)];
    assert_eq!(ordered(calls, 100), Outcome::Order(vec![1, 3, 0, 2]));
}

#[test]
fn equal_times_are_concurrent_and_later_ones_are_not() {
    assert_eq!(ordered(vec![write(0, 0, 5, 1), read(1, 5, 6, 0)], 100), Outcome::Order(vec![1, 0]));
    assert_eq!(ordered(vec![write(0, 0, 5, 1), read(1, 6, 7, 0)], 100), Outcome::Stuck(Some(1)));
}

#[test]
fn an_unknown_outcome_is_used_only_where_it_is_needed() {
    let unknown = maybe(write(0, 0, 1, 7));
    assert_eq!(ordered(vec![unknown.clone(), read(1, 2, 3, 0)], 100), Outcome::Order(vec![1]));
    assert_eq!(ordered(vec![unknown.clone(), read(1, 2, 3, 7)], 100), Outcome::Order(vec![0, 1]));
    // It takes effect once.
    let twice = vec![unknown, read(1, 2, 3, 7), write(2, 4, 5, 1), read(3, 6, 7, 7)];
    assert!(matches!(ordered(twice, 100), Outcome::Stuck(_)));
}

#[test]
fn a_silent_failure_did_not_see_what_it_expected() {
    let failed = |start, end, value| call(9, start, end, Need::NoneOf(vec![int(value)]), Effect::Nothing);
    assert_eq!(ordered(vec![failed(0, 1, 0)], 100), Outcome::Stuck(Some(1)));
    assert_eq!(ordered(vec![failed(0, 3, 0), write(1, 2, 4, 5)], 100), Outcome::Order(vec![1, 0]));
    assert_eq!(ordered(vec![maybe(write(0, 0, 1, 5)), failed(0, 3, 0)], 100), Outcome::Order(vec![0, 1]));
}

#[test]
fn more_calls_at_once_than_fit_into_a_word() {
    for count in [60, 200, 900, 3_000] {
        let mut calls: Vec<Call<'_>> = (0..count).map(|n| write(n, 0, 100, i64::from(n % 3) + 1)).collect();
        calls.push(read(count, 101, 102, 2));
        match ordered(calls, 1_000_000) {
            Outcome::Order(order) => assert_eq!(order.len(), count as usize + 1),
            other => panic!("{count}: {other:?}"),
        }
    }
}

#[test]
fn a_long_call_does_not_make_what_happens_meanwhile_costly() {
    let mut calls = vec![write(0, 0, 1_000_000, 9)];
    for n in 0..1_000u32 {
        let at = i64::from(n) * 10 + 1;
        calls.push(write(2 * n + 1, at, at + 3, i64::from(n % 2) + 1));
        calls.push(read(2 * n + 2, at + 5, at + 6, i64::from(n % 2) + 1));
    }
    let mut budget = 10_000;
    let object = Object { initial: Initial::Value(int(0)), calls, chains: Vec::new() };
    assert!(matches!(search(&Problem::new(&object, &Start::Initial, &[]), &mut budget), Outcome::Order(_)));
    assert!(budget > 7_000, "{budget}");
}

#[test]
fn the_budget_ends_the_search_without_a_verdict() {
    let mut calls: Vec<Call<'_>> = (0..12).map(|n| write(n, 0, 100, i64::from(n) + 1)).collect();
    calls.extend([read(20, 101, 102, 3), read(21, 103, 104, 4)]);
    assert!(matches!(ordered(calls.clone(), 5), Outcome::OutOfBudget(_)));
    assert!(matches!(ordered(calls, 10_000_000), Outcome::Stuck(_)));
}

#[test]
fn a_told_order_must_be_followed() {
    let object = Object {
        initial: Initial::Value(int(0)),
        calls: vec![write(0, 0, 10, 1), write(1, 0, 10, 2), read(2, 11, 12, 1)],
        chains: Vec::new(),
    };
    let told = |chain: &[i64]| {
        let chain = chain.iter().map(|&value| int(value)).collect();
        search(&Problem::new(&object, &Start::Initial, &[chain]), &mut 100)
    };
    assert_eq!(told(&[0, 2, 1]), Outcome::Order(vec![1, 0, 2]));
    assert!(matches!(told(&[1, 2]), Outcome::Stuck(_)));
}

#[test]
fn a_list_shows_the_order_of_what_was_appended() {
    let list: &'static [Value] = vec![int(3), int(1), int(2)].leak();
    let append = |txn, value| call(txn, 0, 10, Need::Anything, Effect::Append(vec![int(value)]));
    let mut calls: Vec<Call<'_>> = (1..20).map(|n| append(n as u32 - 1, n)).collect();
    calls.push(call(30, 5, 12, Need::List(list), Effect::Nothing));
    let object = Object { initial: Initial::List(&[]), calls, chains: Vec::new() };
    match search(&Problem::new(&object, &Start::Initial, &[]), &mut 1_000) {
        Outcome::Order(order) => assert_eq!(order[..4], [2, 0, 1, 19]),
        other => panic!("{other:?}"),
    }
}
