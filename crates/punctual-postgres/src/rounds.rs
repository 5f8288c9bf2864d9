//! What names a job or a schedule more than once is done in rounds: the second must see what the first
//! did.

use std::collections::HashMap;
use std::hash::Hash;

/// The places of names in a list, by how often each was named before.
pub(crate) fn rounds<N: Eq + Hash>(names: impl Iterator<Item = N>) -> Vec<Vec<usize>> {
    let mut named: HashMap<N, usize> = HashMap::new();
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for (index, name) in names.enumerate() {
        let round = named.entry(name).or_default();
        if rounds.len() == *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(index);
        *round += 1;
    }
    rounds
}
