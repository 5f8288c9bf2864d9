//! The way out of each mistake, in words. Only ever called when there is one.

use super::error::CronErrorCode as Code;
use super::unit::{LAST_YEAR, Unit};
use super::{NICKNAMES, echo};
use crate::suggest;

pub(crate) const NAME_NEEDED: &str =
    "pass the schedule name (`--name` on the command line), or use a fixed value";

pub(super) fn nickname(written: &str) -> String {
    let known = || NICKNAMES.iter().map(|(nickname, _)| *nickname);
    let lower = written.to_lowercase();
    if written == "@reboot" {
        return "`@reboot` is an event, not a time; use a service manager such as systemd"
            .to_owned();
    }
    if written == "@secondly" {
        return "for every second, use `* * * * * *`".to_owned();
    }
    if written == "@minutely" {
        return "for every minute, use `* * * * *`".to_owned();
    }
    if known().any(|nickname| nickname == lower) {
        return format!("nicknames are lowercase; use `{lower}`");
    }
    if let Some(nickname) =
        known().find(|nickname| written.split([' ', '\t']).next() == Some(nickname))
    {
        return format!("`{nickname}` must be the whole expression; remove the text after it");
    }
    match suggest::nearest(written, known()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            "expected one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, \
                 @every DURATION, @at TIME"
                .to_owned()
        }
    }
}

pub(super) fn step_without_range(unit: Unit, value: u32, step: u32) -> Option<String> {
    if step == 0 || step > unit.size() {
        return large_step(unit, step);
    }
    let (low, high) = (unit.low(), unit.high());
    // 7 is Sunday, where the week begins.
    let from = if value > high { low } else { value };
    let range = format!("`{from}-{high}/{step}`");
    // `*/n` in a day field may be ambiguous; the range never is.
    let is_day = matches!(unit, Unit::DayOfMonth | Unit::DayOfWeek);
    Some(if from == low && !is_day {
        format!("use `*/{step}` or {range}")
    } else {
        format!("use {range}")
    })
}

pub(super) fn descending(
    unit: Unit,
    (left, low): (&str, u32),
    (right, high): (&str, u32),
) -> String {
    let (first, lowest, last, highest) = match unit {
        // A week that runs over its end reads best from Monday to Sunday.
        Unit::DayOfWeek => ("MON".to_owned(), 1, "SUN".to_owned(), 7),
        Unit::Month => ("JAN".to_owned(), 1, "DEC".to_owned(), 12),
        _ => (unit.low().to_string(), unit.low(), unit.high().to_string(), unit.high()),
    };
    let range = |from: &str, to: &str, single: bool| {
        if single { echo(from) } else { format!("{}-{}", echo(from), echo(to)) }
    };
    let upper = range(left, &last, low == highest);
    if high < lowest {
        return format!("use `{upper}`");
    }
    let lower = if high == lowest { first } else { range(&first, right, false) };
    format!("use `{upper},{lower}`")
}

pub(super) fn large_step(unit: Unit, step: u32) -> Option<String> {
    let (noun, letter, longest) = match unit {
        Unit::Second => ("seconds", 's', 366 * 86_400),
        Unit::Minute => ("minutes", 'm', 366 * 1_440),
        Unit::Hour => ("hours", 'h', 366 * 24),
        Unit::DayOfMonth => ("days", 'd', 366),
        _ => return None,
    };
    (1..=longest)
        .contains(&step)
        .then(|| format!("to run every {step} {noun}, use `@every {step}{letter}`"))
}

/// What to say of letters where the field has no such name.
pub(super) fn unknown_word(unit: Unit, word: &str) -> (Code, String, Option<String>) {
    let shown = echo(word);
    if let Some(short) = word.get(..3)
        && let Some(name) = unit.names().iter().find(|name| name.eq_ignore_ascii_case(short))
    {
        return (
            Code::UnknownName,
            format!("unknown name `{shown}`"),
            Some(format!("names have three letters; use `{name}`")),
        );
    }
    let home = [Unit::Month, Unit::DayOfWeek].into_iter().find(|home| {
        *home != unit && home.names().iter().any(|name| name.eq_ignore_ascii_case(word))
    });
    if let Some(home) = home {
        let message = format!("`{shown}` is a {} name", home.name());
        let place =
            "in an expression with five fields, month is the fourth and day-of-week the fifth";
        return (Code::UnknownName, message, Some(place.to_owned()));
    }
    if word.eq_ignore_ascii_case("H") {
        return (
            Code::Misplaced,
            format!("`{shown}` is not allowed here"),
            Some("`H` must be uppercase, and is allowed in every field except year".to_owned()),
        );
    }
    if ["L", "W", "LW", "WL"].iter().any(|letters| word.eq_ignore_ascii_case(letters)) {
        let hint = match unit {
            Unit::DayOfMonth => {
                "use `L` for the last day, `15W` for the weekday nearest to the 15th, or `LW` for \
                 the last weekday"
            }
            _ => {
                "`L` and `W` are for the day-of-month field (`L`, `15W`, `LW`); in day-of-week, \
                 `5L` is the last Friday"
            }
        };
        return (Code::Misplaced, format!("`{shown}` is not allowed here"), Some(hint.to_owned()));
    }
    match unit.names() {
        [] => (
            Code::Unexpected,
            format!("`{shown}` is not a number"),
            Some(format!("use a number from {} to {}", unit.low(), unit.high())),
        ),
        names => {
            let hint = match suggest::nearest(word, names.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("expected one of {}", names.join(", ")),
            };
            (Code::UnknownName, format!("unknown name `{shown}`"), Some(hint))
        }
    }
}

pub(super) fn out_of_range(unit: Unit, value: u32) -> String {
    match (unit, value) {
        (Unit::Hour, 24) => "for midnight, use hour 0".to_owned(),
        (Unit::Minute | Unit::Second, 60) => {
            format!(
                "for the start of the next {}, use 0",
                if unit == Unit::Minute { "hour" } else { "minute" }
            )
        }
        (Unit::Year, value) if value > LAST_YEAR => {
            format!("the last supported year is {LAST_YEAR}")
        }
        (_, value) if value < unit.low() => format!("the lowest value is {}", unit.low()),
        _ => format!("the highest value is {}", unit.highest_written()),
    }
}

/// What a strange character in place of a number probably meant.
pub(super) fn not_a_number(unit: Unit, text: &str) -> Option<String> {
    let strange = |character: &char| !character.is_ascii_digit() && *character != '*';
    let hint = match text.chars().find(strange).or_else(|| text.chars().find(|any| *any == '*'))? {
        '?' => {
            "`?` means any day; use it as the only value of day-of-month or day-of-week".to_owned()
        }
        '+' => {
            "`+` is allowed only at the start of day-of-week, where it requires both day fields \
             to match: `0 12 1 * +MON`"
                .to_owned()
        }
        '#' => "`#` is for day-of-week: `MON#1` is the first Monday of the month".to_owned(),
        'L' | 'W' if unit == Unit::DayOfMonth || unit == Unit::DayOfWeek => {
            "`L`, `W` and `#` are allowed in lists, but not in ranges or with steps".to_owned()
        }
        'L' | 'W' => "`L` and `W` are for the day-of-month field".to_owned(),
        'l' | 'w' => "`L` and `W` must be uppercase".to_owned(),
        ';' | '&' | '|' | '`' | '"' | '\'' => {
            "separate values with commas and fields with spaces; remove quotes".to_owned()
        }
        '*' => "use `*` alone or with a step, such as `*/5`".to_owned(),
        '-' => "write a range as `a-b`, such as `1-5`".to_owned(),
        _ => return None,
    };
    Some(hint)
}

pub(super) fn ambiguous_days(dom: &str, dow: &str) -> String {
    let (dom, dow) = (echo(dom), echo(dow));
    let (one_dom, one_dow) = (dom.replace('*', "1-31"), dow.replace('*', "0-6"));
    format!(
        "if both must match, use `{dom} … +{dow}`; if either is enough, use \
         `{one_dom} … {one_dow}`"
    )
}
