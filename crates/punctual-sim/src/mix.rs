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
    /// How many machines there are.
    pub(crate) machines: usize,
    /// The average life of a process, if all machines crash again and again.
    pub(crate) life: Option<Duration>,
    /// Are machines in zones, and jobs of schedules for one zone?
    pub(crate) has_zones: bool,
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
            machines: 3,
            life: None,
            has_zones: false,
        };
        for deed in &mut mix.deeds {
            *deed = rate(3);
        }
        if !can_go_back {
            mix.deeds[5] = 0;
        }
        // Last, so that the runs without zones are those that they always were.
        mix.has_zones = chance.in_thousand(350);
        mix
    }

    /// A mix in which little is lost, so that what a jump of the clock does is seen.
    pub(crate) fn clock_jump(chance: &Chance) -> Mix {
        Mix { machines: 2, life: None, ..Mix::crash_loop(chance, 1) }
    }

    /// A mix in which processes crash again and again, and requests are rarely lost: only then is
    /// it certain by when a job must be reclaimed.
    pub(crate) fn crash_loop(chance: &Chance, machines_max: u64) -> Mix {
        Mix {
            latency_ms: chance.pick(&[2, 10, 50]),
            lose_request: chance.below(5),
            lose_reply: chance.below(5),
            vanish: 0,
            silence: 0,
            refuse: chance.below(5),
            late: 0,
            kill: 0,
            is_deaf: chance.in_thousand(250),
            deeds: [0; DEEDS],
            every: Duration::from_secs(1),
            poison: 0,
            machines: 1 + chance.below(machines_max) as usize,
            life: Some(chance.ms(600, 5_000)),
            has_zones: false,
        }
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
