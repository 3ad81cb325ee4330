//! Columns with presence bits: absent is not zero.

use crate::records::Column;

impl Column {
    /// Packs one optional value for each subtask.
    #[must_use]
    pub fn pack(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut column = Self::default();
        for (index, value) in values.into_iter().enumerate() {
            if index % 8 == 0 {
                column.present.push(0);
            }
            if let (Some(value), Some(bits)) = (value, column.present.last_mut()) {
                *bits |= 1 << (index % 8);
                column.values.push(value);
            }
        }
        column
    }

    /// One optional value for each of `count` subtasks. A column that contradicts itself gives what its bits and values agree on.
    #[must_use]
    pub fn unpack(&self, count: usize) -> Vec<Option<f64>> {
        let mut values = self.values.iter();
        (0..count)
            .map(|index| {
                let bits = self.present.get(index / 8).copied().unwrap_or(0);
                if bits & (1 << (index % 8)) == 0 { None } else { values.next().copied() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(values in proptest::collection::vec(proptest::option::of(-1e12..1e12f64), 0..40)) {
            prop_assert_eq!(Column::pack(values.clone()).unpack(values.len()), values);
        }

        #[test]
        fn hostile_columns_never_panic(present in proptest::collection::vec(any::<u8>(), 0..4), values in proptest::collection::vec(any::<f64>(), 0..4), count in 0usize..50) {
            prop_assert_eq!(Column { present, values }.unpack(count).len(), count);
        }
    }
}
