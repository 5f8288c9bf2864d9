//! Lengths of time counted in fixed buckets, so that counts of many minutes, queues and nodes add up
//! to percentiles: the error is no more than the width of a bucket.

use std::time::Duration;

/// The upper ends of the buckets, in milliseconds: one, two, five, and so on up to a day. What is
/// longer falls in one bucket more.
const BOUNDS_MS: [u64; 26] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000,
    120_000, 300_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000, 18_000_000, 43_200_000,
    86_400_000,
];

/// How many buckets there are.
pub const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// The bucket of a length, from 0.
pub fn bucket(length: Duration) -> usize {
    BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < length)
}

/// The longest that falls in a bucket; none for the last one, which has no end.
pub fn upper(bucket: usize) -> Option<Duration> {
    BOUNDS_MS.get(bucket).map(|bound| Duration::from_millis(*bound))
}

/// The length that no more than this share of what was counted exceeds, to a bucket's end: `0.95` is
/// the 95th percentile. None if nothing was counted.
pub fn percentile(counts: &[u64; BUCKETS], share: f64) -> Option<Duration> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    // At least one, so that the lowest share is the shortest length that was seen.
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= rank {
            return upper(bucket).or(upper(BOUNDS_MS.len() - 1));
        }
    }
    None
}

/// How many of what was counted took no longer than this, which is a bucket's end or is taken for the
/// one below it.
pub fn within(counts: &[u64; BUCKETS], most: Duration) -> u64 {
    let fits = |bucket: &usize| upper(*bucket).is_some_and(|upper| upper <= most);
    (0..BUCKETS).filter(fits).map(|bucket| counts[bucket]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lengths: &[u64]) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        for ms in lengths {
            counts[bucket(Duration::from_millis(*ms))] += 1;
        }
        counts
    }

    #[test]
    fn a_length_falls_in_the_first_bucket_that_holds_it() {
        assert_eq!(bucket(Duration::ZERO), 0);
        for (index, bound) in BOUNDS_MS.iter().enumerate() {
            assert_eq!(bucket(Duration::from_millis(*bound)), index);
            assert_eq!(bucket(Duration::from_millis(*bound) + Duration::from_nanos(1)), index + 1);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_right_to_a_bucket() {
        let lengths: Vec<u64> = (1..=1_000).map(|number| number * 3).collect();
        let counts = counted(&lengths);
        for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let exact = lengths[((1_000.0 * share) as usize).max(1) - 1];
            let told = percentile(&counts, share).unwrap();
            assert_eq!(told, upper(bucket(Duration::from_millis(exact))).unwrap(), "{share}");
        }
        assert_eq!(percentile(&[0; BUCKETS], 0.5), None);
        assert_eq!(percentile(&counted(&[u64::MAX]), 0.5), upper(BUCKETS - 2));
    }

    #[test]
    fn what_is_within_a_bound_is_counted() {
        let counts = counted(&[1, 4_999, 5_000, 5_001, 100_000_000]);
        assert_eq!(within(&counts, Duration::from_secs(5)), 3);
        assert_eq!(within(&counts, Duration::MAX), 4);
    }
}
