use super::*;
use crate::{Spec, Timestamp, When, Zone};

/// One line per expression, so that a snapshot reads as a table.
fn table(expressions: &[&str], show: impl Fn(&str) -> String) -> String {
    let lines =
        expressions.iter().map(|expression| format!("{expression:<28} {}", show(expression)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn errors_show_the_place_and_the_way_out() {
    let bad = [
        "61 * * * *",
        "* * * *",
        "0/15 * * * *",
        "0 25 * * MON-FRI",
        "0 24 * * *",
        "5/15 * * * *",
        "0 22-2 * * *",
        "0 0 * * FRI-MON",
        "0 0 * * 5-0",
        "0 0 * DEC-JAN *",
        "0 0 * * MONDAY",
        "0 0 * * FRY",
        "0 0 * JANUARY *",
        "JAN * * * *",
        "0 0 * * JAN",
        "0 0 * Jänner *",
        "0 12 1 1 * 2027",
        "*/90 * * * *",
        "0 */36 * * *",
        "0 0 */45 * *",
        "*/0 * * * *",
        "*/ * * * *",
        "/5 * * * *",
        "0 0 */2 * MON",
        "0 0 13 * */2",
        "1,,2 * * * *",
        "1,2, * * * *",
        "-5 * * * *",
        "5- * * * *",
        "1--100000000 * * * *",
        "0 0 L- * *",
        "0 0 L-31 * *",
        "0 0 1-L * *",
        "0 0 L/2 * *",
        "0 0 WL * *",
        "0 0 *W * *",
        "0 0 l * *",
        "0 0 32W * *",
        "0 0 * * L",
        "0 0 * * 1#6",
        "0 0 * * 1#",
        "0 0 * * 1-5L",
        "0 0 * * 8",
        "0 0 1 * +",
        "0 0 1 * MON,+TUE",
        "? * * * *",
        "H * * * *",
        "0 0 * * * H",
        "@secondly",
        "@HOURLY",
        "@hourli",
        "@reboot",
        "@daily 0 0 * * *",
        "@nope",
        "",
        "   ",
        "* * * * * * * * *",
        "TZ=Europe/Paris 0 9 * * *",
        "0 9 * * * Europe/Paris",
        "0 0 0 1 1 * 2200",
        "0 0 0 1 1 * 1969",
        "1e1 * * * *",
        "99999999999999999999 * * * *",
        "0 0 * * *;",
        "`0 0 * * *`",
        "0\u{a0}0 * * *\n",
        "@every",
        "@every 0s",
        "@every 400d",
        "@every 1mo",
        "@every 1.5s",
        "@every 10m/10m",
        "@every 10m/H",
        "@every ten",
        "@at",
        "@at tomorrow",
        "@at 2027-01-01T00:00:00.5Z",
        "@at 2027-01-01T00:00:00.0000001Z",
        "@at 2500-01-01T00:00:00Z",
        "@every 01:30:00",
        "@every 0s/10s",
        "@every 5m\n",
        "0 0 9 * * MON,",
        "0 9 * * *  # nightly",
        "TZ=UTC @daily",
        "0 0 * * #2",
        "0 0 15w * *",
        "0/90 * * * *",
        "0 0 * * 7/2",
        "0 \u{202e}9 * * *",
    ];
    let reports = bad.map(|text| When::parse(text).unwrap_err().report().to_string());
    insta::assert_snapshot!(reports.join("\n\n"));
}

#[test]
fn an_error_in_one_line_names_field_value_and_hint() {
    let error = "0 0 * * MONDAY".parse::<Cron>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "day-of-week: unknown name `MONDAY` (hint: names have three letters; use `MON`)"
    );
    assert_eq!(
        (error.code().as_str(), error.span(), error.field()),
        ("unknown_name", 8..14, Some(Unit::DayOfWeek))
    );
}

#[test]
fn an_error_never_repeats_more_than_a_screen_of_the_text() {
    let endless = format!("{} * * * *", "9".repeat(1_000));
    let report = endless.parse::<Cron>().unwrap_err().report().to_string();
    assert!(report.lines().all(|line| line.chars().count() < 200), "{report}");
    let far = format!("{}1,x * * * *", "1,".repeat(500));
    insta::assert_snapshot!(far.parse::<Cron>().unwrap_err().report());
    let longer = "*".repeat(MAX_EXPRESSION_BYTES + 1);
    assert_eq!(longer.parse::<Cron>().unwrap_err().code(), CronErrorCode::TooLong);
    let long_list = format!("{}0 * * * *", "0,".repeat(MAX_EXPRESSION_BYTES));
    assert_eq!(long_list.parse::<Cron>().unwrap_err().code(), CronErrorCode::TooLong);
}

#[test]
fn expressions_have_one_normalised_form_that_reads_back_equal() {
    let expressions = [
        "*/5 * * * *",
        "0-59/5 * * * *",
        "0,15,30,45 * * * *",
        "*/15,7 */1 * * *",
        "00 09 * jan-mar 1-5",
        "@weekly",
        "@yearly",
        "0 0 1-31 * MON",
        "0 0 1-31/2 * *",
        "0 0 * * 5-7",
        "0 0 * * */2",
        "0 0 L,15W,L-3,LW,1 * *",
        "0 0 * * MON#1,5#L,7L,MON",
        "0 0 13 * +FRI",
        "0 0 1 * +*",
        "0 0 ? * ?",
        "*/10 * * * * *",
        "0 0 0 1 1 * */5",
        "0 0 0 1 1 * 2027,2028,2029,2040",
        "0 9-17/2 * 1-12 *",
        "*/24 0 * * *",
        "@every 90m",
        "@every 1h/15m",
        "@at 2027-01-01T00:00:00+01:00",
    ];
    let normalise = |text: &str| {
        let when = When::parse(text).unwrap();
        let normalized = when.to_string();
        assert_eq!(When::parse(&normalized).unwrap(), when, "{text}");
        normalized
    };
    insta::assert_snapshot!(table(&expressions, normalise));
}

#[test]
fn expressions_are_said_in_plain_words() {
    let expressions = [
        "* * * * *",
        "*/5 * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "15 * * * *",
        "0 */2 * * *",
        "20 */6 * * *",
        "0 */5 * * *",
        "30 2 * * *",
        "0 9,17 * * *",
        "0 9 * * 1-5",
        "0 9-17 * * 1-5",
        "*/15 9-17 * * MON-FRI",
        "* 9 * * *",
        "5,35 8-18/2 * * *",
        "0 0 1 * *",
        "0 0 1,15 * *",
        "0 0 L * *",
        "0 0 L-1 * *",
        "0 0 L-3 * *",
        "0 12 15W * *",
        "0 0 LW * *",
        "0 0 * * MON#1",
        "0 0 * * FRIL",
        "0 0 1 * MON",
        "0 0 13 * +FRI",
        "0 0 * 1-3,10 *",
        "0 0 29 2 *",
        "0 0 * * 6,0",
        "* * * * * *",
        "*/10 * * * * *",
        "30 * * * * *",
        "15 30 2 * * *",
        "*/20 */10 * * * *",
        "0,30 5 9-17 * * *",
        "0 0 12 1 1 * 2027",
        "0 0 12 1 1 * 2027-2030",
        "0 0 12 1 1 * */10",
        "@daily",
        "@every 90m",
        "@every 1h/10m",
        "@at 2027-01-01T00:00:00Z",
    ];
    insta::assert_snapshot!(table(&expressions, |text| When::parse(text).unwrap().describe()));
}

#[test]
fn an_expression_without_dates_says_why() {
    let expressions = [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 0 29 2 * 2027",
        "0 0 31W 2 *",
        "0 0 29 2 *",
        "0 0 1 * +MON",
    ];
    let reason = |text: &str| {
        text.parse::<Cron>().unwrap().never_fires().unwrap_or_else(|| "fires".to_owned())
    };
    insta::assert_snapshot!(table(&expressions, reason));
}

#[test]
fn the_spread_follows_the_name_and_is_kept_in_the_normalised_form() {
    let expressions = [
        "H H * * *",
        "H/15 * * * *",
        "H H(0-5) * * *",
        "H H H * *",
        "H H * * H",
        "0 H(9-17)/4 * * *",
        "@every 1h/H",
    ];
    let show = |text: &str| {
        let when = When::parse_named(text, "backup/nightly").unwrap();
        assert_eq!(When::parse_named(&when.to_string(), "backup/nightly").unwrap(), when);
        assert_eq!(when.to_string(), text);
        when.describe()
    };
    insta::assert_snapshot!(table(&expressions, show));
    // A step is a cadence, a single drawn value is a fixed time of day.
    assert!(Cron::parse_named("H/15 3 * * *", "x").unwrap().is_wild());
    assert!(!Cron::parse_named("H H * * *", "x").unwrap().is_wild());
    for bad in ["H,5 * * * *", "H(5) * * * *", "H(0-9)/11 * * * *", "H(9-5) * * * *", "Hx * * * *"]
    {
        assert!(Cron::parse_named(bad, "x").is_err(), "{bad}");
    }
}

/// Texts that look like expressions more or less.
fn scribbles() -> impl Iterator<Item = String> {
    let pieces = [
        "*", "/", "-", ",", "#", "L", "W", "H", "(", ")", "+", "?", "@", "every ", "7", "0", "5",
        "59", "99", "MON", "sun", "Jan", " ", " ", " ", " * * * *", "\t", "é", "\n",
    ];
    (0..300_000_u64).map(move |seed| {
        let length = crate::hash::draw(seed, 0) % 14;
        let piece = |index| pieces[(crate::hash::draw(seed, index) % pieces.len() as u64) as usize];
        (1..=length).map(piece).collect()
    })
}

/// Expressions of five to seven fields of which one or two are scribbled.
fn scribbled_fields(pieces: &[&str]) -> impl Iterator<Item = String> {
    (0..200_000_u64).map(move |seed| {
        let draw = |index| crate::hash::draw(seed, index) as usize;
        let mut fields: Vec<String> = vec!["*".to_owned(); 5 + draw(0) % 3];
        for changed in 0..1 + draw(1) as u64 % 2 {
            let place = draw(10 + changed) % fields.len();
            let length = 1 + draw(20 + changed) as u64 % 5;
            let piece = |index| pieces[draw(30 + 8 * changed + index) % pieces.len()];
            fields[place] = (0..length).map(piece).collect();
        }
        fields.join(" ")
    })
}

#[test]
fn no_text_makes_the_reader_panic() {
    let pieces = [
        "*", "/", "-", ",", "#", "L", "W", "H", "(", ")", "+", "?", "7", "59", "2027", "MON",
        "Jan", "é",
    ];
    for text in scribbles().chain(scribbled_fields(&pieces)) {
        match When::parse_named(&text, "x") {
            Ok(when) => drop(when.describe()),
            Err(error) => {
                assert!(error.text().get(error.span()).is_some(), "{text}: {:?}", error.span());
                drop(error.report().to_string());
            }
        }
    }
}

#[test]
fn an_expression_that_is_offered_is_one() {
    let pieces =
        ["*", "/", "-", ",", "7", "0", "5", "59", "90", "2027", "MON", "FRI", "Jan", "dec", "+"];
    let short =
        ["61", "0 9 * MON-FRI", "TZ=UTC @daily", "0 30 12 1 * 2027", "0 12 1 1 * 3000", "* *"];
    let mut offered = 0;
    for text in scribbled_fields(&pieces).chain(short.map(str::to_owned)) {
        let Err(error) = When::parse(&text) else { continue };
        let whole = |hint: &str| {
            let (_, offer) = hint.split_once("try `").or_else(|| hint.split_once("fields: `"))?;
            Some(offer.trim_end_matches('`').to_owned())
        };
        if let Some(offer) = error.hint().and_then(whole) {
            assert!(When::parse(&offer).is_ok(), "{text}: {offer}");
            offered += 1;
        }
        // What is offered for one item stands in its place.
        let for_item =
            matches!(error.code(), CronErrorCode::StepNeedsRange | CronErrorCode::DescendingRange);
        if let Some(offer) =
            error.hint().filter(|_| for_item).and_then(|hint| hint.split('`').nth(1))
        {
            if offer.starts_with("@every") {
                assert!(When::parse(offer).is_ok(), "{text}: {offer}");
                continue;
            }
            let mended =
                format!("{}{offer}{}", &text[..error.span().start], &text[error.span().end..]);
            let is_same = |other: &CronError| {
                other.code() == error.code() && other.span().start == error.span().start
            };
            let still_wrong = When::parse(&mended).err().filter(is_same);
            assert_eq!(still_wrong, None, "{text} became {mended}");
            offered += 1;
        }
    }
    assert!(offered > 200, "too few offers to mean anything: {offered}");
}

#[test]
fn the_quick_reader_and_the_general_one_agree() {
    let pieces =
        ["*", "/", "-", ",", "7", "0", "5", "59", "12", "MON", "sun", "Jan", "dec", "L", "?", "+"];
    let mut read = 0;
    for text in scribbled_fields(&pieces) {
        if let Some(cron) = quick::parse(&text) {
            assert_eq!(parse::parse(&text, None), Ok(cron), "{text}");
            read += 1;
        }
    }
    assert!(read > 5_000, "too few of the texts are expressions: {read}");
    // What people write goes the quick way.
    for text in ["*/5 * * * *", "0 9 * * 1-5", "30 2 1,15 JAN MON", "*/10 * * * * *"] {
        assert!(quick::parse(text).is_some(), "{text}");
    }
}

#[test]
fn the_search_ends_with_the_year_2199() {
    let next = |text: &str, zone: &str, from: &str| {
        let from: Timestamp = from.parse().unwrap();
        Spec::new(When::parse(text).unwrap(), Zone::get(zone).unwrap())
            .next(from)
            .map(|slot| slot.to_string())
    };
    assert_eq!(next("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z"), None);
    let midway = next("59 23 * * *", "Pacific/Midway", "2199-12-31T12:00:00Z");
    assert_eq!(midway.as_deref(), Some("2200-01-01T10:59:00Z"));
    assert_eq!(next("59 23 * * *", "Pacific/Midway", "2200-01-01T10:59:00Z"), None);
    assert_eq!(
        next("* * * * *", "UTC", "-009999-01-03T00:00:00Z").as_deref(),
        Some("1970-01-01T00:00:00Z")
    );
    assert_eq!(next("* * * * *", "UTC", "9999-12-29T00:00:00Z"), None);
}
