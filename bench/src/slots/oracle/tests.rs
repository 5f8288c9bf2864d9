use super::super::records::AttemptRecord;
use super::*;

const CREATED: i64 = 100 * SECOND + 300_000;
const UNTIL: i64 = 105 * SECOND + 500_000;
const NODE: Id = [9; 16];

fn id(number: i64) -> Id {
    [number as u8; 16]
}

/// Five slots, each with its job, decided under two terms, the second from 103 on.
fn sound() -> Records {
    let slot = |second: i64| SlotRecord {
        schedule: id(1),
        job: Some(id(second)),
        node: NODE,
        slot: second * SECOND,
        end: None,
        decided_at: second * SECOND + 5_000,
        count: 1,
        outcome: SlotOutcome::Fired,
        term: if second < 103 { 1 } else { 2 },
    };
    let job = |second: i64| JobRecord {
        id: id(second),
        schedule: Some(id(1)),
        slot: Some(second * SECOND),
        finished_at: Some(second * SECOND + 900_000),
    };
    let attempt = |second: i64| AttemptRecord {
        job: id(second),
        claimed_at: second * SECOND + 8_000,
        ended_at: second * SECOND + 900_000,
    };
    Records {
        schedules: vec![ScheduleRecord {
            id: id(1),
            created_at: CREATED,
            next_slot: Some(106 * SECOND),
        }],
        slots: (101..=105).map(slot).collect(),
        jobs: (101..=105).map(job).collect(),
        attempts: (101..=105).map(attempt).collect(),
        terms: vec![
            TermRecord { term: 1, node: NODE, at: 90 * SECOND },
            TermRecord { term: 2, node: NODE, at: 102 * SECOND + 500_000 },
        ],
        unfinished: 0,
    }
}

/// Judges records as somebody spoilt them; the schedule's jobs may or may not run at once.
fn judge(is_always: bool, spoil: impl Fn(&mut Records)) -> Verdict {
    let mut records = sound();
    spoil(&mut records);
    let known = Known {
        id: id(1),
        name: "each second".to_owned(),
        step: 1,
        is_always,
        is_skipping: !is_always,
        asked_at: CREATED - 1_000,
    };
    Verdict::of(&records, &[known], &Quiet::default(), UNTIL)
}

/// What is wrong, by name and number.
fn wrong(verdict: &Verdict) -> Vec<(&'static str, u64)> {
    let all = [
        ("lost", verdict.lost),
        ("doubled", verdict.doubled),
        ("early", verdict.early),
        ("phantom", verdict.phantom),
        ("skipped", verdict.skipped),
        ("out_of_term", verdict.out_of_term),
        ("at_once", verdict.at_once),
        ("overlapping", verdict.overlapping),
        ("unfinished", verdict.unfinished),
    ];
    let wrong: Vec<_> = all.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(wrong.is_empty(), verdict.first_broken.is_none());
    wrong
}

#[test]
fn a_sound_ledger_is_sound() {
    let verdict = judge(false, |_| {});
    assert_eq!(wrong(&verdict), []);
    assert_eq!((verdict.slots, verdict.rows, verdict.fired), (5, 5, 5));
}

#[test]
fn a_run_that_was_skipped_covers_all_its_slots() {
    let skip = |records: &mut Records, count: i64| {
        records.slots.drain(2..4);
        records.jobs.drain(1..4);
        records.attempts.drain(1..4);
        let row = &mut records.slots[1];
        (row.end, row.count, row.job) = (Some(104 * SECOND), count, None);
        (row.decided_at, row.term) = (104 * SECOND + 5_000, 2);
        row.outcome = SlotOutcome::SkippedOverlap;
    };
    assert_eq!(wrong(&judge(false, |records| skip(records, 3))), []);
    assert_eq!(wrong(&judge(false, |records| skip(records, 2))), [("phantom", 1)]);
    assert_eq!(wrong(&judge(true, |records| skip(records, 3))), [("skipped", 1)]);
}

#[test]
fn every_defect_is_found() {
    type Spoil = fn(&mut Records);
    let cases: [(Spoil, &[(&str, u64)]); 16] = [
        // The row and its job, the job alone, the row alone.
        (
            |it| {
                it.slots.remove(2);
                it.jobs.remove(2);
                it.attempts.remove(2);
            },
            &[("lost", 1)],
        ),
        (
            |it| {
                it.jobs.remove(2);
                it.attempts.remove(2);
            },
            &[("lost", 1)],
        ),
        (
            |it| {
                it.slots.remove(2);
            },
            &[("lost", 1), ("phantom", 1)],
        ),
        // What is decided could be decided again.
        (|it| it.schedules[0].next_slot = Some(105 * SECOND), &[("phantom", 1)]),
        // Nobody has decided for a while.
        (
            |it| {
                it.schedules[0].next_slot = Some(105 * SECOND);
                it.slots.pop();
                it.jobs.pop();
                it.attempts.pop();
            },
            &[("lost", 1)],
        ),
        // A second job, and a range that covers a slot again.
        (
            |it| {
                it.jobs.push(JobRecord {
                    id: id(7),
                    schedule: Some(id(1)),
                    slot: Some(103 * SECOND),
                    finished_at: Some(104 * SECOND),
                });
            },
            &[("doubled", 1)],
        ),
        (
            |it| (it.slots[1].end, it.slots[1].count) = (Some(103 * SECOND), 2),
            &[("doubled", 1), ("early", 1)],
        ),
        // What was never due: half a second, and before it was made.
        (|it| it.slots[2].slot += 500_000, &[("lost", 2), ("early", 1), ("phantom", 2)]),
        (
            |it| {
                (it.slots[0].slot, it.jobs[0].slot) = (100 * SECOND, Some(100 * SECOND));
            },
            &[("lost", 1), ("phantom", 1)],
        ),
        // Before its time.
        (|it| it.slots[3].decided_at = 104 * SECOND - 1, &[("early", 1)]),
        (|it| it.attempts[3].claimed_at = 104 * SECOND - 1, &[("early", 1)]),
        // A leader whose term is over, and one that never led.
        (|it| it.slots[3].term = 1, &[("out_of_term", 3)]),
        (|it| it.slots[3].node = id(8), &[("out_of_term", 1)]),
        (|it| it.attempts[2].ended_at += SECOND, &[("at_once", 1)]),
        // Two slots fired before the end of a job, which waited for another attempt or still does.
        (|it| it.jobs[2].finished_at = Some(105 * SECOND + 5_001), &[("overlapping", 2)]),
        (|it| it.jobs[3].finished_at = None, &[("overlapping", 1)]),
    ];
    for (number, (spoil, expected)) in cases.into_iter().enumerate() {
        assert_eq!(wrong(&judge(false, spoil)), expected, "case {number}");
    }
    assert_eq!(wrong(&judge(false, |it| it.unfinished = 1)), [("unfinished", 1)]);
}
