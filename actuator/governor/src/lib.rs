//! Admission and the life cycle of an action.
//!
//! Everything here is a function of its arguments: time is one of them, and nothing is read or written. Whoever calls
//! has three things to do: observe the job, store the action that a [`Step`] gives *before* its effect is carried out,
//! carry it out.
//!
//! 1. A [`Command`] is made of a decision, or of what a person asked for.
//! 2. [`admit`] compares it with what is seen of the job now, and with what people have said: go, wait or refuse.
//! 3. [`begin`] starts the action; from then on [`advance`] moves it along with everything that is observed:
//!
//! ```text
//! planned ─▶ [checkpoint first, before Flink 2.0] ─▶ requesting ─▶ requested ─▶ verifying ─▶ verified
//!    │                      │                            │             │            │
//!    ▼                      ▼                            ▼             └─────┬──────┘
//! refused                refused                  refused, failed            ▼
//!                                                                      rolling back ─▶ rolled back, failed
//! ```
//!
//! Whether an effect took place is never remembered, only observed: after a crash between storing and doing, the
//! requirements and checkpoints that Flink shows say what is still to be done. So an effect can be repeated, but never
//! after the end of an action and never with another target, except for the one way back.

mod action;
mod admission;
mod advance;
mod command;
mod observation;
mod progress;
mod rollback;
mod trigger;
mod trouble;
mod verify;
mod wording;

pub use action::{Action, Effect, Phase, Step};
pub use admission::{Admission, Context, Controls, Refusal, admit};
pub use advance::{advance, begin, refuse, rejected};
pub use command::{Command, Numbers, Rollback};
pub use observation::{
    Bounds, Observation, ObserveError, Requirements, Scheduler, SeenCheckpoints, SeenSource, SeenVertex, targets,
    uppers,
};
pub use progress::{Progress, Stop};
pub use trigger::{Trigger, trigger_id};
pub use trouble::Trouble;
pub use verify::{Sample, Verification};
pub use wording::awaits_approval;
