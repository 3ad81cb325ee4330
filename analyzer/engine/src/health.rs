//! How a job is doing, in one word, and the rules behind the word.

use weir_schemas::num::short;
use weir_schemas::policy::Policy;
use weir_schemas::report::{Health, HealthWord, RuleOutcome, Sizing};

use crate::demand::Arrivals;
use crate::sample::Sample;
use crate::window::Window;

/// Below this many records a second nothing arrives.
const NOTHING_PER_SECOND: f64 = 0.01;
/// A backlog of less than the arrivals of this many seconds is no backlog.
const BACKLOG_SECONDS: f64 = 2.0;
/// A backlog that grows or falls by less than this share of the arrivals is level.
const LEVEL: f64 = 0.02;
/// The subtasks of a vertex together work at least this share of what its busiest works, or the load is uneven.
const EVEN: f64 = 0.7;
/// A vertex that works this share of its time has little room left.
const STRAINED_BUSY: f64 = 0.9;

/// Name of the rule that no vertex leaves most of its work to one subtask.
pub const IS_EVEN: &str = "is_even";

/// Whether the work of every vertex is spread over its subtasks.
fn is_even(sizing: &Sizing, recent: &Window) -> RuleOutcome {
    let uneven = sizing.vertices.iter().enumerate().find_map(|(index, vertex)| {
        let all = vertex.busy?;
        let busiest = recent.vertices.get(index)?.busiest_ms? / (recent.seconds * 1000.0);
        (vertex.held.is_none() && busiest > STRAINED_BUSY && all < STRAINED_BUSY * EVEN)
            .then_some((vertex, busiest, all))
    });
    RuleOutcome {
        rule: IS_EVEN.into(),
        held: uneven.is_none(),
        detail: match uneven {
            None => "the work is spread over the subtasks".into(),
            Some((vertex, busiest, all)) => format!(
                "one subtask of {} works {:.0} % of its time, all together {:.0} %: a hot key, or data that are spread unevenly",
                vertex.name,
                f64::min(busiest, 1.0) * 100.0,
                all * 100.0
            ),
        },
    }
}

/// A job of which nothing can be measured.
pub fn unknown(sample: Option<&Sample>, detail: &str) -> Health {
    let down = sample.is_none_or(|sample| !sample.all_running());
    Health { word: if down { HealthWord::Down } else { HealthWord::Unknown }, detail: detail.into() }
}

/// Judges a job that runs.
pub fn judge(arrivals: &Arrivals, sizing: &Sizing, recent: &Window, policy: &Policy) -> (Health, Vec<RuleOutcome>) {
    let total = arrivals.total();
    let backlog: f64 = arrivals.sources.iter().filter_map(|(_, source)| source.backlog).sum();
    let slope: f64 = arrivals.sources.iter().filter_map(|(_, source)| source.backlog_slope_per_second).sum();
    let busiest = sizing.vertices.iter().filter(|vertex| vertex.held.is_none()).filter_map(|v| Some((v, v.busy?)));
    let busiest = busiest.max_by(|a, b| a.1.total_cmp(&b.1));

    let waits = backlog > BACKLOG_SECONDS * total;
    let grows = (waits && slope > LEVEL * total) || !arrivals.at_least.is_empty();
    let falls = waits && slope < -LEVEL * total;
    let strained = busiest.as_ref().is_some_and(|(_, busy)| *busy > STRAINED_BUSY);
    let idle = total < NOTHING_PER_SECOND && backlog < 1.0;

    let word = match () {
        () if idle => HealthWord::Idle,
        () if grows => HealthWord::Overloaded,
        () if falls => HealthWord::CatchingUp,
        () if strained => HealthWord::Strained,
        () => HealthWord::Healthy,
    };
    let busy_words = busiest.map_or_else(String::new, |(vertex, busy)| {
        format!("; {} is the busiest at {:.0} %", vertex.name, busy * 100.0)
    });
    let detail = format!("{} records/s arrive, {} wait{busy_words}", short(total), short(backlog));
    let rules = vec![
        RuleOutcome {
            rule: "keeps_up".into(),
            held: !grows,
            detail: match arrivals.at_least.first() {
                Some(source) => format!("{source} is held back and tells no backlog"),
                None => format!("the backlog of {} records changes by {} a second", short(backlog), short(slope)),
            },
        },
        RuleOutcome {
            rule: "has_headroom".into(),
            held: !strained,
            detail: format!("no vertex is to work more than {:.0} % of its time{busy_words}", STRAINED_BUSY * 100.0),
        },
        is_even(sizing, recent),
        RuleOutcome {
            rule: "is_used".into(),
            held: sizing.vertices.iter().all(|v| v.needed.is_none_or(|needed| needed >= v.current)),
            detail: format!("subtasks are to be busy {:.0} % of their time", policy.utilisation * 100.0),
        },
    ];
    (Health { word, detail }, rules)
}
