//! Counts connections, in total and by client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Why a connection is not served like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The process has as many as it may have.
    Total,
    /// The client address has as many as it may have.
    Address,
}

impl Refusal {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Refusal::Total => "total",
            Refusal::Address => "address",
        }
    }
}

/// The connections of a process.
pub(super) struct Admission {
    total_max: usize,
    per_address_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: usize,
    /// Only addresses with connections.
    by_address: HashMap<IpAddr, usize>,
}

impl Admission {
    pub(super) fn new(total_max: usize, per_address_max: usize) -> Admission {
        Admission { total_max, per_address_max, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many connections there are now.
    pub(super) fn open(&self) -> usize {
        self.counts().total
    }

    /// Counts a connection until the returned value is dropped.
    pub(super) fn admit(self: &Arc<Self>, from: IpAddr) -> Result<AdmittedConnection, Refusal> {
        let counted = (!is_exempt(from)).then_some(client(from));
        let mut counts = self.counts();
        let of_address =
            counted.and_then(|from| counts.by_address.get(&from)).copied().unwrap_or(0);
        // First: one client must not take the places of the health checks as well.
        if of_address >= self.per_address_max {
            return Err(Refusal::Address);
        }
        if counts.total >= self.total_max {
            return Err(Refusal::Total);
        }
        counts.total += 1;
        if let Some(from) = counted {
            *counts.by_address.entry(from).or_default() += 1;
        }
        metrics::gauge!(super::refusals::OPEN).increment(1);
        Ok(AdmittedConnection { admission: self.clone(), counted })
    }
}

/// The address by which a client is counted. A client with IPv6 usually has a whole /64 network.
fn client(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

/// May the address have any number of connections? Local clients and a proxy on this machine share one.
fn is_exempt(from: IpAddr) -> bool {
    from.to_canonical().is_loopback()
}

/// A connection that counts.
pub(super) struct AdmittedConnection {
    admission: Arc<Admission>,
    counted: Option<IpAddr>,
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.total -= 1;
        if let Some(from) = self.counted
            && let Some(left) = counts.by_address.get_mut(&from)
        {
            *left -= 1;
            if *left == 0 {
                counts.by_address.remove(&from);
            }
        }
        metrics::gauge!(super::refusals::OPEN).decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(admission: &Arc<Admission>, from: &str) -> Result<AdmittedConnection, Refusal> {
        admission.admit(from.parse().unwrap())
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let admission = Arc::new(Admission::new(3, 2));
        let held = [admit(&admission, "192.0.2.1"), admit(&admission, "192.0.2.1")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit(&admission, "192.0.2.1").err(), Some(Refusal::Address));
        let other = admit(&admission, "2001:db8::1");
        assert!(other.is_ok());
        assert_eq!(admit(&admission, "192.0.2.2").err(), Some(Refusal::Total));
        // The places of the health checks are for others.
        assert_eq!(admit(&admission, "192.0.2.1").err(), Some(Refusal::Address));
        drop(held);
        assert!(admit(&admission, "192.0.2.1").is_ok());
        assert_eq!(admission.counts().by_address.len(), 1);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let admission = Arc::new(Admission::new(9, 2));
        let held = [admit(&admission, "2001:db8::1"), admit(&admission, "2001:db8::2:1")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit(&admission, "2001:db8::3").err(), Some(Refusal::Address));
        assert!(admit(&admission, "2001:db8:0:1::1").is_ok());
        let mapped = admit(&admission, "::ffff:192.0.2.1");
        let plain = admit(&admission, "192.0.2.1");
        assert!(mapped.is_ok() && plain.is_ok());
        assert_eq!(admit(&admission, "::ffff:192.0.2.1").err(), Some(Refusal::Address));
    }

    #[test]
    fn loopback_addresses_share_only_the_total() {
        let admission = Arc::new(Admission::new(3, 1));
        let held: Vec<_> = (0..3).map(|_| admit(&admission, "127.0.0.1")).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admit(&admission, "::1").err(), Some(Refusal::Total));
    }
}
