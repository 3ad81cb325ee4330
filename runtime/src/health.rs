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
    services: Arc<Mutex<BTreeMap<String, State>>>,
}

#[derive(Debug, Clone)]
struct State {
    heard_ms: i64,
    well_once: bool,
    /// Since when it fails, and why.
    failing: Option<(i64, String)>,
}

/// What one service says of itself.
#[derive(Clone)]
pub struct Pulse {
    name: String,
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
        let state = State { heard_ms: (self.now_ms)(), well_once: false, failing: None };
        self.with(|services| services.insert(name.clone(), state));
        Pulse { name, health: self.clone() }
    }

    /// What keeps the process from doing its work, one sentence for each service; empty when it is ready.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let now_ms = (self.now_ms)();
        self.with(|services| {
            let said = services.iter().filter_map(|(name, state)| match &state.failing {
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
            let hangs = services.iter().filter(|(_, state)| now_ms - state.heard_ms >= SILENCE_MS);
            hangs.map(|(name, state)| format!("{name}: nothing for {} s", (now_ms - state.heard_ms) / 1000)).collect()
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<String, State>) -> T) -> T {
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
            if let Some(state) = services.get_mut(&self.name) {
                state.heard_ms = now_ms;
                change(state);
            }
        });
    }
}

impl Drop for Pulse {
    /// A service that has ended is not waited for.
    fn drop(&mut self) {
        if Arc::strong_count(&self.health.services) > 1 {
            self.health.with(|services| services.remove(&self.name));
        }
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
}
