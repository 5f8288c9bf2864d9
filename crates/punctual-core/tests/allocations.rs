//! The search for a slot is done for every schedule again and again; it must not allocate.

use punctual_core::{Spec, Timestamp, When, Zone};

#[test]
fn asking_for_a_slot_allocates_nothing() {
    let hard = [
        "*/5 * * * *",
        "30 2 * * *",
        "0 0 29 2 *",
        "0 0 30 2 *",
        "0 0 L,15W * MON#2,FRIL",
        "@every 7m",
    ];
    for zone in ["UTC", "Europe/Paris", "Australia/Lord_Howe"] {
        for text in hard {
            let spec = Spec::new(When::parse(text).unwrap(), Zone::get(zone).unwrap());
            let allocations = allocation_counter::measure(|| {
                let mut at: Timestamp = Timestamp::from_seconds(1_800_000_000);
                for _ in 0..200 {
                    let Some(next) = spec.next(at) else { break };
                    at = next;
                }
                std::hint::black_box(spec.previous(at));
            });
            assert_eq!(allocations.count_total, 0, "{text} in {zone}");
        }
    }
}

#[test]
fn reading_an_expression_allocates_nothing() {
    let allocations = allocation_counter::measure(|| {
        for text in
            ["*/5 * * * *", "0 9 * JAN-MAR,OCT MON-FRI", "0,15 0 0 L,15W * MON#1,FRIL 2027-2030"]
        {
            std::hint::black_box(text.parse::<punctual_core::Cron>().unwrap());
        }
    });
    assert_eq!(allocations.count_total, 0);
}
