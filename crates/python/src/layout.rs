//! Where the boxes of a drawn graph go: in layers, so that most arrows point downwards.

use pyo3::prelude::*;
use rust_sugiyama::configure::Config;

/// The centre of each box, and the width and height of the whole. `sizes` are widths and heights, with the room that boxes keep
/// from each other in them; `edges` are pairs of places in `sizes`. Parts that no edge joins stand beside each other.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn layered(sizes: Vec<(f64, f64)>, edges: Vec<(u32, u32)>) -> (Vec<(f64, f64)>, f64, f64) {
    let vertices: Vec<(u32, (f64, f64))> = (0..).zip(sizes.iter().copied()).collect();
    let known = |place: u32| (place as usize) < sizes.len();
    let mut joins: Vec<(u32, u32)> =
        edges.into_iter().filter(|&(from, to)| from != to && known(from) && known(to)).collect();
    joins.sort_unstable();
    joins.dedup();
    let config = Config { vertex_spacing: 0.0, dummy_vertices: true, ..Config::default() };
    let mut centres = vec![(0.0, 0.0); sizes.len()];
    let (mut width, mut height) = (0.0_f64, 0.0_f64);
    let mut parts: Vec<_> =
        rust_sugiyama::from_vertices_and_edges(&vertices, &joins, &config).into_iter().map(|part| part.0).collect();
    // In the order of their first box: the library's own order of parts is not said to be the same each time.
    parts.sort_by_key(|part| part.iter().map(|&(place, _)| place).min());
    for part in parts {
        let edge =
            |sign: f64, (x, y): (f64, f64), (wide, high): (f64, f64)| (x + sign * wide / 2.0, y + sign * high / 2.0);
        let (mut left, mut top) = (f64::INFINITY, f64::INFINITY);
        for &(place, centre) in &part {
            let (x, y) = edge(-1.0, centre, sizes[place]);
            (left, top) = (left.min(x), top.min(y));
        }
        let begin = width;
        for (place, (x, y)) in part {
            let centre = (x - left + begin, y - top);
            let (right, bottom) = edge(1.0, centre, sizes[place]);
            centres[place] = centre;
            (width, height) = (width.max(right), height.max(bottom));
        }
    }
    (centres, width, height)
}
