//! Typed ids and vectors indexed by ids, for arenas instead of references.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A small integer that identifies one element of an arena.
pub trait Id: Copy {
    /// The id of the element with this index.
    fn from_index(index: usize) -> Self;
    /// The index of the element in its arena.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                debug_assert!(index < u32::MAX as usize);
                $name(index as u32)
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// Identifies a host or a switch.
    NodeId
);
id!(
    /// Identifies a full-duplex link.
    LinkId
);
id!(
    /// Identifies one direction of a link: an egress port with its queue. Link `l` has the ports `2 l` (from
    /// end a to end b) and `2 l + 1` (back), so the opposite direction needs no table.
    PortId
);

impl PortId {
    /// No port; packets that a host creates have no ingress port.
    pub const NONE: PortId = PortId(u32::MAX);

    /// The port that transmits from end `end` (0 or 1) of `link`.
    #[inline]
    pub fn of_link(link: LinkId, end: usize) -> PortId {
        PortId(link.0 * 2 + end as u32)
    }

    /// The port of the opposite direction of the same link.
    #[inline]
    #[must_use]
    pub fn reverse(self) -> PortId {
        PortId(self.0 ^ 1)
    }

    /// The link that this port belongs to.
    #[inline]
    pub fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }

    /// The end of the link that this port transmits from: 0 or 1.
    #[inline]
    pub fn end(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// A `Vec` that is indexed by ids of one type only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexVec<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IndexVec<I, T> {
    /// Makes an empty vector.
    pub fn new() -> Self {
        IndexVec { items: Vec::new(), id: PhantomData }
    }

    /// Makes a vector of `count` copies of `value`.
    pub fn filled(value: T, count: usize) -> Self
    where
        T: Clone,
    {
        IndexVec { items: vec![value; count], id: PhantomData }
    }

    /// Appends `item` and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = I::from_index(self.items.len());
        self.items.push(item);
        id
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if the vector is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Iterates over the elements in the order of their ids.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Iterates over mutable elements in the order of their ids.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// Pairs of id and element, in the order of the ids.
    pub fn iter_enumerated(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(i, t)| (I::from_index(i), t))
    }

    /// The element with this id, if it exists.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// The elements as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
}

impl<I: Id, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for IndexVec<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IndexVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Id, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        IndexVec { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<'a, I: Id, T> IntoIterator for &'a mut IndexVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

impl<'a, I: Id, T> IntoIterator for &'a IndexVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}
