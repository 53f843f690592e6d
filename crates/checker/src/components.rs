//! Strongly connected components (Tarjan 1972), without recursion, on what a sort left over.

use crate::acyclic::Space;

const UNSEEN: u32 = u32::MAX;

/// The components of more than one node among those marked in `within`, smallest first.
pub fn components(space: &Space<'_>, within: &[bool]) -> Vec<Vec<u32>> {
    let mut search = Search {
        index: vec![UNSEEN; space.len()],
        low: vec![0; space.len()],
        on_stack: vec![false; space.len()],
        stack: Vec::new(),
        found: Vec::new(),
        next: 0,
    };
    for root in 0..space.len() as u32 {
        if within[root as usize] && search.index[root as usize] == UNSEEN {
            search.from(space, within, root);
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
    fn enter(&mut self, space: &Space<'_>, within: &[bool], node: u32, calls: &mut Vec<(u32, Vec<u32>)>) {
        self.index[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node as usize] = true;
        let mut targets = Vec::new();
        space.successors(node, |target| {
            if within[target as usize] {
                targets.push(target);
            }
        });
        calls.push((node, targets));
    }

    fn from(&mut self, space: &Space<'_>, within: &[bool], root: u32) {
        let mut calls = Vec::new();
        self.enter(space, within, root, &mut calls);
        while let Some((node, targets)) = calls.last_mut() {
            let node = *node;
            if let Some(target) = targets.pop() {
                if self.index[target as usize] == UNSEEN {
                    self.enter(space, within, target, &mut calls);
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
