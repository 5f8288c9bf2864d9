//! `punctual completions` and `punctual man`: what a shell and a manual need, for packages to install.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Arguments;
use crate::exit::Failure;

/// Prints what a shell needs to complete commands.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut words = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "punctual", &mut words);
    Ok(io::stdout().write_all(&words)?)
}

/// Prints the manual: of all commands, or of one by its words.
pub(crate) fn man(words: &[String]) -> Result<(), Failure> {
    let mut command = Arguments::command();
    command.build();
    let mut found = &command;
    for word in words {
        found = found.find_subcommand(word).ok_or_else(|| {
            Failure::not_found(format!("unknown command `punctual {}`", words.join(" ")))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut page)?;
    Ok(io::stdout().write_all(&page)?)
}
