//! A table of functions that are looked up in a library by their names.

/// `Table; field = b"name\0": fn(arguments); ...`, all of which give a status.
macro_rules! library_calls {
    ($table:ident; $($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)*
        }

        impl $table {
            /// `None` if the library lacks a function.
            fn of(library: &libloading::Library) -> Option<Self> {
                // SAFETY: the types are those of the library's header.
                unsafe { Some($table { $($name: *library.get($symbol).ok()?,)* }) }
            }
        }
    };
}

pub(super) use library_calls;
