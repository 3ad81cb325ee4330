//! What a source has to be sized for.

/// The rate that a source has to be sized for, and which consideration decided it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Needed {
    /// Capacity in records a second.
    pub per_second: f64,
    /// Which consideration decided it.
    pub basis: Basis,
}

/// What decides the capacity that a source needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The load may take only a share of the capacity.
    Utilisation,
    /// What waits, and what will wait after a stop, has to be gone in time.
    Recovery,
}

/// `max(T/u, T + (B + T·D)/(S − D))`: the capacity that takes arrivals `T` at utilisation `u`, and that works off the backlog
/// `B` and what a stop of length `D` adds to it within the recovery objective `S`, counted from the start of the stop.
///
/// Rates are in records a second, the backlog in records, times in seconds. An objective that is no longer than the stop cannot
/// be met by any capacity; the utilisation alone decides then.
#[must_use]
pub fn needed_rate(arrival: f64, backlog: f64, stop: f64, objective: f64, utilisation: f64) -> Needed {
    let steady = arrival / utilisation;
    let recovering = arrival + (backlog + arrival * stop) / (objective - stop);
    if objective > stop && recovering > steady {
        Needed { per_second: recovering, basis: Basis::Recovery }
    } else {
        Needed { per_second: steady, basis: Basis::Utilisation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_backlog_is_covered_by_the_headroom() {
        let needed = needed_rate(700.0, 1000.0, 30.0, 300.0, 0.7);
        assert_eq!(needed.basis, Basis::Utilisation);
        assert!((needed.per_second - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn a_large_backlog_needs_more_than_the_headroom() {
        // 700 + (270 000 + 21 000) / 270
        let needed = needed_rate(700.0, 270_000.0, 30.0, 300.0, 0.7);
        assert_eq!(needed.basis, Basis::Recovery);
        assert!((needed.per_second - 1777.78).abs() < 0.01);
    }

    #[test]
    fn an_objective_that_cannot_be_met_asks_for_nothing_absurd() {
        assert_eq!(needed_rate(700.0, 1e9, 30.0, 30.0, 0.7).basis, Basis::Utilisation);
    }

    proptest! {
        /// The capacity found works the backlog off in time, and takes the load at the utilisation asked for.
        #[test]
        fn what_is_needed_suffices(arrival in 0.0..1e6f64, backlog in 0.0..1e8f64, stop in 0.0..100.0f64, more in 1.0..1000.0f64, utilisation in 0.1..1.0f64) {
            let objective = stop + more;
            let needed = needed_rate(arrival, backlog, stop, objective, utilisation).per_second;
            prop_assert!(arrival <= needed * utilisation * (1.0 + 1e-9));
            let waiting = backlog + arrival * stop;
            prop_assert!((needed - arrival) * more >= waiting * (1.0 - 1e-6) - 1e-3);
        }
    }
}
