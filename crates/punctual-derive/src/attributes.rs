//! What `#[job(…)]` says.

use std::time::Duration;

use proc_macro2::TokenStream;
use punctual_core::job::{Backoff, BackoffError, Growth};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Error, Expr, ExprLit, Lit, LitInt, LitStr, Result};

/// The settings that were given, each as the expression that makes it.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) settings: Vec<TokenStream>,
    pub(crate) unique: Option<TokenStream>,
}

const KNOWN: &str =
    "kind, queue, priority, max_attempts, timeout, budget, start_within, backoff, unique";

impl Attributes {
    pub(crate) fn read(input: &DeriveInput) -> Result<Attributes> {
        let mut found = Attributes::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta) -> Result<()> {
        let Some(name) = meta.path.get_ident().map(ToString::to_string) else {
            return Err(meta.error(format!("unknown job setting; expected one of {KNOWN}")));
        };
        match name.as_str() {
            "kind" => self.kind = Some(meta.value()?.parse()?),
            "queue" => {
                let queue: LitStr = meta.value()?.parse()?;
                self.settings.push(quote!(queue: #queue));
            }
            "priority" => {
                let priority: Expr = meta.value()?.parse()?;
                self.settings.push(quote!(priority: #priority));
            }
            "max_attempts" => {
                let attempts: LitInt = meta.value()?.parse()?;
                if attempts.base10_parse::<u32>()? == 0 {
                    return Err(Error::new(attempts.span(), "max_attempts must be at least 1"));
                }
                self.settings.push(quote!(max_attempts: #attempts));
            }
            "timeout" | "budget" | "start_within" => {
                let field = meta.path.clone();
                let length = length(&meta.value()?.parse()?)?;
                self.settings.push(quote!(#field: ::core::option::Option::Some(#length)));
            }
            "backoff" => {
                let backoff = backoff(&meta.value()?.parse()?)?;
                self.settings.push(quote!(backoff: ::core::option::Option::Some(#backoff)));
            }
            "unique" => self.unique = Some(unique(meta)?),
            other => {
                let text = format!("unknown job setting `{other}`; expected one of {KNOWN}");
                return Err(meta.error(text));
            }
        }
        Ok(())
    }
}

/// `unique` alone: by the payload. `unique = "field"`: by that field. `unique(by = "field", during =
/// "1h")` holds the key for that long.
fn unique(meta: &ParseNestedMeta) -> Result<TokenStream> {
    let mut key = quote!(::punctual::Unique::payload());
    let mut lifetime = quote!();
    if meta.input.peek(syn::Token![=]) {
        key = by_field(&meta.value()?.parse()?)?;
    } else if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| {
            if inner.path.is_ident("by") {
                key = by_field(&inner.value()?.parse()?)?;
            } else if inner.path.is_ident("during") {
                let length = length(&inner.value()?.parse()?)?;
                lifetime = quote!(.during(#length));
            } else {
                return Err(inner.error("unknown `unique` setting; expected `by` or `during`"));
            }
            Ok(())
        })?;
    }
    Ok(quote!(#key #lifetime))
}

fn by_field(name: &LitStr) -> Result<TokenStream> {
    let field: syn::Member = match name.value().parse::<usize>() {
        Ok(index) => syn::Member::Unnamed(index.into()),
        Err(_) => syn::Member::Named(name.parse()?),
    };
    Ok(quote!(::punctual::Unique::key(::std::string::ToString::to_string(&self.#field))))
}

/// A length of time, as in `"30s"`, `"5m"`, `"1h 30m"`.
fn length(text: &LitStr) -> Result<TokenStream> {
    let micros = micros(&text.value()).map_err(|error| Error::new(text.span(), error))?;
    Ok(quote!(::core::time::Duration::from_micros(#micros)))
}

fn micros(text: &str) -> std::result::Result<u64, String> {
    let length = punctual_core::parse_duration(text).map_err(|error| error.to_string())?;
    u64::try_from(length.as_micros()).map_err(|error| error.to_string())
}

/// `"fixed 10s"`, `"linear 5s"`, `"exponential 5s"`, each with an optional longest wait: `"linear 5s to 10m"`.
fn backoff(value: &Expr) -> Result<TokenStream> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else {
        return Ok(quote!(#value));
    };
    let read = text.value().parse();
    let Backoff { base, growth, cap, .. } =
        read.map_err(|error: BackoffError| Error::new(text.span(), error))?;
    let growth = match growth {
        Growth::Fixed => quote!(Fixed),
        Growth::Linear => quote!(Linear),
        Growth::Exponential => quote!(Exponential),
    };
    // A year of microseconds and more fits.
    let micros = |length: Duration| length.as_micros() as u64;
    let (base, cap) = (micros(base), micros(cap));
    Ok(quote! {
        ::punctual::Backoff {
            base: ::core::time::Duration::from_micros(#base),
            growth: ::punctual::Growth::#growth,
            cap: ::core::time::Duration::from_micros(#cap),
            spread: ::punctual::Spread::Full,
        }
    })
}
