//! The implementation that a job gets.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Result};

use crate::attributes::Attributes;

pub(crate) fn job(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(
            lifetime,
            "a job type must own its data, because jobs are stored; use `String` instead of `&str`",
        ));
    }
    if let Some(parameter) = input.generics.type_params().next() {
        return Err(Error::new_spanned(
            parameter,
            "`Job` cannot be derived for a generic type; use a type without parameters",
        ));
    }
    let Attributes { kind, settings, unique } = Attributes::read(input)?;
    let kind = kind.map_or_else(|| snake_case(&input.ident.to_string()), |kind| kind.value());
    let name = &input.ident;
    let unique = unique.map(|unique| {
        quote! {
            fn unique(&self) -> ::core::option::Option<::punctual::Unique> {
                ::core::option::Option::Some(#unique)
            }
        }
    });
    Ok(quote! {
        impl ::punctual::Job for #name {
            const KIND: &'static str = #kind;

            fn settings() -> ::punctual::Settings {
                #[allow(clippy::needless_update)]
                ::punctual::Settings {
                    #(#settings,)*
                    ..::core::default::Default::default()
                }
            }

            #unique
        }
    })
}

/// `SendEmail` is `send_email`, `HTTPPing` is `http_ping`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(index + 1);
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
            });
        if begins_word {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_snake_case() {
        let check = |name: &str, kind: &str| assert_eq!(snake_case(name), kind);
        check("SendEmail", "send_email");
        check("HTTPPing", "http_ping");
        check("Sha256Sum", "sha256_sum");
        check("r", "r");
    }
}
