//! `d_bias += Σ_tokens d_out`, each number over the tokens in order.

use terrace_device::{View, ViewMut};

pub(crate) fn bias_gradient(d_out: View<'_>, mut d_bias: ViewMut<'_>) {
    let [tokens, rows] = d_out.dims();
    assert_eq!(d_bias.dims(), [rows], "d_bias of bias_gradient");
    let sums = d_bias.as_mut_slice::<f32>();
    for token in 0..tokens {
        sums.iter_mut().zip(d_out.row::<f32>(token)).for_each(|(sum, d)| *sum += d);
    }
}
