//! Which job somebody means.

use std::collections::BTreeSet;

use weir_schemas::identity::JobKey;
use weir_store::Store;

use super::CommandError;

/// A job that somebody named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// The job.
    pub(super) job: JobKey,
    /// Why to doubt that it is the one that is meant; absent for a job that was seen.
    pub(super) doubt: Option<String>,
}

/// The known job that `text` names.
pub(super) async fn known(store: &Store, text: &str) -> Result<JobKey, CommandError> {
    let jobs = all(store).await?;
    find(&jobs, text)?.ok_or_else(|| CommandError::NoSuchJob { name: text.into(), hint: hint(&jobs, text) })
}

/// The job that `text` names. A full key may name one that was not seen yet: what is said of it counts once it comes.
pub(super) async fn maybe_unseen(store: &Store, text: &str) -> Result<Named, CommandError> {
    let jobs: Vec<JobKey> = store.jobs().await?.into_iter().map(|row| row.job).collect();
    if let Some(job) = find(&jobs, text)? {
        return Ok(Named { job, doubt: None });
    }
    match text.parse() {
        Ok(job) => {
            let doubt = Some(format!("was not seen yet, so this counts once it is: {}", hint(&jobs, text)));
            Ok(Named { job, doubt })
        }
        Err(_) => {
            let hint = format!("{}; name a job that was not seen yet as cluster/namespace/name", hint(&jobs, text));
            Err(CommandError::NoSuchJob { name: text.into(), hint })
        }
    }
}

/// Jobs that were seen, or of which people have said something.
async fn all(store: &Store) -> Result<Vec<JobKey>, CommandError> {
    let seen = store.jobs().await?.into_iter().map(|row| row.job);
    let jobs: BTreeSet<JobKey> = seen.chain(store.controls().await?.jobs.into_keys()).collect();
    Ok(jobs.into_iter().collect())
}

/// The job with this key, else the only one with this name.
fn find(jobs: &[JobKey], text: &str) -> Result<Option<JobKey>, CommandError> {
    if let Some(exact) = jobs.iter().find(|job| job.to_string() == text) {
        return Ok(Some(exact.clone()));
    }
    let called: Vec<&JobKey> = jobs.iter().filter(|job| job.name == text || escaped_name(job) == text).collect();
    match called.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        several => Err(CommandError::AmbiguousJob {
            name: text.into(),
            candidates: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// The name as the key shows it.
fn escaped_name(job: &JobKey) -> String {
    let key = job.to_string();
    key.rsplit('/').next().unwrap_or_default().into()
}

/// What `text` may have been, or what to do.
fn hint(jobs: &[JobKey], text: &str) -> String {
    let full = text.contains('/');
    let far = |job: &&JobKey| {
        let wanted = text.to_lowercase();
        let by_key = distance(&job.to_string().to_lowercase(), &wanted);
        if full { by_key } else { by_key.min(distance(&job.name.to_lowercase(), &wanted)) }
    };
    // A third of what was typed may be wrong: more would suggest jobs that nobody thinks of.
    let tolerated = text.chars().count().div_ceil(3);
    match jobs.iter().min_by_key(far).filter(|job| far(job) <= tolerated) {
        Some(job) => format!("did you mean {job}?"),
        None if jobs.is_empty() => "no job was seen yet; `weir run` finds them".into(),
        None => "`weir status` lists all jobs".into(),
    }
}

/// How many characters have to be replaced, added or removed to make one text of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, from) in one.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, to) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (one, other, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("wordcount", "wrodcount", 2), ("a", "a", 0)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one:?} {other:?}");
        }
    }

    #[test]
    fn hints_name_what_is_near_and_nothing_else() {
        let jobs = [JobKey::new("prod", "wordcount"), JobKey::new("prod", "orders")];
        assert_eq!(hint(&jobs, "WordCont"), "did you mean prod/default/wordcount?");
        assert_eq!(hint(&jobs, "prod/default/order"), "did you mean prod/default/orders?");
        assert_eq!(hint(&jobs, "clicks"), "`weir status` lists all jobs");
        assert_eq!(hint(&[], "clicks"), "no job was seen yet; `weir run` finds them");
    }

    #[test]
    fn awkward_names_are_found_as_they_are_and_as_they_are_shown() {
        let jobs = [JobKey::new("prod", "orders/eu 1")];
        for text in ["orders/eu 1", "orders%2Feu%201", "prod/default/orders%2Feu%201"] {
            assert_eq!(find(&jobs, text).unwrap().as_ref(), Some(&jobs[0]), "{text:?}");
        }
    }
}
