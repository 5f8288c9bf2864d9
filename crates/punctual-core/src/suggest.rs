//! "Did you mean …?"

/// The candidate nearest to what was written, if any is near enough to be worth offering.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Below this similarity (0 to 1) a suggestion confuses more than it helps.
    const NEAR_ENOUGH: f64 = 0.75;
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (strsim::normalized_damerau_levenshtein(&written, &candidate.to_lowercase()), candidate)
        })
        .filter(|(similarity, _)| *similarity >= NEAR_ENOUGH)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}
