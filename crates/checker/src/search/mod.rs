//! Search: where the order of writes is open, is there one that explains the history?
//!
//! Six steps, each cheaper than the next and each skipped when the one before was enough: [`by_clock`] tries what the
//! clock suggests, [`greedy`] the plausible order; [`prune`] rules out choices that would close a cycle; what is left falls apart into strongly connected
//! components; [`sat`] solves each with [`acyclicity`] inside; and [`explain`] lays open why there is no solution.
//! The levels share all of it but the graph that a [`Space`](crate::order::acyclic::Space) makes of an edge.

mod acyclicity;
mod allowance;
mod by_clock;
mod by_serial;
mod cases;
mod csp;
mod drawing;
mod explain;
mod greedy;
mod meant;
mod net;
mod orders;
mod overwritten;
mod paths;
mod polygraph;
mod prune;
mod reach;
mod sat;
mod select;
mod selection;
mod selection_cases;

use rustc_hash::FxHashMap;

use self::allowance::Allowance;
use self::csp::{Choice, Csp, Guarded};
use self::explain::Explainer;
use self::greedy::{Guess, guess};
use self::net::{Net, topological};
use self::overwritten::take_off_overwritten;
use self::polygraph::Polygraph;
use self::prune::{Pruned, prune};
use self::sat::{Question, Solved, solve};
use self::select::{Demands, Selectors};
use crate::analysis::Analysis;
use crate::decision::{Decision, Open, Question as Level};
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::Graph;
use crate::evidence::outcome::Role;
use crate::evidence::realtime::timeline;
use crate::order::acyclic::{Explanation, Rule, Space};
use crate::order::components::components;

/// What an edge that hangs on choices takes, in the problem and again in the solver.
const EDGE_BYTES: u64 = 160;

impl Analysis {
    /// Decides by search. `graph` is what is known for certain at this level.
    pub(crate) fn search(&self, graph: &Graph, question: Level) -> Decision {
        let (rule, real_time) = (question.rule(), question.real_time());
        if let Some(explanation) = self.by_serial(question).or_else(|| self.by_clock(question)) {
            return Decision::Satisfied(Some(explanation));
        }
        let demands = Demands { timed: real_time, repeatable: true, reads: true };
        let mut allowance = Allowance::of(self.options.budget);
        let mut selectors = Selectors::of(self, &self.roles, demands, &mut allowance);
        let reads = selectors.all.len() as u64;
        if selectors.too_many {
            return Decision::Undecided(allowance.gave_up(self.dependencies.counts.open_pairs, reads));
        }
        if let Some(selector) = selectors.unexplained(&self.roles) {
            return match selectors.left_out {
                Some(txn) => Decision::Undecided(Open::NoTimes(txn)),
                None => Decision::Violated(vec![selector.fault()]),
            };
        }
        let times = real_time.then(|| {
            let mut roles = self.roles.clone();
            selectors.maybe.iter().for_each(|&txn| roles[txn as usize] = Role::Effective);
            timeline(&self.history, &roles)
        });
        let space = Space { graph, rule, timeline: times.as_ref() };
        let polygraph = Polygraph::new(self, question, space, &selectors);
        let all_candidates: Vec<Vec<u32>> = selectors.all.iter().map(|s| s.candidates.clone()).collect();
        take_off_overwritten(&polygraph, &mut selectors);
        let first = guess(&polygraph, &selectors, None);
        let told = |explanation: &Explanation| selectors.entries.is_empty() || self.keeps_told(explanation);
        if first.complete {
            let explanation = self.explained(&polygraph, &first.order, &[]);
            if told(&explanation) {
                return Decision::Satisfied(Some(explanation));
            }
        }
        if rule != Rule::Serializable {
            // One transaction after the other explains the weaker levels too, and is sooner guessed: no snapshot has to be
            // placed among commits. What is known of a weaker level may be too little for a serial order, so it is run.
            let serial_graph = self.known_order(question);
            let serial = Space { graph: &serial_graph, rule: Rule::Serializable, timeline: times.as_ref() };
            let serial = Polygraph::new(self, question, serial, &selectors);
            let order = guess(&serial, &selectors, None);
            let explanation = order.complete.then(|| self.explained(&serial, &order.order, &[]));
            if let Some(explanation) = explanation.filter(|found| self.replays(question, found)) {
                return Decision::Satisfied(Some(explanation));
            }
        }
        let pairs: u64 = polygraph.groups.iter().map(|group| pairs_of(group.chains.len() as u64)).sum();
        if !allowance.hold(pairs) {
            return Decision::Undecided(allowance.gave_up(pairs, reads));
        }
        let Some(pruned) = prune(&polygraph, &mut allowance) else {
            return Decision::Undecided(allowance.gave_up(pairs, reads));
        };
        let explaining = |core: &[Choice]| {
            let mut selectors = selectors.clone();
            // Whoever reads the cases wants to see why the others cannot be, too.
            for choice in core {
                if let Choice::Source(place) = choice {
                    selectors.all[*place as usize].candidates = all_candidates[*place as usize].clone();
                }
            }
            selectors
        };
        let Some(order) = &pruned.order else {
            let explainer = Explainer { polygraph: &polygraph, selectors: &selectors, pruned: &pruned };
            return Decision::Violated(vec![explainer.contradiction()]);
        };
        // What pruning found may be enough to guess right.
        let guess = guess(&polygraph, &selectors, Some(&pruned.derived));
        if guess.complete {
            let explanation = self.explained(&polygraph, &guess.order, &[]);
            if told(&explanation) {
                return Decision::Satisfied(Some(explanation));
            }
        }
        let open = Open::Choices { pairs: pruned.open, reads };
        let edges = Csp::size(&polygraph, &selectors, &pruned.orders);
        if !allowance.look(edges) || !allowance.hold(edges * EDGE_BYTES) {
            return Decision::Undecided(allowance.gave_up(pruned.open, reads));
        }
        let csp =
            Csp::of(&polygraph, &selectors, &pruned.orders, pruned.orders.iter().flat_map(|orders| orders.open()));
        let picks = match self.solve(&polygraph, &pruned, order, &csp, &selectors, &guess, allowance.steps()) {
            Solved::Picks(picks) => picks,
            Solved::OutOfBudget => return Decision::Undecided(open),
            Solved::None(_) if selectors.left_out.is_some() => {
                return Decision::Undecided(Open::NoTimes(selectors.left_out.unwrap_or(0)));
            }
            Solved::None(core) => {
                let core: Vec<Choice> = core.iter().map(|&choice| csp.choices[choice as usize]).collect();
                let selectors = explaining(&core);
                let explainer = Explainer { polygraph: &polygraph, selectors: &selectors, pruned: &pruned };
                return Decision::Violated(vec![explainer.unsolvable(&core)]);
            }
        };
        let picked: Vec<(u32, u32)> = csp
            .edges
            .iter()
            .filter(|guarded| guarded.when.iter().all(|&(choice, wanted)| picks[choice as usize] == wanted))
            .map(|guarded| guarded.edge)
            .chain((0..polygraph.known.len() as u32).flat_map(|n| pruned.derived.out(n).iter().map(move |&to| (n, to))))
            .collect();
        let order = topological(&polygraph.known, &Net::of(polygraph.known.len(), &picked));
        let effective: Vec<u32> = (0..csp.choices.len())
            .filter_map(|at| match csp.choices[at] {
                Choice::Effect(txn) if picks[at] == 1 => Some(txn),
                _ => None,
            })
            .collect();
        let order = order.expect("the solver never lets a cycle pass");
        Decision::Satisfied(Some(self.explained(&polygraph, &order, &effective)))
    }

    fn explained(&self, polygraph: &Polygraph<'_>, order: &[u32], effective: &[u32]) -> Explanation {
        let counts = |txn| self.roles[txn as usize] != Role::Absent || effective.contains(&txn);
        Explanation { effects: effective.to_vec(), ..polygraph.space.explanation(order, counts) }
    }

    /// Solves what is left, a component at a time, the smallest first.
    #[allow(clippy::too_many_arguments)]
    fn solve(
        &self,
        polygraph: &Polygraph<'_>,
        pruned: &Pruned,
        order: &[u32],
        csp: &Csp,
        selectors: &Selectors,
        guess: &Guess,
        budget: &mut u64,
    ) -> Solved {
        let plausible = |choice: Choice| plausible(polygraph, selectors, guess, choice);
        let nodes = polygraph.known.len();
        let union = |node: u32, visit: &mut dyn FnMut(u32)| {
            polygraph.known.out(node).iter().chain(pruned.derived.out(node)).for_each(|&to| visit(to));
        };
        if !selectors.is_empty() {
            let known =
                || Net::build(nodes, |visit| (0..nodes as u32).for_each(|node| union(node, &mut |to| visit(node, to))));
            let by_choice = |choice: u32| plausible(csp.choices[choice as usize]);
            return solve(&Question { csp, known: &known, order, plausible: &by_choice }, budget);
        }
        let possible = Net::build(nodes, |visit| csp.edges.iter().for_each(|g| visit(g.edge.0, g.edge.1)));
        let found = components(nodes, &vec![true; nodes], |node, visit| {
            union(node, visit);
            possible.out(node).iter().for_each(|&to| visit(to));
        });
        let mut picks: Vec<u32> = csp.choices.iter().map(|&choice| plausible(choice)).collect();
        let mut place = vec![0u32; nodes];
        order.iter().enumerate().for_each(|(at, &node)| place[node as usize] = at as u32);
        let mut component_of = vec![NONE; nodes];
        for (at, members) in found.iter().enumerate() {
            members.iter().for_each(|&node| component_of[node as usize] = at as u32);
        }
        let mut edges_of: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
        for (at, guarded) in csp.edges.iter().enumerate() {
            let component = component_of[guarded.edge.0 as usize];
            if component != NONE && component == component_of[guarded.edge.1 as usize] {
                edges_of[component as usize].push(at);
            }
        }
        for (mut members, edges) in found.into_iter().zip(edges_of) {
            members.sort_unstable_by_key(|&node| place[node as usize]);
            let local: FxHashMap<u32, u32> = members.iter().zip(0..).map(|(&node, at)| (node, at)).collect();
            let mut part = Csp::default();
            let mut choice_of: FxHashMap<u32, u32> = FxHashMap::default();
            let mut choices = Vec::new();
            for at in edges {
                let Guarded { edge, meaning, when } = &csp.edges[at];
                let when = when.iter().map(|&(choice, alternative)| {
                    let here = *choice_of.entry(choice).or_insert_with(|| {
                        choices.push(choice);
                        part.choices.push(csp.choices[choice as usize]);
                        part.alternatives.push(csp.alternatives[choice as usize]);
                        choices.len() as u32 - 1
                    });
                    (here, alternative)
                });
                let when = when.collect();
                part.edges.push(Guarded { edge: (local[&edge.0], local[&edge.1]), meaning: *meaning, when });
            }
            let known = || {
                Net::build(members.len(), |visit| {
                    for (at, &node) in members.iter().enumerate() {
                        union(node, &mut |to| {
                            if let Some(&to) = local.get(&to) {
                                visit(at as u32, to);
                            }
                        });
                    }
                })
            };
            let order: Vec<u32> = (0..members.len() as u32).collect();
            let by_choice = |choice: u32| plausible(part.choices[choice as usize]);
            match solve(&Question { csp: &part, known: &known, order: &order, plausible: &by_choice }, budget) {
                Solved::Picks(found) => {
                    found.iter().zip(&choices).for_each(|(&pick, &choice)| picks[choice as usize] = pick);
                }
                Solved::None(core) => {
                    return Solved::None(core.iter().map(|&choice| choices[choice as usize]).collect());
                }
                Solved::OutOfBudget => return Solved::OutOfBudget,
            }
        }
        Solved::Picks(picks)
    }
}

/// How many pairs so many have.
fn pairs_of(count: u64) -> u64 {
    count * count.saturating_sub(1) / 2
}

/// The alternative that the plausible order speaks for.
fn plausible(polygraph: &Polygraph<'_>, selectors: &Selectors, guess: &Guess, choice: Choice) -> u32 {
    match choice {
        Choice::Order(a, b) => {
            let moment = |chain: u32| {
                let began = guess.began[chain as usize];
                let head = polygraph.head(chain);
                (began, if head == INITIAL { i64::MIN } else { polygraph.moment(polygraph.commit(head)) })
            };
            u32::from(moment(a) > moment(b))
        }
        Choice::Source(place) => {
            let selector = &selectors.all[place as usize];
            let read = polygraph.moment(polygraph.snapshot(selector.reader));
            let written = |&version: &u32| {
                let writer = polygraph.analysis.attribution.writer(version);
                if writer == INITIAL { i64::MIN } else { polygraph.moment(polygraph.commit(writer)) }
            };
            let before = selector.candidates.iter().enumerate().filter(|(_, version)| written(version) <= read);
            before.max_by_key(|(_, version)| written(version)).map_or(0, |(at, _)| at as u32)
        }
        Choice::Effect(_) | Choice::Meant(_) => 0,
    }
}
