//! The stable hash behind `H`, jitter and every other spread that must survive a restart.
//!
//! FNV-1a for the key and the finaliser of `splitmix64` for the mixing: small, fixed by
//! their published constants, and the same on every machine and in every version. A hash
//! that might change between versions would move people's jobs.

/// The seed that a schedule's name stands for: FNV-1a over its UTF-8 bytes.
pub fn seed(key: &str) -> u64 {
    key.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Spreads all bits of `value` over all bits of the answer (the `splitmix64` finaliser).
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The `index`-th independent number drawn from one seed.
pub fn draw(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add((index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// How long after its slot a job is dispatched: 0 to `most_ms`, fixed by schedule and slot.
pub fn jitter_ms(seed: u64, slot_seconds: i64, most_ms: u64) -> u64 {
    mix(seed.wrapping_add(mix(slot_seconds as u64))) % most_ms.saturating_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_name_never_changes() {
        // Written down once; a change here moves every user's `H` schedules.
        let fields = |name: &str| {
            [(1, 60), (2, 24), (3, 28), (5, 7)].map(|(index, size)| draw(seed(name), index) % size)
        };
        assert_eq!(fields("backup/nightly"), [43, 11, 12 - 1, 3]);
        assert_eq!(fields("report/daily"), [34, 2, 16 - 1, 2]);
        assert_eq!(draw(seed("backup/nightly"), 1) % 15, 13);
    }

    #[test]
    fn the_jitter_of_a_slot_never_changes() {
        assert_eq!(jitter_ms(seed("backup/nightly"), 1_767_225_600, 30_000), 21_481);
        assert_eq!(jitter_ms(seed("backup/nightly"), 1_767_225_600, 0), 0);
        assert!(jitter_ms(1, -1, u64::MAX) < u64::MAX);
    }
}
