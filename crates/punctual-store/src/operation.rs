//! The facts about each operation that are known without its arguments.

/// Who may use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A program that enqueues jobs, manages schedules and queues, or lists them.
    Tenant,
    /// A node: it claims jobs, fires slots and maintains the tables.
    Engine,
    /// A program that manages the nodes and the database of a cluster.
    Cluster,
}

/// May an operation be repeated after its response was lost?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The second call changes nothing, and its response is that of the first one.
    Safe,
    /// The second call would apply the operation again.
    Once,
}

macro_rules! define_operation {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        /// An operation of a store. Its variants have the names of the methods of [`Store`](crate::Store).
        #[expect(non_camel_case_types, reason = "a variant has the name of its method")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $(
                #[doc = concat!("[`Store::", stringify!($name), "`](crate::Store::", stringify!($name), ")")]
                $name,
            )+
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Operation] = &[$(Operation::$name),+];

            /// The name of its method.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Operation::$name => stringify!($name), )+
                }
            }

            /// Who may use it.
            pub const fn caller(self) -> Caller {
                match self {
                    $( Operation::$name => Caller::$caller, )+
                }
            }

            /// May it be repeated after its response was lost?
            pub const fn repeat(self) -> Repeat {
                match self {
                    $( Operation::$name => Repeat::$repeat, )+
                }
            }
        }
    };
}

crate::store_operations!(define_operation);
