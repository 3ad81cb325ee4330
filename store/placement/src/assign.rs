//! The assignment, as a function of who is there and what there is to do.

use std::collections::{BTreeMap, BTreeSet};

use weir_store::Instance;

/// Something that one instance does alone, such as a partition or a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name, which is also that of its lease.
    pub name: String,
    /// Tags that it asks for.
    pub wants: BTreeSet<String>,
}

impl Item {
    /// Something that asks for no tags.
    #[must_use]
    pub fn plain(name: impl Into<String>) -> Self {
        Self { name: name.into(), wants: BTreeSet::new() }
    }
}

/// The tag of all instances whose configuration names a cluster. Work for a cluster asks for it, so that it goes to none that has
/// never heard of the cluster.
#[must_use]
pub fn cluster_tag(cluster: &str) -> String {
    format!("cluster={cluster}")
}

/// Who does what: the id of an instance for each item. Empty if nobody is there.
///
/// - An item goes to the instances that miss the fewest of the tags that it asks for. So an item is never left undone because
///   its tags are nowhere, and comes home once they are.
/// - The items that may go to the same instances are spread evenly over them: each gets their number divided, rounded up or down.
/// - Within that, an item stays where it is (`owners`: who has it now), since every move costs a reload.
///
/// The same arguments give the same answer, whoever asks.
#[must_use]
pub fn assign<'a>(
    items: &'a [Item],
    instances: &'a [Instance],
    owners: &BTreeMap<&str, &str>,
) -> BTreeMap<&'a str, &'a str> {
    let mut groups: BTreeMap<Vec<&str>, Vec<&Item>> = BTreeMap::new();
    for item in items {
        groups.entry(eligible(item, instances)).or_default().push(item);
    }
    let mut assigned = BTreeMap::new();
    // Of all groups together, so that an instance that many tags point to is spared elsewhere.
    let mut load: BTreeMap<&str, usize> = BTreeMap::new();
    // Where there is least choice first.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(ids, _)| ids.len());
    for (ids, items) in groups {
        if !ids.is_empty() {
            spread(&ids, &items, owners, &mut load, &mut assigned);
        }
    }
    assigned
}

/// The instances that miss the fewest of the item's tags, by id.
fn eligible<'a>(item: &Item, instances: &'a [Instance]) -> Vec<&'a str> {
    let missing = |instance: &Instance| item.wants.iter().filter(|tag| !instance.tags.contains(*tag)).count();
    let fewest = instances.iter().map(missing).min();
    let mut ids: Vec<&str> =
        instances.iter().filter(|it| Some(missing(it)) == fewest).map(|it| it.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn spread<'a>(
    ids: &[&'a str],
    items: &[&'a Item],
    owners: &BTreeMap<&str, &str>,
    load: &mut BTreeMap<&'a str, usize>,
    assigned: &mut BTreeMap<&'a str, &'a str>,
) {
    let share = items.len() / ids.len();
    // So many instances have one more than the share.
    let mut one_more = items.len() % ids.len();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut left = Vec::new();
    for item in items {
        let owner = owners.get(item.name.as_str()).and_then(|owner| ids.iter().copied().find(|id| id == owner));
        match owner {
            Some(id) if takes(id, &mut count, share, &mut one_more) => {
                *load.entry(id).or_default() += 1;
                assigned.insert(&item.name, id);
            }
            _ => left.push(*item),
        }
    }
    for item in left {
        // Below the share first, then whoever has least to do in all.
        let of = |counts: &BTreeMap<&str, usize>, id: &str| counts.get(id).copied().unwrap_or(0);
        let next = ids.iter().copied().min_by_key(|id| (of(&count, id) >= share, of(load, id), *id));
        if let Some(id) = next {
            *count.entry(id).or_default() += 1;
            *load.entry(id).or_default() += 1;
            assigned.insert(&item.name, id);
        }
    }
}

/// Whether the instance may keep one more, which it then has.
fn takes<'a>(id: &'a str, count: &mut BTreeMap<&'a str, usize>, share: usize, one_more: &mut usize) -> bool {
    let has = count.entry(id).or_default();
    if *has == share && *one_more > 0 {
        *one_more -= 1;
    } else if *has >= share {
        return false;
    }
    *has += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instance(id: &str, tags: &[&str]) -> Instance {
        Instance {
            role: "analyzer".into(),
            id: id.into(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            started_ms: 0,
            seen_ms: 0,
        }
    }

    fn wanting(name: &str, tags: &[&str]) -> Item {
        Item { name: name.into(), wants: tags.iter().map(|tag| (*tag).to_owned()).collect() }
    }

    fn plain(count: usize) -> Vec<Item> {
        (0..count).map(|number| Item::plain(format!("p-{number}"))).collect()
    }

    #[test]
    fn an_item_goes_where_its_tags_are_and_to_anybody_if_they_are_nowhere() {
        let items = [wanting("gold", &["fast"]), wanting("lost", &["gpu"]), wanting("any", &[])];
        let instances = [instance("a", &[]), instance("b", &["fast"])];
        let assigned = assign(&items, &instances, &BTreeMap::new());
        assert_eq!(assigned["gold"], "b");
        // The others are spread over both.
        assert_eq!((assigned["lost"], assigned["any"]), ("a", "b"));
    }

    #[test]
    fn work_for_a_cluster_goes_to_none_that_has_never_heard_of_it() {
        let (prod, test) = (cluster_tag("prod"), cluster_tag("test"));
        let items = [wanting("actuator/prod", &[&prod]), wanting("actuator/test", &[&test])];
        let instances = [instance("a", &[&prod, &test]), instance("b", &[&prod])];
        let assigned = assign(&items, &instances, &BTreeMap::from([("actuator/test", "b")]));
        assert_eq!((assigned["actuator/prod"], assigned["actuator/test"]), ("b", "a"));
    }

    #[test]
    fn a_newcomer_gets_its_share_and_the_others_keep_theirs() {
        let items = plain(4);
        let owners = BTreeMap::from([("p-0", "a"), ("p-1", "a"), ("p-2", "b"), ("p-3", "b")]);
        let three = [instance("a", &[]), instance("b", &[]), instance("c", &[])];
        let assigned = assign(&items, &three, &owners);
        assert_eq!(assigned.values().filter(|id| **id == "c").count(), 1);
        let moved = assigned.iter().filter(|(name, id)| owners[*name] != **id).count();
        assert_eq!(moved, 1, "{assigned:?}");
    }

    #[test]
    fn nobody_is_assigned_what_nobody_can_do() {
        assert!(assign(&plain(3), &[], &BTreeMap::new()).is_empty());
    }

    proptest! {
        #[test]
        fn every_item_is_done_by_one_and_loads_differ_by_one(
            count in 0_usize..40, members in 1_usize..8, owned in proptest::collection::vec(0_usize..10, 40),
        ) {
            let items = plain(count);
            let ids: Vec<String> = (0..10).map(|number| format!("i-{number}")).collect();
            let instances: Vec<Instance> = ids.iter().take(members).map(|id| instance(id, &[])).collect();
            let owners: BTreeMap<&str, &str> =
                items.iter().zip(&owned).map(|(item, owner)| (item.name.as_str(), ids[*owner].as_str())).collect();
            let assigned = assign(&items, &instances, &owners);
            prop_assert_eq!(assigned.len(), count);
            let mut loads: BTreeMap<&str, usize> = instances.iter().map(|it| (it.id.as_str(), 0)).collect();
            for id in assigned.values() {
                *loads.get_mut(id).unwrap() += 1;
            }
            let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", loads);
            // Once it is carried out, nothing moves any more.
            prop_assert_eq!(assign(&items, &instances, &assigned), assigned);
        }
    }
}
