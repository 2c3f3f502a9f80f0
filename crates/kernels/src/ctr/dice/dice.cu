// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// A rectifier whose threshold is where the batch is: statistics of a column over all rows, then the
// column. A block has 32 columns; what it reads three times stays in the second-level cache.

#include "ctr_numbers.cuh"

struct DiceParams {
    CtrRows x, out;
    u32 rows, dim;
    float alpha, eps;
};

enum { DICE_COLUMNS = 32, DICE_GROUPS = 32 };

/// The sum over the groups of a block, which each have some rows; all get it.
DEVICE double sum_groups(double (*sums)[DICE_COLUMNS], double mine, u32 column, u32 group) {
    sums[group][column] = mine;
    __syncthreads();
    double sum = 0.0;
    for (u32 i = 0; i < DICE_GROUPS; i++) sum += sums[i][column];
    __syncthreads();
    return sum;
}

/// Grid: blocks of 32 columns.
KERNEL __launch_bounds__(1024) dice(const __grid_constant__ DiceParams p) {
    __shared__ double sums[DICE_GROUPS][DICE_COLUMNS];
    let_next_start();
    wait_for_inputs();
    const u32 own = threadIdx.x % DICE_COLUMNS, group = threadIdx.x / DICE_COLUMNS;
    const u32 column = blockIdx.x * DICE_COLUMNS + own;
    const bool is_there = column < p.dim;
    double sum = 0.0;
    for (u32 row = group; is_there && row < p.rows; row += DICE_GROUPS) sum += p.x.get(row, column);
    const double mean = sum_groups(sums, sum, own, group) / p.rows;
    double square = 0.0;
    for (u32 row = group; is_there && row < p.rows; row += DICE_GROUPS) {
        const double apart = p.x.get(row, column) - mean;
        square += apart * apart;
    }
    const double variance = sum_groups(sums, square, own, group) / p.rows;
    const float factor = (float)(1.0 / sqrt(variance + (double)p.eps)), centre = (float)mean;
    for (u32 row = group; is_there && row < p.rows; row += DICE_GROUPS) {
        const float x = p.x.get(row, column);
        const float part = ctr_sigmoid((x - centre) * factor);
        p.out.put(row, column, part * x + (1.0f - part) * p.alpha * x);
    }
}
