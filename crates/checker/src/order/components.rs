//! Strongly connected components (Tarjan 1972), without recursion.

const UNSEEN: u32 = u32::MAX;

/// The components of more than one node among those marked in `within`, smallest first. `successors` calls its
/// second argument with every node that the first leads to.
pub fn components(nodes: usize, within: &[bool], successors: impl Fn(u32, &mut dyn FnMut(u32))) -> Vec<Vec<u32>> {
    let mut search = Search {
        index: vec![UNSEEN; nodes],
        low: vec![0; nodes],
        on_stack: vec![false; nodes],
        stack: Vec::new(),
        found: Vec::new(),
        next: 0,
    };
    let targets = |node: u32| {
        let mut targets = Vec::new();
        successors(node, &mut |target| {
            if within[target as usize] {
                targets.push(target);
            }
        });
        targets
    };
    for root in 0..nodes as u32 {
        if within[root as usize] && search.index[root as usize] == UNSEEN {
            search.from(&targets, root);
        }
    }
    search.found.sort_by_key(Vec::len);
    search.found
}

struct Search {
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    found: Vec<Vec<u32>>,
    next: u32,
}

impl Search {
    fn enter(&mut self, targets: Vec<u32>, node: u32, calls: &mut Vec<(u32, Vec<u32>)>) {
        self.index[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node as usize] = true;
        calls.push((node, targets));
    }

    fn from(&mut self, targets: &impl Fn(u32) -> Vec<u32>, root: u32) {
        let mut calls = Vec::new();
        self.enter(targets(root), root, &mut calls);
        while let Some((node, left)) = calls.last_mut() {
            let node = *node;
            if let Some(target) = left.pop() {
                if self.index[target as usize] == UNSEEN {
                    self.enter(targets(target), target, &mut calls);
                } else if self.on_stack[target as usize] {
                    self.low[node as usize] = self.low[node as usize].min(self.index[target as usize]);
                }
                continue;
            }
            calls.pop();
            if let Some((caller, _)) = calls.last() {
                self.low[*caller as usize] = self.low[*caller as usize].min(self.low[node as usize]);
            }
            if self.low[node as usize] == self.index[node as usize] {
                let at = self.stack.iter().rposition(|&n| n == node).expect("a root is on the stack");
                let members = self.stack.split_off(at);
                for &member in &members {
                    self.on_stack[member as usize] = false;
                }
                if members.len() > 1 {
                    self.found.push(members);
                }
            }
        }
    }
}
