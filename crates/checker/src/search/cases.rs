//! A small problem without a solution, laid open: a tree of cases, each of which ends in a cycle.
//!
//! Only the nodes at which choices begin or end matter, with who reaches whom among them, so trying all alternatives
//! is cheap. Choices that are not needed are taken away one by one; what stays is the core. A choice one of whose
//! alternatives closes a cycle at once is asked first, so that most cases are a single line.

use rustc_hash::FxHashMap;

use super::csp::{Alternative, Choice, Csp};
use super::net::{Net, topological};

/// How many states are tried to make the core smaller, and to lay it open.
const TRIES_MAX: u64 = 400_000;
/// More cases than this are not laid open.
pub const LEAVES_MAX: usize = 200;

/// The tree.
#[derive(Debug)]
pub enum Tree {
    /// With these alternatives picked, this edge closes a cycle.
    Closed {
        /// The edge, by its place in [`Csp::edges`].
        edge: usize,
    },
    /// One subtree for each alternative of a choice.
    Cases {
        /// The choice.
        choice: u32,
        /// The alternatives and what becomes of them.
        branches: Vec<(u32, Tree)>,
    },
}

/// The choices, over a matrix of who reaches whom.
pub struct Small<'c> {
    csp: &'c Csp,
    words: usize,
    /// Row by row: what each node reaches, itself included.
    base: Vec<u64>,
    /// The edges between nodes of the matrix.
    edges: Vec<(usize, usize)>,
    /// Per choice, the edges it takes part in.
    edges_of: Vec<Vec<usize>>,
    /// Per choice: the effects that it hangs on, for reads of a transaction that may not have taken effect, and for
    /// told values that need not be there. It is asked as soon as one of them is known.
    hangs_on: Vec<Vec<u32>>,
    excluded: Vec<Vec<(u32, Alternative)>>,
    tries: u64,
}

#[derive(Clone)]
struct State {
    reach: Vec<u64>,
    picks: Vec<Option<u32>>,
}

enum Next {
    /// An alternative cannot be: the edge that closes a cycle, or `None` if another pick excludes it.
    Closed(Option<usize>),
    Free,
}

impl<'c> Small<'c> {
    /// `base` are the rows of who reaches whom among the nodes; `edges` are those of the problem, by node of the matrix.
    fn new(csp: &'c Csp, words: usize, base: Vec<u64>, edges: Vec<(usize, usize)>) -> Small<'c> {
        let mut edges_of = vec![Vec::new(); csp.choices.len()];
        for (at, guarded) in csp.edges.iter().enumerate() {
            guarded.when.iter().for_each(|&(choice, _)| edges_of[choice as usize].push(at));
        }
        let mut excluded = vec![Vec::new(); csp.choices.len()];
        let mut hangs_on = vec![Vec::new(); csp.choices.len()];
        for &((one, alternative), other) in &csp.excluded {
            excluded[one as usize].push((alternative, other));
            excluded[other.0 as usize].push((other.1, (one, alternative)));
            // The alternative that says that nobody took effect is the one that the effect excludes.
            if other.1 == 1 && matches!(csp.choices[other.0 as usize], Choice::Effect(_)) {
                hangs_on[one as usize].push(other.0);
            }
        }
        Small { csp, words, base, edges, edges_of, hangs_on, excluded, tries: 0 }
    }

    /// The choices over two graphs that hold whatever is picked; `None` if these have a cycle.
    pub fn over(csp: &'c Csp, known: &Net, derived: &Net) -> Option<Small<'c>> {
        let mut column: FxHashMap<u32, usize> = FxHashMap::default();
        for guarded in &csp.edges {
            for node in [guarded.edge.0, guarded.edge.1] {
                let next = column.len();
                column.entry(node).or_insert(next);
            }
        }
        let words = column.len().div_ceil(64).max(1);
        let order = topological(known, derived)?;
        let mut rows = vec![0u64; known.len() * words];
        for &node in order.iter().rev() {
            let mut row = vec![0u64; words];
            for &to in known.out(node).iter().chain(derived.out(node)) {
                row.iter_mut().zip(&rows[to as usize * words..]).for_each(|(mine, theirs)| *mine |= theirs);
            }
            if let Some(&at) = column.get(&node) {
                row[at / 64] |= 1 << (at % 64);
            }
            rows[node as usize * words..][..words].copy_from_slice(&row);
        }
        let mut base = vec![0u64; column.len() * words];
        for (&node, &at) in &column {
            base[at * words..][..words].copy_from_slice(&rows[node as usize * words..][..words]);
        }
        let edges = csp.edges.iter().map(|guarded| (column[&guarded.edge.0], column[&guarded.edge.1])).collect();
        Some(Small::new(csp, words, base, edges))
    }

    /// The choices among `among` that are needed, and their tree; `None` if it is too large to lay open, or if there
    /// is a solution after all.
    pub fn lay_open(&mut self, among: Vec<u32>) -> Option<Tree> {
        let mut core = among;
        if !self.has_none(&core) {
            return None;
        }
        let mut at = core.len();
        while at > 0 {
            at -= 1;
            let mut fewer = core.clone();
            fewer.remove(at);
            if self.has_none(&fewer) {
                core = fewer;
            }
        }
        let mut leaves = 0;
        self.tree(&core, &self.start(), &mut leaves)
    }

    fn start(&self) -> State {
        State { reach: self.base.clone(), picks: vec![None; self.csp.choices.len()] }
    }

    /// Whether no pick works, as far as the tries go.
    fn has_none(&mut self, core: &[u32]) -> bool {
        let state = self.start();
        self.refute(core, state).unwrap_or(false)
    }

    fn refute(&mut self, core: &[u32], mut state: State) -> Option<bool> {
        loop {
            self.tries += 1;
            if self.tries > TRIES_MAX {
                return None;
            }
            let mut forced = false;
            let mut branch: Option<(u32, Vec<u32>)> = None;
            for &choice in core {
                if !self.is_asked(&state, choice) {
                    continue;
                }
                let free: Vec<u32> = self
                    .alternatives(choice)
                    .filter(|&alt| matches!(self.look(&state, (choice, alt)), Next::Free))
                    .collect();
                match free[..] {
                    [] => return Some(true),
                    [only] => {
                        self.pick(&mut state, (choice, only));
                        forced = true;
                    }
                    _ if branch.as_ref().is_none_or(|(_, other)| free.len() < other.len()) => {
                        branch = Some((choice, free))
                    }
                    _ => {}
                }
            }
            if forced {
                continue;
            }
            let Some((choice, free)) = branch else { return Some(false) };
            for alternative in free {
                let mut next = state.clone();
                self.pick(&mut next, (choice, alternative));
                if !self.refute(core, next)? {
                    return Some(false);
                }
            }
            return Some(true);
        }
    }

    /// Whether a choice is still to be made.
    fn is_asked(&self, state: &State, choice: u32) -> bool {
        let on = &self.hangs_on[choice as usize];
        let hangs = on.is_empty() || on.iter().any(|&effect| state.picks[effect as usize] == Some(1));
        let effect = matches!(self.csp.choices[choice as usize], Choice::Effect(_));
        state.picks[choice as usize].is_none() && hangs && !effect
    }

    /// The alternatives that count once the choice is asked.
    fn alternatives(&self, choice: u32) -> std::ops::Range<u32> {
        0..self.csp.alternatives[choice as usize] - u32::from(!self.hangs_on[choice as usize].is_empty())
    }

    /// The edges that a pick would bring, with what it implies.
    fn brings(&self, state: &State, alternative: Alternative) -> Vec<usize> {
        let mut new = vec![alternative];
        new.extend(self.implied(alternative).filter(|&e| state.picks[e as usize] != Some(1)).map(|effect| (effect, 1)));
        let holds = |wanted: &Alternative| state.picks[wanted.0 as usize] == Some(wanted.1) || new.contains(wanted);
        let mut edges: Vec<usize> =
            new.iter().flat_map(|&(choice, _)| self.edges_of[choice as usize].iter().copied()).collect();
        edges.retain(|&at| self.csp.edges[at].when.iter().all(holds));
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// The effects that an alternative needs.
    fn implied(&self, (choice, alternative): Alternative) -> impl Iterator<Item = u32> + '_ {
        let all = self.excluded[choice as usize].iter();
        all.filter(move |&&(alt, (_, excluded))| alt == alternative && excluded == 0).map(|&(_, (effect, _))| effect)
    }

    fn look(&self, state: &State, alternative: Alternative) -> Next {
        let excluded = &self.excluded[alternative.0 as usize];
        if excluded
            .iter()
            .any(|&(alt, (other, picked))| alt == alternative.1 && state.picks[other as usize] == Some(picked))
        {
            return Next::Closed(None);
        }
        // Several edges may close a cycle only together.
        let mut closing = None;
        let edges = self.brings(state, alternative);
        let closes = |reach: &[u64], at: usize| {
            let (from, to) = self.edges[at];
            reach[to * self.words + from / 64] >> (from % 64) & 1 == 1
        };
        if let Some(&at) = edges.iter().find(|&&at| closes(&state.reach, at)) {
            closing = Some(at);
        } else if edges.len() > 1 {
            let mut reach = state.reach.clone();
            for &at in &edges {
                if closes(&reach, at) {
                    closing = Some(at);
                    break;
                }
                self.connect(&mut reach, at);
            }
        }
        closing.map_or(Next::Free, |at| Next::Closed(Some(at)))
    }

    fn connect(&self, reach: &mut [u64], at: usize) {
        let (from, to) = self.edges[at];
        let target = reach[to * self.words..(to + 1) * self.words].to_vec();
        for row in reach.chunks_exact_mut(self.words) {
            if row[from / 64] >> (from % 64) & 1 == 1 {
                row.iter_mut().zip(&target).for_each(|(mine, theirs)| *mine |= theirs);
            }
        }
    }

    fn pick(&self, state: &mut State, alternative: Alternative) {
        let edges = self.brings(state, alternative);
        state.picks[alternative.0 as usize] = Some(alternative.1);
        let effects: Vec<u32> = self.implied(alternative).collect();
        for effect in effects {
            state.picks[effect as usize] = Some(1);
        }
        edges.into_iter().for_each(|at| self.connect(&mut state.reach, at));
    }

    /// The tree below a state.
    fn tree(&self, core: &[u32], state: &State, leaves: &mut usize) -> Option<Tree> {
        let free = |choice: u32| {
            self.alternatives(choice).filter(|&alt| matches!(self.look(state, (choice, alt)), Next::Free)).count()
        };
        let choice = core.iter().copied().filter(|&choice| self.is_asked(state, choice)).min_by_key(|&c| free(c))?;
        let mut branches = Vec::new();
        for alternative in self.alternatives(choice) {
            let below = match self.look(state, (choice, alternative)) {
                Next::Closed(Some(edge)) => {
                    *leaves += 1;
                    Tree::Closed { edge }
                }
                Next::Closed(None) => continue,
                Next::Free => {
                    let mut next = state.clone();
                    self.pick(&mut next, (choice, alternative));
                    self.tree(core, &next, leaves)?
                }
            };
            if *leaves > LEAVES_MAX {
                return None;
            }
            branches.push((alternative, below));
        }
        Some(Tree::Cases { choice, branches })
    }
}
