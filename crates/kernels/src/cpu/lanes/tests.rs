//! The vector functions that are more than one instruction, at every level.

use super::*;

/// Kernels that apply a function to each number.
macro_rules! each_number {
    ($($name:ident: $function:ident;)*) => {$(
        struct $name<'a>(&'a [f32], &'a mut [f32]);

        impl Kernel for $name<'_> {
            fn reference(self) {
                self.1.iter_mut().zip(self.0).for_each(|(out, x)| *out = x.$function());
            }

            #[inline(always)]
            fn simd<L: Lanes>(self, lanes: L) {
                for (x, out) in self.0.chunks(L::COUNT).zip(self.1.chunks_mut(L::COUNT)) {
                    lanes.write(lanes.$function(lanes.read(x)), out);
                }
            }
        }
    )*};
}

each_number! {
    Exp: exp;
    Exp2: exp2;
}

fn exp(level: CpuLevel, x: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    Simd::detect(level).expect("an available level").run(Exp(x, &mut out));
    out
}

#[test]
fn exp_is_close_everywhere() {
    let x: Vec<f32> = (-1_050_000..890_000).map(|i| i as f32 * 1e-4).collect();
    for level in CpuLevel::available() {
        for (x, got) in x.iter().zip(exp(level, &x)) {
            let want = f64::from(*x).exp();
            let unit = f64::from(want as f32 * f32::EPSILON);
            let close = (f64::from(got) - want).abs() <= 2.0 * unit
                || got < 1.23e-38 && want < 1.23e-38
                || got == f32::INFINITY && want > f64::from(f32::MAX);
            assert!(close, "{}: exp({x}) = {got}, not {want}", level.name());
        }
    }
}

#[test]
fn exp_keeps_the_special_values() {
    let x = [f32::NEG_INFINITY, -1000.0, 0.0, -0.0, 1000.0, f32::INFINITY];
    let want = [0.0, 0.0, 1.0, 1.0, f32::INFINITY, f32::INFINITY];
    for level in CpuLevel::available() {
        assert_eq!(exp(level, &x), want, "{}", level.name());
        assert!(exp(level, &[f32::NAN])[0].is_nan(), "{}", level.name());
    }
}

#[test]
fn exp2_is_good_to_21_bits() {
    let x: Vec<f32> = (-1_250_000..1_270_000).map(|i| i as f32 * 1e-4).collect();
    for level in CpuLevel::available() {
        let simd = Simd::detect(level).expect("an available level");
        let mut out = vec![f32::NAN; x.len()];
        simd.run(Exp2(&x, &mut out));
        for (x, got) in x.iter().zip(out) {
            let error = f64::from(got) / f64::from(*x).exp2() - 1.0;
            assert!(error.abs() <= 2f64.powi(-21), "{}: 2^{x} = {got}", level.name());
        }
        let mut special = [f32::NAN; 4];
        simd.run(Exp2(&[f32::NEG_INFINITY, f32::MIN, 0.0, f32::NAN], &mut special));
        assert_eq!(special[..3], [0.0, 0.0, 1.0], "{}", level.name());
        assert!(special[3].is_nan(), "{}", level.name());
    }
}

struct Transpose<'a>(&'a mut [[f32; 16]; 16]);

impl PanelKernel for Transpose<'_> {
    type Output = ();

    fn reference(self) {
        let square = *self.0;
        for (i, row) in self.0.iter_mut().enumerate() {
            for (to, from) in row.iter_mut().zip(&square) {
                *to = from[i];
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        lanes.transpose(self.0);
    }
}

#[test]
fn transpose_makes_rows_columns() {
    for level in CpuLevel::available() {
        let mut square = [[0.0; 16]; 16];
        for (i, number) in square.as_flattened_mut().iter_mut().enumerate() {
            *number = i as f32;
        }
        let simd = Simd::detect(level).expect("an available level");
        simd.run_panels(Transpose(&mut square));
        for (i, number) in square.as_flattened().iter().enumerate() {
            assert_eq!(*number, (i % 16 * 16 + i / 16) as f32, "{} {i}", level.name());
        }
    }
}

struct Sums<'a>(&'a [f32; 64], &'a mut [f32; 4]);

impl Kernel for Sums<'_> {
    fn reference(self) {
        for (sum, x) in self.1.iter_mut().zip(self.0.chunks_exact(16)) {
            *sum = x.iter().sum();
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let mut sums = [lanes.splat(0.0); 4];
        for (sum, x) in sums.iter_mut().zip(self.0.chunks_exact(16)) {
            for x in x.chunks_exact(L::COUNT) {
                *sum = lanes.add(*sum, lanes.read(x));
            }
        }
        *self.1 = lanes.sums(sums);
    }
}

#[test]
fn sums_add_every_lane_of_each_vector() {
    let x: [f32; 64] = std::array::from_fn(|i| ((i * i) % 61) as f32);
    let want: Vec<f32> = x.chunks_exact(16).map(|x| x.iter().sum()).collect();
    for level in CpuLevel::available() {
        let mut got = [0.0; 4];
        Simd::detect(level).expect("an available level").run(Sums(&x, &mut got));
        assert_eq!(got.to_vec(), want, "{}", level.name());
    }
}

struct SinCos<'a>(&'a [f32], [&'a mut [f32]; 2]);

impl Kernel for SinCos<'_> {
    fn reference(self) {
        let [sine, cosine] = self.1;
        for ((x, sine), cosine) in self.0.iter().zip(sine).zip(cosine) {
            (*sine, *cosine) = x.sin_cos();
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let [sine, cosine] = self.1.map(|out| out.chunks_mut(L::COUNT));
        for ((x, sine), cosine) in self.0.chunks(L::COUNT).zip(sine).zip(cosine) {
            let [sines, cosines] = lanes.sin_cos(lanes.read(x));
            lanes.write(sines, sine);
            lanes.write(cosines, cosine);
        }
    }
}

#[test]
fn sine_and_cosine_are_close_up_to_a_million_radians() {
    // Whole numbers are what a pair that turns by one radian sees; the others lie close together
    // near 0, and are multiples of half a turn where the reduction is hardest.
    let whole = (0..=1_000_000).map(|i| i as f32);
    let close = (-400_000..400_000).map(|i| i as f32 * 1e-4);
    let hard = (0..=636_619).map(|i| (f64::from(i) * std::f64::consts::FRAC_PI_2) as f32);
    let x: Vec<f32> = whole.chain(close).chain(hard).collect();
    for level in CpuLevel::available() {
        let (mut sines, mut cosines) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
        let kernel = SinCos(&x, [&mut sines, &mut cosines]);
        Simd::detect(level).expect("an available level").run(kernel);
        for ((x, sine), cosine) in x.iter().zip(sines).zip(cosines) {
            let (want_sine, want_cosine) = f64::from(*x).sin_cos();
            for (got, want) in [(sine, want_sine), (cosine, want_cosine)] {
                let error = (f64::from(got) - want).abs();
                assert!(error <= 2f64.powi(-22), "{} of {x}: {got}, {want}", level.name());
            }
        }
    }
}
