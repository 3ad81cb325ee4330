//! A clock that moves only while everybody sleeps: hours pass in seconds, and always the same way.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::Clock;

/// A clock that moves only while all its users sleep on it, and then wakes them one at a time, the earliest first and in the
/// order in which they joined. So what several tasks do becomes one sequence, the same in each run, however slow the machine.
///
/// A user may await anything else as long as it likes (a database, a disk): time stands still meanwhile. It must not sleep
/// while it awaits something that is not ready, or time passes that the other thing did not take.
#[derive(Clone)]
pub struct VirtualClock {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    all_asleep: Notify,
}

struct State {
    start_ms: i64,
    now_ms: i64,
    next_user: u64,
    users: BTreeMap<u64, Sleeper>,
}

#[derive(Default)]
struct Sleeper {
    wake_at_ms: Option<i64>,
    waker: Option<Waker>,
}

/// One user's handle.
struct User {
    id: u64,
    shared: Arc<Shared>,
}

impl VirtualClock {
    /// A clock that stands at `start_ms`, in milliseconds since 1970.
    #[must_use]
    pub fn new(start_ms: i64) -> Self {
        let state = State { start_ms, now_ms: start_ms, next_user: 0, users: BTreeMap::new() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), all_asleep: Notify::new() }) }
    }

    /// Where the clock stands, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.shared.lock().now_ms
    }

    /// A handle for one more user. Time waits for the user from now on, until the handle is dropped: give it to a task that is
    /// sure to sleep.
    #[must_use]
    pub fn join(&self) -> Arc<dyn Clock> {
        let mut state = self.shared.lock();
        let id = state.next_user;
        state.next_user += 1;
        state.users.insert(id, Sleeper::default());
        Arc::new(User { id, shared: Arc::clone(&self.shared) })
    }

    /// Moves time until it stands at `end_ms`, as fast as the users allow, or at `speed` virtual seconds a second.
    pub async fn run_until(&self, end_ms: i64, speed: Option<f64>) {
        let began = (tokio::time::Instant::now(), self.now_ms());
        loop {
            let Some(next_ms) = self.shared.next_wake() else {
                self.shared.all_asleep.notified().await;
                continue;
            };
            let next_ms = next_ms.min(end_ms);
            if let Some(speed) = speed {
                pace(began, next_ms, speed).await;
            }
            if !self.shared.advance_to(next_ms) && next_ms == end_ms {
                return;
            }
        }
    }
}

/// Waits until the real time has come that belongs to virtual time `next_ms`.
async fn pace((began, began_ms): (tokio::time::Instant, i64), next_ms: i64, speed: f64) {
    let passed_ms = u32::try_from(next_ms - began_ms).unwrap_or(u32::MAX);
    tokio::time::sleep_until(began + Duration::from_secs_f64(f64::from(passed_ms) / 1000.0 / speed)).await;
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next user wakes, if all of them sleep; without users, at the end of time.
    fn next_wake(&self) -> Option<i64> {
        let state = self.lock();
        let wakes: Option<Vec<i64>> = state.users.values().map(|user| user.wake_at_ms).collect();
        Some(wakes?.into_iter().min().unwrap_or(i64::MAX))
    }

    /// Moves time to `to_ms` and wakes the first user that is due. False if nobody is.
    fn advance_to(&self, to_ms: i64) -> bool {
        let mut state = self.lock();
        state.now_ms = state.now_ms.max(to_ms);
        let now_ms = state.now_ms;
        let due = state.users.values_mut().filter(|user| user.wake_at_ms.is_some_and(|at| at <= now_ms));
        let Some(user) = due.min_by_key(|user| user.wake_at_ms) else { return false };
        user.wake_at_ms = None;
        if let Some(waker) = user.waker.take() {
            waker.wake();
        }
        true
    }
}

impl Clock for User {
    fn now_ms(&self) -> i64 {
        self.shared.lock().now_ms
    }

    fn monotonic_ms(&self) -> i64 {
        let state = self.shared.lock();
        state.now_ms - state.start_ms
    }

    fn sleep_ms(&self, duration_ms: i64) -> BoxFuture<'_, ()> {
        if duration_ms <= 0 {
            return Box::pin(async {});
        }
        Box::pin(async move {
            let _asleep = Asleep { user: self };
            let mut registered = false;
            poll_fn(|context| {
                let mut state = self.shared.lock();
                let wake_at_ms = state.now_ms + duration_ms;
                let Some(sleeper) = state.users.get_mut(&self.id) else { return Poll::Ready(()) };
                if registered && sleeper.wake_at_ms.is_none() {
                    return Poll::Ready(());
                }
                if !registered {
                    sleeper.wake_at_ms = Some(wake_at_ms);
                    registered = true;
                }
                sleeper.waker = Some(context.waker().clone());
                drop(state);
                self.shared.all_asleep.notify_one();
                Poll::Pending
            })
            .await;
        })
    }
}

/// Ends a sleep that is dropped before its time.
struct Asleep<'a> {
    user: &'a User,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        if let Some(sleeper) = self.user.shared.lock().users.get_mut(&self.user.id) {
            *sleeper = Sleeper::default();
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.shared.lock().users.remove(&self.id);
        self.shared.all_asleep.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::within;
    use std::future::pending;

    #[tokio::test]
    async fn users_wake_in_the_order_of_their_times() {
        let clock = VirtualClock::new(1_000);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (name, period) in [("a", 300), ("b", 200)] {
            let (handle, seen) = (clock.join(), Arc::clone(&seen));
            tokio::spawn(async move {
                loop {
                    handle.sleep_ms(period).await;
                    seen.lock().unwrap().push((handle.now_ms(), name));
                }
            });
        }
        clock.run_until(1_600, None).await;
        let expected = [(1_200, "b"), (1_300, "a"), (1_400, "b"), (1_600, "a"), (1_600, "b")];
        assert_eq!(*seen.lock().unwrap(), expected);
        assert_eq!(clock.now_ms(), 1_600);
    }

    #[tokio::test]
    async fn time_waits_for_a_user_that_is_busy() {
        let clock = VirtualClock::new(0);
        let (quick, busy) = (clock.join(), clock.join());
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let at = tokio::spawn(async move {
            released.await.unwrap();
            let woke_at = busy.now_ms();
            busy.sleep_ms(10).await;
            woke_at
        });
        tokio::spawn(async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            release.send(()).unwrap();
            quick.sleep_ms(1_000).await;
        });
        clock.run_until(500, None).await;
        assert_eq!(at.await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_deadline_cuts_off_what_hangs_and_costs_nothing_to_what_does_not() {
        let clock = VirtualClock::new(0);
        let user = clock.join();
        let work = tokio::spawn(async move {
            let quick = within(user.as_ref(), 50, async { 7 }).await;
            let at = user.now_ms();
            let hung = within(user.as_ref(), 50, pending::<()>()).await;
            (quick, at, hung, user.now_ms())
        });
        clock.run_until(1_000, None).await;
        assert_eq!(work.await.unwrap(), (Ok(7), 0, Err(crate::Elapsed(50)), 50));
    }
}
