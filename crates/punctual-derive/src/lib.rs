//! `#[derive(Job)]` of punctual; use it through the crate `punctual`, which documents it.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a job: see `punctual::Job` for what the attributes mean.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::job(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
