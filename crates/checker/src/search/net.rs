//! A plain directed graph over numbered nodes.

/// Adjacency lists end to end.
pub struct Net {
    first: Vec<u32>,
    to: Vec<u32>,
}

impl Net {
    /// A graph of these edges.
    pub fn of(nodes: usize, edges: &[(u32, u32)]) -> Net {
        Net::build(nodes, |visit| edges.iter().for_each(|&(from, to)| visit(from, to)))
    }

    /// A graph of the edges that `each` lists; it is called twice.
    pub fn build(nodes: usize, each: impl Fn(&mut dyn FnMut(u32, u32))) -> Net {
        let mut first = vec![0u32; nodes + 1];
        each(&mut |from, _| first[from as usize + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut to = vec![0u32; first[nodes] as usize];
        let mut next = first.clone();
        each(&mut |from, target| {
            let slot = &mut next[from as usize];
            to[*slot as usize] = target;
            *slot += 1;
        });
        Net { first, to }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.to.len()
    }

    /// The successors of a node.
    #[inline]
    pub fn out(&self, node: u32) -> &[u32] {
        &self.to[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }

    /// The edges turned around.
    pub fn reversed(&self) -> Net {
        Net::build(self.len(), |visit| {
            for node in 0..self.len() as u32 {
                self.out(node).iter().for_each(|&to| visit(to, node));
            }
        })
    }
}

/// The nodes of two graphs over the same nodes in an order that follows both; `None` if there is a cycle.
pub fn topological(known: &Net, more: &Net) -> Option<Vec<u32>> {
    let count = known.len();
    let out = |node: u32| known.out(node).iter().chain(more.out(node)).copied();
    let mut waiting = vec![0u32; count];
    for node in 0..count as u32 {
        out(node).for_each(|to| waiting[to as usize] += 1);
    }
    let mut order: Vec<u32> = (0..count as u32).filter(|&node| waiting[node as usize] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for to in out(node) {
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                order.push(to);
            }
        }
    }
    (order.len() == count).then_some(order)
}
