//! The hash that a database keeps of the payload behind a unique key, and unique keys that are
//! derived from a payload.
//!
//! A plain hash of a payload can be guessed offline: payloads are often short and regular, so a
//! reader of the hashes tries candidates. Therefore a database keeps an HMAC under a random key of
//! its own, the cluster key.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::{NewJob, UniqueKey};

/// Length of a cluster key, in bytes.
pub const CLUSTER_KEY_BYTES: usize = 32;
/// Length of a stored hash, in bytes: 128 bits, so that different payloads never have the same hash
/// by accident.
pub const KEY_HASH_BYTES: usize = 16;

/// Block length of SHA-256, in bytes. HMAC pads its key to it.
const BLOCK_BYTES: usize = 64;
/// Separates the hashes of payloads from other uses of the cluster key.
const HASH_LABEL: &[u8] = b"punctual unique key 1\n";
/// Separates keys that are derived from payloads from the hashes, which the same row contains.
const KEY_LABEL: &[u8] = b"punctual payload key 1\n";

/// The SHA-256 digest of a payload in canonical form, or of all that a request asked for.
///
/// Never stored: stores keep [`KeyHash`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MeaningDigest([u8; 32]);

impl MeaningDigest {
    /// The digest of a canonical document.
    pub(crate) fn of(text: &str) -> MeaningDigest {
        MeaningDigest(Sha256::digest(text).into())
    }
}

impl fmt::Debug for MeaningDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeaningDigest(…)")
    }
}

/// What a database keeps of the payload behind a unique key. Equal payloads have equal hashes in one
/// database, and different ones in two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash([u8; KEY_HASH_BYTES]);

impl KeyHash {
    /// A hash that a store has kept.
    pub fn from_bytes(bytes: [u8; KEY_HASH_BYTES]) -> KeyHash {
        KeyHash(bytes)
    }

    /// The hash as a store keeps it.
    pub fn as_bytes(&self) -> &[u8; KEY_HASH_BYTES] {
        &self.0
    }
}

/// The secret key of one database.
///
/// Nodes that share a database share the key. It is never part of a response, an export or a log.
#[derive(Clone)]
pub struct ClusterKey(Hmac<Sha256>);

impl ClusterKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; CLUSTER_KEY_BYTES]) -> ClusterKey {
        let mut block = [0; BLOCK_BYTES];
        block[..CLUSTER_KEY_BYTES].copy_from_slice(&bytes);
        ClusterKey(Hmac::new(&block.into()))
    }

    /// The hash to store with the unique key of this job.
    pub fn hash(&self, job: &NewJob) -> KeyHash {
        let code = self.code(HASH_LABEL, job.meaning_digest());
        let mut hash = [0; KEY_HASH_BYTES];
        hash.copy_from_slice(&code[..KEY_HASH_BYTES]);
        KeyHash(hash)
    }

    /// The job with the unique key to store: a key by payload becomes a code of the payload in
    /// canonical form. A reader of the stored keys cannot guess the payload, and cannot find two
    /// payloads with the same key, without the cluster key.
    pub fn with_key<'j>(&self, job: &'j NewJob) -> Cow<'j, NewJob> {
        let Some(unique) = job.unique.as_ref().filter(|unique| unique.is_by_payload) else {
            return Cow::Borrowed(job);
        };
        let mut key = String::with_capacity(64);
        for byte in self.code(KEY_LABEL, job.payload.meaning()) {
            // A string takes whatever is written to it.
            let _ = write!(key, "{byte:02x}");
        }
        let unique = UniqueKey { key, is_by_payload: false, ..unique.clone() };
        Cow::Owned(NewJob { unique: Some(unique), ..job.clone() })
    }

    fn code(&self, label: &[u8], digest: MeaningDigest) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(label);
        mac.update(&digest.0);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{JobId, Timestamp};

    use super::*;
    use crate::{Json, KeyLifetime, KeyScope};

    fn job(payload: &str) -> NewJob {
        let id = JobId::mint(Timestamp::EPOCH, [0; 10]);
        NewJob::new(id, "default", "send", Json::parse(payload).unwrap())
    }

    #[test]
    fn the_hash_depends_on_the_payload_and_on_the_cluster_key() {
        let (one, other) = (ClusterKey::from_bytes([1; 32]), ClusterKey::from_bytes([2; 32]));
        let hash = one.hash(&job("[1]"));
        assert_eq!(one.clone().hash(&job(" [ 1 ] ")), hash);
        assert_ne!(one.hash(&job("[2]")), hash);
        assert_ne!(other.hash(&job("[1]")), hash);
    }

    #[test]
    fn the_meaning_replaces_the_payload() {
        let key = ClusterKey::from_bytes([1; 32]);
        let meaning = Json::parse("[2]").unwrap().meaning();
        let with_meaning = NewJob { meaning: Some(meaning), ..job("[1]") };
        assert_eq!(key.hash(&with_meaning), key.hash(&job("[2]")));
    }

    /// Held hashes must be recognized by later versions. The expected value was computed by
    /// another program: `HMAC-SHA-256(key, label ‖ SHA-256("[1]"))`.
    #[test]
    fn the_hash_of_a_payload_never_changes() {
        let hash = ClusterKey::from_bytes([7; 32]).hash(&job("[1]"));
        let hex: String = hash.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "6b263c24ceb9884dc005f042de141f54");
    }

    fn by_payload(payload: &str) -> NewJob {
        let unique = UniqueKey {
            key: String::new(),
            is_by_payload: true,
            scope: KeyScope::Kind,
            lifetime: KeyLifetime::Job,
        };
        NewJob { unique: Some(unique), ..job(payload) }
    }

    fn key_text(cluster_key: &ClusterKey, job: &NewJob) -> String {
        let unique = cluster_key.with_key(job).unique.clone().unwrap();
        assert!(!unique.is_by_payload);
        unique.key
    }

    #[test]
    fn a_key_by_payload_depends_on_the_payload_and_on_the_cluster_key() {
        let (one, other) = (ClusterKey::from_bytes([1; 32]), ClusterKey::from_bytes([2; 32]));
        let key = key_text(&one, &by_payload("[1]"));
        assert_eq!(key_text(&one, &by_payload(" [ 1 ] ")), key);
        assert_ne!(key_text(&one, &by_payload("[2]")), key);
        assert_ne!(key_text(&other, &by_payload("[1]")), key);
        // Neither what the caller compares nor the kind belongs to it.
        let meaning = Some(Json::parse("[2]").unwrap().meaning());
        assert_eq!(key_text(&one, &NewJob { meaning, ..by_payload("[1]") }), key);
        let given =
            NewJob { unique: one.with_key(&by_payload("[1]")).unique.clone(), ..job("[2]") };
        assert_eq!(one.with_key(&given).unique, given.unique);
    }

    /// As for the hashes: `HMAC-SHA-256(key, label ‖ SHA-256("[1]"))`.
    #[test]
    fn the_key_of_a_payload_never_changes() {
        let key = key_text(&ClusterKey::from_bytes([7; 32]), &by_payload("[1]"));
        assert_eq!(key, "4b627c5978a35fb64da75af968a8f904016150798db3a307626fa6dc53b0d415");
    }

    #[test]
    fn neither_the_key_nor_a_digest_is_printed() {
        let text =
            format!("{:?} {:?}", ClusterKey::from_bytes([171; 32]), job("[1]").meaning_digest());
        assert_eq!(text, "ClusterKey(…) MeaningDigest(…)");
    }
}
