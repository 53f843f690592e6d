//! The solver: a literal an alternative, and [`Acyclicity`] inside.
//!
//! The first value that the solver tries for a choice is the plausible one (it always begins with *false*, so that is what
//! *false* means), and a history that holds is mostly found to hold in one descent.

use std::cell::Cell;
use std::rc::Rc;

use batsat::{Callbacks, Lit, Solver, SolverInterface, SolverOpts, Var, lbool};
use rustc_hash::FxHashMap;

use super::acyclicity::{Acyclicity, Visits};
use super::allowance::VISITS_A_STEP;
use super::csp::{Alternative, Choice, Csp};
use super::net::Net;

/// What a clause that the solver had to look at counts for.
const CONFLICT_VISITS: u64 = 200;

/// What the solver found.
pub enum Solved {
    /// The alternative of each choice.
    Picks(Vec<u32>),
    /// No pick works; these choices alone rule out all of them.
    None(Vec<u32>),
    /// The budget was used up.
    OutOfBudget,
}

/// A problem for the solver.
pub struct Question<'a> {
    /// The choices.
    pub csp: &'a Csp,
    /// The graph without choices.
    pub known: &'a dyn Fn() -> Net,
    /// Its nodes, in an order that follows it.
    pub order: &'a [u32],
    /// The plausible alternative of each choice.
    pub plausible: &'a dyn Fn(u32) -> u32,
}

struct Watch {
    visits: Visits,
    visits_max: u64,
}

impl Callbacks for Watch {
    fn on_new_clause(&mut self, _: &[Lit], _: batsat::ClauseKind) {
        self.visits.set(self.visits.get() + CONFLICT_VISITS);
    }

    fn stop(&self) -> bool {
        self.visits.get() > self.visits_max
    }
}

struct Encoding {
    solver: Solver<Watch>,
    theory: Acyclicity,
    literals: Vec<Vec<Lit>>,
    active: Vec<Lit>,
}

/// Solves it within `budget` steps, and takes what was used off the budget. Of an unsatisfiable problem a small
/// core is looked for in what is left.
pub fn solve(question: &Question<'_>, budget: &mut u64) -> Solved {
    let all: Vec<u32> = (0..question.csp.choices.len() as u32).collect();
    match attempt(question, &all, false, budget) {
        Solved::None(_) => Solved::None(core(question, all, budget)),
        other => other,
    }
}

/// Fewer and fewer choices that still have no solution.
fn core(question: &Question<'_>, mut choices: Vec<u32>, budget: &mut u64) -> Vec<u32> {
    loop {
        match attempt(question, &choices, true, budget) {
            Solved::None(fewer) if fewer.len() < choices.len() => choices = fewer,
            _ => return choices,
        }
    }
}

fn attempt(question: &Question<'_>, among: &[u32], with_core: bool, budget: &mut u64) -> Solved {
    let visits: Visits = Rc::new(Cell::new(0));
    let visits_max = budget.saturating_mul(VISITS_A_STEP);
    let mut encoding = encode(question, among, with_core, visits.clone(), visits_max);
    let assumptions = encoding.active.clone();
    let answer = encoding.solver.solve_limited_th(&mut encoding.theory, &assumptions);
    *budget = budget.saturating_sub(visits.get() / VISITS_A_STEP);
    if answer == lbool::TRUE {
        let pick = |literals: &Vec<Lit>| {
            let chosen = literals.iter().position(|&literal| encoding.solver.value_lit(literal) == lbool::TRUE);
            chosen.unwrap_or(0) as u32
        };
        return Solved::Picks(encoding.literals.iter().map(pick).collect());
    }
    if answer == lbool::UNDEF {
        return Solved::OutOfBudget;
    }
    let needed = |at: &usize| !with_core || encoding.solver.unsat_core_contains_var(assumptions[*at].var());
    Solved::None((0..among.len()).filter(needed).map(|at| among[at]).collect())
}

fn encode(question: &Question<'_>, among: &[u32], with_core: bool, visits: Visits, visits_max: u64) -> Encoding {
    let csp = question.csp;
    let mut solver = Solver::new(SolverOpts::default(), Watch { visits: visits.clone(), visits_max });
    let mut new_var = || -> Var { solver.new_var(lbool::UNDEF, true) };
    let mut asked = vec![false; csp.choices.len()];
    among.iter().for_each(|&choice| asked[choice as usize] = true);
    let literals: Vec<Vec<Lit>> = (0..csp.choices.len() as u32)
        .map(|choice| {
            let plausible = (question.plausible)(choice);
            let count = csp.alternatives[choice as usize];
            if !asked[choice as usize] && !matches!(csp.choices[choice as usize], Choice::Effect(_)) {
                return Vec::new();
            }
            if count == 2 && !with_core {
                let var = new_var();
                return (0..2).map(|alternative| Lit::new(var, alternative != plausible)).collect();
            }
            (0..count).map(|alternative| Lit::new(new_var(), alternative != plausible)).collect()
        })
        .collect();
    let active: Vec<Lit> =
        if with_core { among.iter().map(|_| Lit::new(new_var(), true)).collect() } else { Vec::new() };
    for (at, &choice) in among.iter().enumerate() {
        let mut clause = literals[choice as usize].clone();
        clause.extend(active.get(at).map(|&literal| !literal));
        solver.add_clause_reuse(&mut clause);
    }
    let literal = |(choice, alternative): Alternative| literals[choice as usize].get(alternative as usize).copied();
    for &(one, other) in &csp.excluded {
        if let (Some(one), Some(other)) = (literal(one), literal(other)) {
            solver.add_clause_reuse(&mut vec![!one, !other]);
        }
    }
    let mut edges_of: Vec<Vec<(u32, u32)>> = Vec::new();
    let mut joint: FxHashMap<Vec<Lit>, Lit> = FxHashMap::default();
    for guarded in &csp.edges {
        let Some(mut when) = guarded.when.iter().map(|&w| literal(w)).collect::<Option<Vec<Lit>>>() else { continue };
        when.sort_unstable();
        let because = match when[..] {
            [single] => single,
            _ => *joint.entry(when).or_insert_with_key(|when| {
                let all = Lit::new(solver.new_var(lbool::UNDEF, true), true);
                let mut clause: Vec<Lit> = when.iter().map(|&literal| !literal).collect();
                clause.push(all);
                solver.add_clause_reuse(&mut clause);
                all
            }),
        };
        let code = because.idx() as usize;
        if edges_of.len() <= code {
            edges_of.resize(code + 1, Vec::new());
        }
        edges_of[code].push(guarded.edge);
    }
    let theory = Acyclicity::new((question.known)(), question.order, edges_of, visits);
    Encoding { solver, theory, literals, active }
}
