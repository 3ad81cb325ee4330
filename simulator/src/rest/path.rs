//! Paths and queries.

use std::collections::BTreeMap;

/// A decoded query.
pub(crate) type Query = BTreeMap<String, String>;

/// Decoded segments of the path, and the query.
pub(crate) fn split(path_and_query: &str) -> (Vec<String>, Query) {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let segments = path.split('/').filter(|segment| !segment.is_empty()).map(|segment| decode(segment, false));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key, true), decode(value, true))
    });
    (segments.collect(), pairs.collect())
}

/// Whether `text` can be one of Flink's ids.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Items of a list in a query: `a,b`.
pub(crate) fn list<'a>(query: &'a Query, key: &str) -> Vec<&'a str> {
    query.get(key).map(|text| text.split(',').filter(|item| !item.is_empty()).collect()).unwrap_or_default()
}

/// Numbers of a query such as `0-3,7`.
pub(crate) fn ranges(query: &Query, key: &str) -> Option<Vec<usize>> {
    let text = query.get(key)?;
    let mut numbers = Vec::new();
    for item in text.split(',') {
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        if let (Ok(low), Ok(high)) = (low.trim().parse::<usize>(), high.trim().parse::<usize>()) {
            numbers.extend(low..=high.min(low.saturating_add(100_000)));
        }
    }
    Some(numbers)
}

fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' if plus_is_space => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digits = [ahead.next(), ahead.next()];
                match digits.map(|digit| digit.and_then(|d| char::from(d).to_digit(16))) {
                    [Some(high), Some(low)] => {
                        bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                        rest = ahead;
                    }
                    _ => bytes.push(b'%'),
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_queries_are_decoded() {
        let (segments, query) = split("/jobs/a%2Fb/metrics?get=Source%3A+x%2Cy&agg=max&bad=%zz");
        assert_eq!(segments, ["jobs", "a/b", "metrics"]);
        assert_eq!(list(&query, "get"), ["Source: x", "y"]);
        assert_eq!(query["bad"], "%zz");
    }

    #[test]
    fn ranges_of_subtasks_are_expanded() {
        let (_, query) = split("/x?subtasks=0-2,7");
        assert_eq!(ranges(&query, "subtasks"), Some(vec![0, 1, 2, 7]));
        assert_eq!(ranges(&query, "nothing"), None);
    }
}
