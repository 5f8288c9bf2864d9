//! Signatures after Standard Webhooks: the receiver knows who asks, and that nobody changed or kept
//! what is asked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a key begins with that is written in base64, as the standard has it.
const PREFIX: &str = "whsec_";

/// The key that a secret stands for.
fn key(secret: &str) -> Result<Vec<u8>, String> {
    match secret.strip_prefix(PREFIX) {
        Some(encoded) => STANDARD.decode(encoded.trim()).map_err(|_| {
            format!(
                "the key of `sign` starts with `{PREFIX}` but is not valid base64 after this \
                 prefix; use `{PREFIX}` followed by base64, or any text without the prefix"
            )
        }),
        None => Ok(secret.as_bytes().to_vec()),
    }
}

/// The header `webhook-signature` for a body that is sent under this id at this second.
pub(crate) fn signature(
    secret: &str,
    id: &str,
    seconds: u64,
    body: &[u8],
) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key(secret)?)
        .map_err(|error| format!("invalid key for `sign`: {error}"))?;
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of the standard's own libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = signature(
            secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.as_deref(), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        assert!(signature("whsec_%%", "a", 1, b"").is_err());
        assert!(signature("any other text", "a", 1, b"").is_ok());
    }
}
