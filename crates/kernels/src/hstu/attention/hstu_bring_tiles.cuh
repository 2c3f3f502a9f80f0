// The two warps that bring items, their queries and their tiles of keys and values, with the copy
// engine. To be included after hstu_attention_hopper.cuh.
//
// They are ahead of those who sum by as much as shared memory holds: of the next item too. What
// they do for a tile must be little, since they wait for memory again and again.

/// Copies one head's rows of a page in the background, from an eight of rows on.
DEVICE void copy_page_box(u32 shared, const TensorMap *map, i32 eight, i32 head, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %2, %2, %3, %4}], [%5];" ::"r"(shared),
                 "l"(map), "r"(0), "r"(eight), "r"(head), "r"(barrier)
                 : "memory");
}

/// Asks for a map to be brought near, which does not depend on earlier kernels.
DEVICE void prefetch_map(const TensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
DEVICE void prefetch_maps(const HstuAttentionParams &p) {
    prefetch_map(&p.queries);
    prefetch_map(&p.keys), prefetch_map(&p.values);
    prefetch_map(&p.live_keys), prefetch_map(&p.live_values);
}

/// Items of this launch, taken one by one: the first by the block's number, others by a counter.
///
/// Best sorted in groups of sequences whose keys and values fit the second-level cache together (32
/// MiB), within a group with most work first. The heads of a tile are neighbours: they, and the
/// tiles of a sequence, read the same keys at about the same time.
struct Items {
    u32 count, next;
    int lane;

    DEVICE Items(const HstuAttentionParams &p, int lane)
        : count((u32)p.tile_count * p.heads), next(blockIdx.x), lane(lane) {}

    /// The next item that has rows; false: there is none. The one after it is asked for already.
    DEVICE bool take(const HstuAttentionParams &p, Item &item) {
        for (;;) {
            const u32 index = __shfl_sync(~0u, next, 0);
            if (index >= count) return false;
            if (lane == 0) next = gridDim.x + count_up(p.counters);
            const Vec16 *tile = (const Vec16 *)p.tiles + 3 * (index / p.heads);
            const Vec16 low = load16(tile), high = load16(tile + 1), part = load16(tile + 2);
            if ((i32)low.word[2] <= 0) continue;
            item.seq = low.word[0], item.row = low.word[1], item.rows = low.word[2];
            item.history = {(i32)low.word[3], (i32)high.word[0]};
            item.live = {(i32)high.word[1], (i32)high.word[2]};
            item.head = index % p.heads, item.part = part.word[1];
            item.first = high.word[3], item.last = part.word[0];
            return true;
        }
    }

    /// The last block to come here leaves the counters as they were before the launch.
    DEVICE void finish(const HstuAttentionParams &p) const {
        if (lane == 0 && count_up(p.counters + 1) == gridDim.x - 1)
            p.counters[0] = 0, p.counters[1] = 0;
    }
};

/// A side of an item's tiles, as the boxes of pages that some row sees; lane i has the i-th box.
struct SideOfItem {
    const HstuAttentionParams &p;
    const Item &item;
    bool is_value;
    int lane;

    /// Keys of a box: a page's, or a tile's.
    DEVICE i32 box_shift() const {
        return (1 << p.page_shift) < KEYS ? p.page_shift : (KEYS == 128 ? 7 : 6);
    }
    DEVICE bool has_box(i32 tile) const {
        const i32 key = item.start_of(tile) + (lane << box_shift());
        const i32 begin = item.is_live(tile) ? item.live.begin : item.history.begin;
        const i32 end = item.is_live(tile) ? item.live.end : item.history.end;
        return lane < KEYS >> box_shift() && key < end && key + (1 << box_shift()) > begin;
    }
    /// The page of the lane's box.
    DEVICE i32 page(i32 tile) const {
        if (tile >= item.last || !has_box(tile)) return 0;
        const i32 *table = item.is_live(tile) ? p.live_tables + (i64)item.seq * p.live_table_pages
                                              : p.block_tables + (i64)item.seq * p.table_pages;
        return table[(item.start_of(tile) + (lane << box_shift())) >> p.page_shift];
    }
    /// Copies the tile in the background. What no row sees may be left as it was.
    DEVICE void bring(i32 tile, i32 page, u32 shared, u32 full) const {
        const bool has = has_box(tile), is_live = item.is_live(tile);
        const u32 boxes = __popc(__ballot_sync(~0u, has));
        const u32 box_bytes = HEAD_DIM * 2 << box_shift();
        if (lane == 0) barrier_expect(full, boxes * box_bytes);
        __syncwarp();
        const TensorMap *keys = is_live ? &p.live_keys : &p.keys;
        const TensorMap *values = is_live ? &p.live_values : &p.values;
        const TensorMap *map = is_value ? values : keys;
        const i32 eight = (item.start_of(tile) & ((1 << p.page_shift) - 1)) / 8;
        const i32 head = page * (is_live ? p.live_page_heads : p.page_heads) + item.head;
        if (has) copy_page_box(shared + lane * box_bytes, map, eight, head, full);
    }
};

/// The item itself, its queries, and what its rows see.
DEVICE void bring_item(const HstuAttentionParams &p, const Item &item, const Block &block,
                       u32 number, int lane) {
    block.wait_no_item(number);
    if (lane == 0) {
        *(Item *)(block.shared + ITEM_AT) = item;
        const u32 full = block.item_full(), span_bytes = item.rows * 16;
        barrier_expect(full, PARTS * QUERY_PART_BYTES + span_bytes);
        copy_box(block.base, &p.queries, item.row, p.query_chunk + item.head * PARTS, full);
        copy_bulk(block.base + SPANS_AT, p.spans + 4 * (i64)item.row, span_bytes, full);
    }
    __syncwarp();
}

/// The warp that takes items, and brings their queries and keys: the first keys before the queries,
/// which are awaited longest.
DEVICE void bring_keys(const HstuAttentionParams &p, const Block &block, int lane) {
    u32 number = 0, count = 0;
    Items items(p, lane);
    Item item;
    while (items.take(p, item)) {
        const SideOfItem keys = {p, item, false, lane};
        i32 page = keys.page(item.first);
        if (item.first == item.last) bring_item(p, item, block, number, lane);
        for (i32 tile = item.first; tile < item.last; tile++, count++) {
            const i32 next = keys.page(tile + 1);
            block.keys().wait_empty(count);
            keys.bring(tile, page, block.keys().tile(count), block.keys().full(count));
            if (tile == item.first) bring_item(p, item, block, number, lane);
            page = next;
        }
        number++;
    }
    items.finish(p);
    block.wait_no_item(number);
    if (lane == 0) {
        ((Item *)(block.shared + ITEM_AT))->rows = 0;
        barrier_arrive(block.item_full());
    }
}

/// The warp that brings the values of the same items.
DEVICE void bring_values(const HstuAttentionParams &p, const Block &block, int lane) {
    u32 count = 0;
    for (u32 number = 0;; number++) {
        block.wait_item(number);
        const Item item = read_item(block.shared, lane);
        if (item.rows == 0) break;
        barrier_arrive(block.item_empty());
        const SideOfItem values = {p, item, true, lane};
        i32 page = values.page(item.first);
        for (i32 tile = item.first; tile < item.last; tile++, count++) {
            const i32 next = values.page(tile + 1);
            block.values().wait_empty(count);
            values.bring(tile, page, block.values().tile(count), block.values().full(count));
            page = next;
        }
    }
}
