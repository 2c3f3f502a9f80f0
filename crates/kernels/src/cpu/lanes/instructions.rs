//! How the methods of a level are written.

/// Methods that are an instruction or a few; that they take `self` goes without saying.
macro_rules! instructions {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) $(-> $out)? {
            // SAFETY: `self` proves that the instructions were detected.
            unsafe { $body }
        }
    )*};
    ($(unsafe fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, $($arg: $type),*) $(-> $out)? {
            // SAFETY: the caller's contract, and `self` proves that the instructions were detected.
            unsafe { $body }
        }
    )*};
}

/// A method that runs a kernel where the compiler knows the level's instructions.
macro_rules! run_with {
    ($level:ident, $features:tt, fn $name:ident(kernel: $kernel:ident) -> $out:ty) => {
        #[inline]
        pub(crate) fn $name<K: $kernel>(self, kernel: K) -> $out {
            #[target_feature(enable = $features)]
            fn run<K: $kernel>(lanes: $level, kernel: K) -> $out {
                kernel.simd(lanes)
            }
            // SAFETY: `self` proves that the instructions were detected.
            unsafe { run(self, kernel) }
        }
    };
}

pub(super) use {instructions, run_with};
