//! How the services of a process are, for whoever restarts and routes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A service that fails for this long is not ready, in milliseconds.
const PATIENCE_MS: i64 = 10_000;
/// A service that was not heard of for this long is not alive, in milliseconds.
const SILENCE_MS: i64 = 120_000;

/// Tells the time in milliseconds, monotonic.
type Now = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The services of a process. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Health {
    now_ms: Now,
    services: Arc<Mutex<Services>>,
}

#[derive(Default)]
struct Services {
    by_name: BTreeMap<String, State>,
    /// How often a service was registered so far.
    registered: u64,
}

struct State {
    /// Which registration it belongs to: a service may begin anew before the one before it is gone.
    number: u64,
    heard_ms: i64,
    well_once: bool,
    /// Since when it fails, and why.
    failing: Option<(i64, String)>,
}

/// What one service says of itself, until it is dropped.
pub struct Pulse {
    name: String,
    number: u64,
    health: Health,
}

impl Health {
    /// No service yet. `now_ms` is monotonic.
    #[must_use]
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { now_ms: Arc::new(now_ms), services: Arc::default() }
    }

    /// Health that nobody asks for.
    #[must_use]
    pub fn unwatched() -> Self {
        Self::new(|| 0)
    }

    /// A service, which has not said anything yet: until it does, the process is not ready.
    #[must_use]
    pub fn service(&self, name: impl Into<String>) -> Pulse {
        let name = name.into();
        let heard_ms = (self.now_ms)();
        let number = self.with(|services| {
            services.registered += 1;
            let number = services.registered;
            let state = State { number, heard_ms, well_once: false, failing: None };
            services.by_name.insert(name.clone(), state);
            number
        });
        Pulse { name, number, health: self.clone() }
    }

    /// What keeps the process from doing its work, one sentence for each service; empty when it is ready, which it is not
    /// before there is a service.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let now_ms = (self.now_ms)();
        self.with(|services| {
            if services.by_name.is_empty() {
                return vec!["starting".into()];
            }
            let said = services.by_name.iter().filter_map(|(name, state)| match &state.failing {
                Some((since_ms, why)) if !state.well_once || now_ms - since_ms >= PATIENCE_MS => {
                    Some(format!("{name} fails for {} s: {why}", (now_ms - since_ms) / 1000))
                }
                None if !state.well_once => Some(format!("{name} is starting")),
                _ => None,
            });
            said.collect()
        })
    }

    /// Services that hang: nothing was heard of them for two minutes, not even that they fail.
    #[must_use]
    pub fn hanging(&self) -> Vec<String> {
        let now_ms = (self.now_ms)();
        self.with(|services| {
            let hangs = services.by_name.iter().filter(|(_, state)| now_ms - state.heard_ms >= SILENCE_MS);
            hangs.map(|(name, state)| format!("{name}: nothing for {} s", (now_ms - state.heard_ms) / 1000)).collect()
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Services) -> T) -> T {
        look(&mut self.services.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pulse {
    /// A pass went well.
    pub fn well(&self) {
        self.heard(|state| {
            state.well_once = true;
            state.failing = None;
        });
    }

    /// A pass failed; it is tried again.
    pub fn failed(&self, why: &dyn fmt::Display) {
        let why = why.to_string();
        self.heard(|state| {
            let since_ms = state.failing.as_ref().map_or(state.heard_ms, |(since_ms, _)| *since_ms);
            state.failing = Some((since_ms, why));
        });
    }

    fn heard(&self, change: impl FnOnce(&mut State)) {
        let now_ms = (self.health.now_ms)();
        self.health.with(|services| {
            if let Some(state) = services.by_name.get_mut(&self.name).filter(|state| state.number == self.number) {
                state.heard_ms = now_ms;
                change(state);
            }
        });
    }
}

impl Drop for Pulse {
    /// A service that has ended is not waited for. One of the same name that has begun since is.
    fn drop(&mut self) {
        self.health.with(|services| {
            if services.by_name.get(&self.name).is_some_and(|state| state.number == self.number) {
                services.by_name.remove(&self.name);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[test]
    fn a_process_is_ready_once_all_were_well_and_none_fails_for_long() {
        let now = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now);
        let health = Health::new(move || clock.load(Ordering::Relaxed));
        let (a, b) = (health.service("the analyzer"), health.service("the actuator"));
        a.well();
        assert_eq!(health.not_ready(), ["the actuator is starting"]);
        b.failed(&"no broker");
        assert_eq!(health.not_ready(), ["the actuator fails for 0 s: no broker"]);
        b.well();
        a.failed(&"no broker");
        assert!(health.not_ready().is_empty(), "for a while");
        now.store(PATIENCE_MS, Ordering::Relaxed);
        a.failed(&"still no broker");
        assert_eq!(health.not_ready(), ["the analyzer fails for 10 s: still no broker"]);
        a.well();
        assert!(health.not_ready().is_empty());
        now.store(2 * SILENCE_MS, Ordering::Relaxed);
        a.failed(&"no broker");
        assert_eq!(health.hanging(), ["the actuator: nothing for 240 s"]);
        drop(b);
        assert!(health.hanging().is_empty());
    }

    #[test]
    fn nothing_is_ready_before_there_is_a_service() {
        let health = Health::unwatched();
        assert_eq!(health.not_ready(), ["starting"]);
        let service = health.service("the analyzer");
        service.well();
        assert!(health.not_ready().is_empty());
        drop(service);
        assert_eq!(health.not_ready(), ["starting"]);
    }

    #[test]
    fn a_service_that_ends_leaves_the_next_of_its_name_alone() {
        let health = Health::unwatched();
        let (old, other) = (health.service("the analyzer"), health.service("the actuator"));
        other.well();
        let new = health.service("the analyzer");
        old.well();
        assert_eq!(health.not_ready(), ["the analyzer is starting"], "the old one speaks for itself only");
        drop(old);
        assert_eq!(health.not_ready(), ["the analyzer is starting"]);
        new.well();
        assert!(health.not_ready().is_empty());
    }
}
