#!/usr/bin/env python3
"""The steps of `terrace preprocess` for KuaiRand in pandas, as a peer to measure it against.

Written as one writes it in pandas: only the columns that are needed are read, the mask of feedback
is computed by columns, and users are grouped once. The outputs are the same, byte for byte:

    python3 tools/hstu/preprocess_pandas.py data --form 27k --suffix .pandas
    cmp data/KuaiRand-27K/data/processed_seqs.csv{,.pandas}
"""

import argparse
import glob
import pathlib
import resource
import time

import numpy as np
import pandas as pd

FOLDERS = {"1k": "KuaiRand-1K", "pure": "KuaiRand-Pure", "27k": "KuaiRand-27K"}
FEEDBACK = [
    "is_click",
    "is_like",
    "is_follow",
    "is_comment",
    "is_forward",
    "is_hate",
    "long_view",
    "is_profile_enter",
]
CODED = [
    "user_active_degree",
    "follow_user_num_range",
    "fans_user_num_range",
    "friend_user_num_range",
    "register_days_range",
]
LISTS = ["video_id", "time_ms", "action_weights", "play_time_ms", "duration_ms"]
PLAIN = ["user_id", "video_id", "date", "time_ms", "play_time_ms", "duration_ms"]


def read_log(path):
    log = pd.read_csv(path, usecols=PLAIN + FEEDBACK)
    mask = np.zeros(len(log), np.int64)
    for bit, name in enumerate(FEEDBACK):
        mask |= (log[name].to_numpy() != 0).astype(np.int64) << bit
    log["action_weights"] = mask
    return log.drop(columns=FEEDBACK)


def read_users(path):
    users = pd.read_csv(path)
    for name in CODED:
        codes = {value: code + 1 for code, value in enumerate(users[name].unique())}
        users[name] = users[name].map(codes)
    return users


def training(logs, users, path):
    in_all = set(logs[0]["user_id"].unique())
    for log in logs[1:]:
        in_all &= set(log["user_id"].unique())
    events = pd.concat(logs, ignore_index=True)
    events = events[events["user_id"].isin(in_all)]
    events = events.sort_values(["user_id", "time_ms"], kind="stable")
    sequences = events.groupby("user_id")[LISTS].agg(list).reset_index()
    sequences.merge(users, on="user_id").to_csv(path, index=False)


def bounds(times, interval):
    """Where intervals begin, and the end of the last."""
    found = [0]
    for index in range(1, len(times)):
        if times[index] - times[found[-1]] >= interval:
            found.append(index)
    return found + [len(times)]


def inference(periods, users, sequences_path, batches_path, interval):
    all_sequences, all_batches = [], []
    for events in periods:
        events = events[events["user_id"].isin(users["user_id"])]
        events = events.sort_values(["user_id", "date", "time_ms"], kind="stable")
        sequences = events.groupby(["user_id", "date"])[LISTS].agg(list).reset_index()
        sequences["interval_indptr"] = [bounds(times, interval) for times in sequences["time_ms"]]
        sequences["num_intervals"] = sequences["interval_indptr"].map(len) - 1
        keys = sequences[["user_id", "date", "time_ms", "interval_indptr"]].itertuples(index=False)
        for user, date, times, ends in keys:
            all_batches += [(user, date, times[end - 1], end) for end in ends[1:]]
        all_sequences.append(sequences)
    sequences = pd.concat(all_sequences).merge(users, on="user_id")
    sequences.to_csv(sequences_path, index=False)
    names = ["user_id", "date", "interval_end_ts", "interval_indptr"]
    pd.DataFrame(all_batches, columns=names).to_csv(batches_path, index=False)


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("folder", type=pathlib.Path, help="the dataset path")
    parser.add_argument("--form", choices=FOLDERS, default="1k")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--batch_ts_interval", type=int, default=60)
    parser.add_argument("--suffix", default=".pandas", help="of the files that are written")
    args = parser.parse_args()

    begun = time.monotonic()
    data = args.folder / FOLDERS[args.form] / "data"
    names = ["log_standard_4_08_to_4_21", "log_standard_4_22_to_5_08"]
    paths = [sorted(glob.glob(f"{data}/{name}_{args.form}*.csv")) for name in names]
    periods = [[read_log(path) for path in of_period] for of_period in paths]
    users = read_users(data / f"user_features_{args.form}.csv")
    training(sum(periods, []), users, data / f"processed_seqs.csv{args.suffix}")
    if args.inference:
        periods = [pd.concat(logs, ignore_index=True) for logs in periods]
        outputs = ["processed_seqs_inference.csv", "processed_batches.csv"]
        outputs = [data / f"{name}{args.suffix}" for name in outputs]
        inference(periods, users, *outputs, args.batch_ts_interval * 1000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.monotonic() - begun:.1f} s, {peak:.0f} MiB at the most")


if __name__ == "__main__":
    main()
