#!/usr/bin/env python3
"""Writes a data set with the files, columns and types of KuaiRand, with a signal planted in it.

Users and items have latent vectors. The odds of each of the eight feedback bits are a product of
the two, with weights of the bit's own, plus how good the item is; so a model that reads histories
can score better than popularity. Events come in sessions of a user, some seconds apart; rows are in the
order of time, as a log has them. The 27K form has two parts for each period.

    python3 tools/hstu/generate_kuairand.py data --form 27k --rows 5000000
    terrace preprocess --dataset_name kuairand-27k --dataset_path data
"""

import argparse
import pathlib

import numpy as np

FORMS = {
    # form: folder, users, items, rows, parts of a period
    "1k": ("KuaiRand-1K", 1_000, 200_000, 1_000_000, 1),
    "pure": ("KuaiRand-Pure", 27_285, 7_551, 1_400_000, 1),
    "27k": ("KuaiRand-27K", 27_285, 2_000_000, 5_000_000, 2),
}
# Days of Beijing time, from the first to before the last.
PERIODS = [
    ("log_standard_4_08_to_4_21", "2022-04-08", "2022-04-22"),
    ("log_standard_4_22_to_5_08", "2022-04-22", "2022-05-09"),
]
BEIJING = 8 * 3600
# Bits of an action in their order, with how frequent each is about.
FEEDBACK = {
    "is_click": 0.38,
    "is_like": 0.05,
    "is_follow": 0.02,
    "is_comment": 0.02,
    "is_forward": 0.02,
    "is_hate": 0.01,
    "long_view": 0.26,
    "is_profile_enter": 0.03,
}
COLUMNS = [
    "user_id",
    "video_id",
    "date",
    "hourmin",
    "time_ms",
    "is_click",
    "is_like",
    "is_follow",
    "is_comment",
    "is_forward",
    "is_hate",
    "long_view",
    "play_time_ms",
    "duration_ms",
    "profile_stay_time",
    "comment_stay_time",
    "is_profile_enter",
    "is_rand",
    "tab",
]
ROWS_AT_ONCE = 1 << 20


class World:
    """Users, items, and how they get on."""

    def __init__(self, users, items, dim, strength, rng):
        self.user_vectors = rng.standard_normal((users, dim)).astype(np.float32)
        self.item_vectors = rng.standard_normal((items, dim)).astype(np.float32)
        # Bits share half of what they look at.
        shared = rng.standard_normal(dim)
        weights = 0.7 * shared + 0.7 * rng.standard_normal((len(FEEDBACK), dim))
        scale = strength / np.linalg.norm(weights, axis=1, keepdims=True)
        self.weights = (weights * scale).astype(np.float32)
        self.quality = (0.5 * rng.standard_normal((items, len(FEEDBACK)))).astype(np.float32)
        rates = np.array(list(FEEDBACK.values()))
        self.bias = np.log(rates / (1 - rates)).astype(np.float32)
        self.durations = np.exp(rng.normal(10.4, 0.8, items)).astype(np.int64) + 3000
        # A few users and items have much of everything.
        self.activity = cumulative(rng.lognormal(0, 1.0, users))
        self.popularity = cumulative((np.arange(items) + 20.0) ** -0.8)
        self.item_order = rng.permutation(items)

    def feedback(self, users, items, rng):
        """Of each event, all bits: [events, 8]."""
        met = self.user_vectors[users] * self.item_vectors[items]
        logits = met @ self.weights.T + self.quality[items] + self.bias
        return rng.random(logits.shape, dtype=np.float32) < 1 / (1 + np.exp(-logits))


def cumulative(weights):
    sums = np.cumsum(weights)
    return sums / sums[-1]


def events_in_time(world, count, begin, end, session, rng):
    """Users, items and times of a period, in the order of time."""
    sessions = max(1, count // session)
    session_of = np.sort(rng.integers(0, sessions, count))
    users = np.searchsorted(world.activity, rng.random(sessions))[session_of]
    gaps = rng.exponential(15_000, count).astype(np.int64) + 1_000
    sums = np.cumsum(gaps)
    first = np.searchsorted(session_of, np.arange(sessions))
    base = np.where(first < count, sums[np.minimum(first, count - 1)], 0)
    begins = rng.integers(begin, end - 3_600_000, sessions)
    times = np.minimum(begins[session_of] + sums - base[session_of], end - 1)
    items = world.item_order[np.searchsorted(world.popularity, rng.random(count))]
    order = np.argsort(times, kind="stable")
    return users[order], items[order], times[order]


def rows(world, users, items, times, rng):
    """The columns of a log."""
    bits = world.feedback(users, items, rng)
    feedback = {name: bits[:, bit].astype(np.int64) for bit, name in enumerate(FEEDBACK)}
    durations = world.durations[items]
    watched = rng.random(len(users)) + feedback["long_view"]
    local = times // 1000 + BEIJING
    days = (local // 86_400).astype("datetime64[D]")
    date = {day: int(str(day).replace("-", "")) for day in np.unique(days)}
    zeros = np.zeros(len(users), np.int64)
    return {
        "user_id": users,
        "video_id": items,
        "date": np.array([date[day] for day in days]),
        "hourmin": local % 86_400 // 3600 * 100,
        "time_ms": times,
        "play_time_ms": (np.minimum(durations, 18_000) * watched).astype(np.int64),
        "duration_ms": durations,
        "profile_stay_time": feedback["is_profile_enter"] * rng.integers(500, 20_000, len(users)),
        "comment_stay_time": feedback["is_comment"] * rng.integers(500, 30_000, len(users)),
        "is_rand": zeros,
        "tab": rng.choice([0, 1, 2, 4, 6], len(users), p=[0.2, 0.6, 0.1, 0.05, 0.05]),
        **feedback,
    }


def write_log(path, world, users, items, times, rng):
    line = ",".join(["%d"] * len(COLUMNS))
    with path.open("w") as file:
        file.write(",".join(COLUMNS) + "\n")
        for begin in range(0, len(users), ROWS_AT_ONCE):
            part = slice(begin, begin + ROWS_AT_ONCE)
            table = rows(world, users[part], items[part], times[part], rng)
            columns = [table[name].tolist() for name in COLUMNS]
            file.write("\n".join(map(line.__mod__, zip(*columns))) + "\n")


def write_users(path, users, world, rng):
    """With what is missing in the original too."""
    ranges = {
        "follow_user_num": "0 (0,10] (10,50] (50,100] (100,150] (150,250] (250,500] 500+".split(),
        "fans_user_num": "0 [1,10) [10,100) [100,1k) [1k,5k) [5k,1w) [1w,10w)".split(),
        "friend_user_num": "0 [1,5) [5,30) [30,60) [60,120) [120,250) 250+".split(),
        "register_days": "15-30 31-60 61-90 91-180 181-365 366-730 730+".split(),
    }
    degrees = ["full_active", "high_active", "middle_active", "low_active", "UNKNOWN"]
    onehot = [2, 7, 50, 1500, 15, 34, 3, 118, 454, 7, 5, 5, 2, 2, 2, 2, 2, 2]
    with_gaps = [4, 12, 13, 14, 15, 16, 17]
    names = ["user_id", "user_active_degree", "is_lowactive_period", "is_live_streamer"]
    names.append("is_video_author")
    for name in ranges:
        names += [name, f"{name}_range"]
    names += [f"onehot_feat{index}" for index in range(len(onehot))]
    lines = [",".join(names)]
    for user in range(users):
        degree = degrees[rng.integers(len(degrees))]
        cells = [user, degree, 0, rng.integers(0, 2), rng.integers(0, 2)]
        for values in ranges.values():
            pick = rng.integers(len(values))
            text = f'"{values[pick]}"' if "," in values[pick] else values[pick]
            cells += [pick * 37 + rng.integers(30), text]
        is_known = rng.random() > 0.03
        for index, values in enumerate(onehot):
            code = rng.integers(values)
            if index in with_gaps:
                cells.append(f"{code}.0" if is_known else "")
            else:
                cells.append(code)
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")


def midnight_ms(day):
    return (int(np.datetime64(day, "s").astype(np.int64)) - BEIJING) * 1000


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("folder", type=pathlib.Path, help="the dataset path")
    parser.add_argument("--form", choices=FORMS, default="1k")
    parser.add_argument("--users", type=int)
    parser.add_argument("--items", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--session", type=int, default=12, help="events of a session, about")
    parser.add_argument("--dim", type=int, default=8, help="of latent vectors")
    parser.add_argument("--strength", type=float, default=1.5, help="of the signal, in log-odds")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    folder, users, items, count, parts = FORMS[args.form]
    users, items, count = args.users or users, args.items or items, args.rows or count
    rng = np.random.default_rng(args.seed)
    world = World(users, items, args.dim, args.strength, rng)
    data = args.folder / folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    write_users(data / f"user_features_{args.form}.csv", users, world, rng)
    days = [14, 17]
    for (log, first, end), period_days in zip(PERIODS, days):
        period_rows = count * period_days // sum(days)
        begin_ms, end_ms = midnight_ms(first), midnight_ms(end)
        events = events_in_time(world, period_rows, begin_ms, end_ms, args.session, rng)
        bounds = np.linspace(0, period_rows, parts + 1).astype(int)
        for part in range(parts):
            suffix = f"_part{part + 1}" if 1 < parts else ""
            path = data / f"{log}_{args.form}{suffix}.csv"
            some = slice(bounds[part], bounds[part + 1])
            write_log(path, world, *(column[some] for column in events), rng)
            print(f"wrote {path}: {bounds[part + 1] - bounds[part]} rows")


if __name__ == "__main__":
    main()
