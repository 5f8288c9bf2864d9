//! `punctual cron next --batch`: many questions in one run, for programs and tests.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use super::next;
use super::question::Options;
use crate::{Failure, output};

/// The longest question that is read; an expression fits many times over.
const LINE_BYTES_MAX: u64 = 64 * 1_024;

/// The most that an answer says about a mistake.
const ERROR_CHARS_MAX: usize = 500;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Next(Vec<String>),
    Error(String),
}

pub(super) fn run() -> Result<(), Failure> {
    let mut questions = io::BufReader::new(io::stdin());
    let mut answers = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = questions.by_ref().take(LINE_BYTES_MAX + 1);
        let length = limited
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))?;
        if length == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n") || (length as u64) <= LINE_BYTES_MAX;
        let answer = if is_whole {
            answer(&line).unwrap_or_else(|error| {
                // What was asked is repeated in part by the error, and should not be without end.
                let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
                Answer::Error(format!("line {number}: {error}"))
            })
        } else {
            skip_line(&mut questions)
                .map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))?;
            Answer::Error(format!("line {number}: line too long, maximum {LINE_BYTES_MAX} bytes"))
        };
        output::print_json(&mut answers, &answer)?;
        // Whoever waits for an answer gets it; what has been asked meanwhile is answered in bulk.
        if !questions.buffer().contains(&b'\n') {
            answers.flush()?;
        }
    }
    answers.flush()?;
    Ok(())
}

fn answer(line: &[u8]) -> Result<Answer, String> {
    if line.trim_ascii().is_empty() {
        return Err("empty line; expected a JSON object".to_owned());
    }
    let mut question: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| format!("invalid JSON object: {error}"))?;
    let Some(Value::String(expression)) = question.remove("expr") else {
        return Err("missing field `expr` (string)".to_owned());
    };
    // A question may carry its known answer, so that a file of vectors can be asked as it is.
    question.remove("next");
    let options: Options =
        serde_json::from_value(Value::Object(question)).map_err(|error| error.to_string())?;
    let asked = options.ask(&expression).map_err(|unasked| unasked.line)?;
    Ok(Answer::Next(next::slots(&asked)))
}

/// Reads on to the end of a line that is too long to keep.
fn skip_line(questions: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = questions.fill_buf()?;
        let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        questions.consume(length);
        if ended {
            return Ok(());
        }
    }
}
