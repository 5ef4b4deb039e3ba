//! Names for kinds that other crates add: of graph layers (`nn::Conv::register`), of norms
//! (`nn::Norm::register`), of optimisers (`optim::Algorithm::register`).
//!
//! A configuration is data: it is copied, compared and saved. A kind of another crate joins it under a
//! name, and a [`Registry`] holds what the name stands for, the options from which layers are built. A
//! saved configuration holds the name alone; a program that loads it registers the same name before.
//!
//! ```
//! use emmy::registry::{Family, Registered, Registry};
//!
//! trait Sound: std::fmt::Debug + Send + Sync {
//!     fn sound(&self) -> String;
//! }
//!
//! impl Family for dyn Sound {
//!     fn registry() -> &'static Registry<Self> {
//!         static SOUNDS: Registry<dyn Sound> = Registry::new("sounds", "Registry::add");
//!         &SOUNDS
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Bell(usize);
//!
//! impl Sound for Bell {
//!     fn sound(&self) -> String {
//!         "ding ".repeat(self.0)
//!     }
//! }
//!
//! let bell: Registered<dyn Sound> = <dyn Sound>::registry().add("bell", Box::new(Bell(2)))?;
//! let saved = serde_json::to_string(&bell).unwrap();
//! assert_eq!(saved, r#""bell""#);
//! let loaded: Registered<dyn Sound> = serde_json::from_str(&saved).unwrap();
//! assert_eq!(loaded.options().sound(), "ding ding ");
//! # Ok::<(), emmy::Error>(())
//! ```

use crate::error::{Error, Result, Rules};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The kinds of one family that were registered, by their names. `T` is the object-safe trait of their
/// options.
pub struct Registry<T: ?Sized + 'static> {
    family: &'static str,
    door: &'static str,
    kinds: Mutex<BTreeMap<&'static str, Registered<T>>>,
}

/// A trait of options whose kinds have one registry; [`Registered`] looks up its name there when it is
/// loaded.
pub trait Family: Send + Sync + 'static {
    /// The registry of the family.
    fn registry() -> &'static Registry<Self>;
}

impl<T: ?Sized> Registry<T> {
    /// An empty registry. Messages call its kinds `family`, and the function that adds one `door`.
    pub const fn new(family: &'static str, door: &'static str) -> Self {
        Self {
            family,
            door,
            kinds: Mutex::new(BTreeMap::new()),
        }
    }

    /// Gives options a name. Name and options stay for the life of the process.
    ///
    /// # Errors
    /// If the name is empty, or registered already.
    pub fn add(&self, name: impl Into<String>, options: Box<T>) -> Result<Registered<T>> {
        let name = name.into();
        let rules = Rules(self.family);
        rules.hold(!name.is_empty(), "name", "a name", "an empty text")?;
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let free = !kinds.contains_key(name.as_str());
        rules.hold(free, "name", "one that is not registered", &name)?;
        let kind = Registered {
            name: name.leak(),
            options: Box::leak(options),
        };
        kinds.insert(kind.name, kind);
        Ok(kind)
    }

    /// The kind that has this name.
    ///
    /// # Errors
    /// If there is none; the message lists the names that are registered.
    pub fn find(&self, name: &str) -> Result<Registered<T>> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(name).copied().ok_or_else(|| {
            let names: Vec<_> = kinds.keys().copied().collect();
            let known = match &names[..] {
                [] => "; there is none".to_owned(),
                names => format!(": {}", names.join(", ")),
            };
            let rule = format!("a name given to {} before{known}", self.door);
            Error::invalid(format!("{}: name", self.family), rule, name)
        })
    }
}

/// A kind of another crate in a configuration: its name, and options that do not change. Kinds with the
/// same name are equal, and the name alone is saved.
pub struct Registered<T: ?Sized + 'static> {
    name: &'static str,
    options: &'static T,
}

impl<T: ?Sized> Registered<T> {
    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The options.
    pub fn options(&self) -> &'static T {
        self.options
    }
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Registered<T> {}

impl<T: ?Sized> PartialEq for Registered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<T: ?Sized> Eq for Registered<T> {}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.name, self.options)
    }
}

impl<T: ?Sized> Serialize for Registered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de, T: Family + ?Sized> Deserialize<'de> for Registered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        T::registry().find(&name).map_err(D::Error::custom)
    }
}

/// `value`, whose type is `U`. A trait object cannot have a generic function, so options build a layer of
/// `f32` or of `f64` in two functions, and generic code takes the one that it needs.
///
/// # Panics
/// If the types differ.
#[doc(hidden)]
pub fn same_type<T: 'static, U: 'static>(value: T) -> U {
    let any: Box<dyn Any> = Box::new(value);
    *any.downcast().expect("the type of the caller's numbers")
}
