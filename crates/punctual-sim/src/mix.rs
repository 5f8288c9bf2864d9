//! Which faults a run suffers. Each seed draws its own mix: a run with all faults at once hides
//! what a run with just two of them shows.

use std::time::Duration;

use punctual_engine::Timing;

use crate::chance::Chance;

/// How often, in a thousand calls or per run, each fault happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// The longest usual way, each direction.
    pub(crate) latency_ms: u64,
    pub(crate) lose_request: u64,
    pub(crate) lose_reply: u64,
    pub(crate) vanish: u64,
    pub(crate) silence: u64,
    pub(crate) refuse: u64,
    pub(crate) late: u64,
    /// Calls that cost their process its life.
    pub(crate) kill: u64,
    /// Do hints not arrive?
    pub(crate) is_deaf: bool,
    /// What the nemesis does, by weight; nothing if all are zero.
    pub(crate) deeds: [u64; DEEDS],
    /// From deed to deed, on average.
    pub(crate) every: Duration,
    /// In a thousand jobs: those that kill their process.
    pub(crate) poison: u64,
}

/// How many kinds of deeds there are.
pub(crate) const DEEDS: usize = 6;

impl Mix {
    /// The mix of a seed.
    pub(crate) fn draw(chance: &Chance, can_go_back: bool) -> Mix {
        let rate = |often: u64| if chance.in_thousand(500) { 0 } else { chance.below(often) + 1 };
        let mut mix = Mix {
            latency_ms: chance.pick(&[2, 2, 10, 100]),
            lose_request: rate(50),
            lose_reply: rate(50),
            vanish: rate(20),
            silence: rate(20),
            refuse: rate(50),
            late: rate(20),
            kill: rate(4),
            is_deaf: chance.in_thousand(250),
            deeds: [0; DEEDS],
            every: chance.ms(300, 3_000),
            poison: rate(10),
        };
        for deed in &mut mix.deeds {
            *deed = rate(3);
        }
        if !can_go_back {
            mix.deeds[5] = 0;
        }
        mix
    }
}

/// All periods a fifth of the usual, so that a run of seconds sees many deaths.
pub(crate) fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing {
        beat: ms(200),
        call: ms(600),
        give_up: ms(2_000),
        cancel_grace: ms(500),
        dead: ms(3_000),
        leader_lease: ms(1_000),
        leader_margin: ms(200),
        reap: ms(400),
        promote: ms(200),
        schedule: ms(6_000),
        prune: ms(5_000),
        roll_up: ms(2_000),
        poll: ms(200),
    }
}
