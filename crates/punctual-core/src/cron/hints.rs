//! The way out of each mistake, in words. Only ever called when there is one.

use super::error::CronErrorCode as Code;
use super::unit::{LAST_YEAR, Unit};
use super::{NICKNAMES, echo};
use crate::suggest;

pub(crate) const NAME_NEEDED: &str =
    "give the name (`--name` on the command line), or write a fixed value";

pub(super) fn nickname(written: &str) -> String {
    let known = || NICKNAMES.iter().map(|(nickname, _)| *nickname);
    let lower = written.to_lowercase();
    if written == "@reboot" {
        return "starting is an event, not a time; a schedule cannot wait for it".to_owned();
    }
    if written == "@secondly" {
        return "every second is `* * * * * *`".to_owned();
    }
    if written == "@minutely" {
        return "every minute is `* * * * *`".to_owned();
    }
    if known().any(|nickname| nickname == lower) {
        return format!("nicknames are lower case: `{lower}`");
    }
    if let Some(nickname) =
        known().find(|nickname| written.split([' ', '\t']).next() == Some(nickname))
    {
        return format!("`{nickname}` stands alone, without fields after it");
    }
    match suggest::nearest(written, known()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every DURATION and @at INSTANT".to_owned(),
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
    Some(if from == low && !is_day { format!("`*/{step}` or {range}") } else { range })
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
        return format!("`{upper}`");
    }
    let lower = if high == lowest { first } else { range(&first, right, false) };
    format!("`{upper},{lower}`")
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
        .then(|| format!("to run every {step} {noun} write `@every {step}{letter}`"))
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
            Some(format!("names have three letters: `{name}`")),
        );
    }
    let home = [Unit::Month, Unit::DayOfWeek].into_iter().find(|home| {
        *home != unit && home.names().iter().any(|name| name.eq_ignore_ascii_case(word))
    });
    if let Some(home) = home {
        let message = format!("`{shown}` is a {}", home.name());
        let place = "of five fields the fourth is the month and the fifth the day-of-week";
        return (Code::UnknownName, message, Some(place.to_owned()));
    }
    if word.eq_ignore_ascii_case("H") {
        return (
            Code::Misplaced,
            format!("`{shown}` cannot stand here"),
            Some("a spread is `H`, in capitals, in any field but the year".to_owned()),
        );
    }
    if ["L", "W", "LW", "WL"].iter().any(|letters| word.eq_ignore_ascii_case(letters)) {
        let hint = match unit {
            Unit::DayOfMonth => {
                "`L` is the last day, `15W` the weekday nearest to the 15th, `LW` the last weekday"
            }
            _ => {
                "`L` and `W` belong in the day-of-month field (`L`, `15W`, `LW`), `5L` in day-of-week is the last Friday"
            }
        };
        return (Code::Misplaced, format!("`{shown}` cannot stand here"), Some(hint.to_owned()));
    }
    match unit.names() {
        [] => (
            Code::Unexpected,
            format!("`{shown}` is not a number"),
            Some(format!("a {} is a number from {} to {}", unit.name(), unit.low(), unit.high())),
        ),
        names => {
            let hint = match suggest::nearest(word, names.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("the names are {}", names.join(", ")),
            };
            (Code::UnknownName, format!("unknown name `{shown}`"), Some(hint))
        }
    }
}

pub(super) fn out_of_range(unit: Unit, value: u32) -> String {
    match (unit, value) {
        (Unit::Hour, 24) => "midnight is hour 0".to_owned(),
        (Unit::Minute | Unit::Second, 60) => {
            format!("the full {} is 0", if unit == Unit::Minute { "hour" } else { "minute" })
        }
        (Unit::Year, value) if value > LAST_YEAR => {
            format!("schedules end with the year {LAST_YEAR}")
        }
        (_, value) if value < unit.low() => format!("the first {} is {}", unit.name(), unit.low()),
        _ => format!("the last {} is {}", unit.name(), unit.highest_written()),
    }
}

/// What a strange character in place of a number probably meant.
pub(super) fn not_a_number(unit: Unit, text: &str) -> Option<String> {
    let strange = |character: &char| !character.is_ascii_digit() && *character != '*';
    let hint = match text.chars().find(strange).or_else(|| text.chars().find(|any| *any == '*'))? {
        '?' => "`?` means any day and stands alone in day-of-month or day-of-week".to_owned(),
        '+' => {
            "`+` stands first in day-of-week and makes both day fields necessary: `0 12 1 * +MON`"
                .to_owned()
        }
        '#' => "`#` belongs in day-of-week: `MON#1` is the first Monday".to_owned(),
        'L' | 'W' if unit == Unit::DayOfMonth || unit == Unit::DayOfWeek => {
            "`L`, `W` and `#` stand in lists, but not in ranges or with steps".to_owned()
        }
        'L' | 'W' => "`L` and `W` belong in the day-of-month field".to_owned(),
        'l' | 'w' => "`L` and `W` are written in capitals".to_owned(),
        ';' | '&' | '|' | '`' | '"' | '\'' => {
            "values are joined by commas, fields by blanks; quotes are the shell's".to_owned()
        }
        '*' => "`*` stands alone or before a step: `*/5`".to_owned(),
        '-' => "a range is written `a-b`".to_owned(),
        _ => return None,
    };
    Some(hint)
}

pub(super) fn ambiguous_days(dom: &str, dow: &str) -> String {
    let (dom, dow) = (echo(dom), echo(dow));
    let (one_dom, one_dow) = (dom.replace('*', "1-31"), dow.replace('*', "0-6"));
    format!("for both write `{dom} … +{dow}`, for one of them `{one_dom} … {one_dow}`")
}
