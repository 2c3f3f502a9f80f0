#!/usr/bin/env python3
"""Train small models on made-up users: what is read, what leaks, what a checkpoint keeps.

    python3 tools/hstu/tests/test_trainer.py
"""

import csv
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

from gr import checkpoint
from gr.args import (
    AugmentationArgs,
    DatasetArgs,
    NetworkArgs,
    OptimizerArgs,
    RankingArgs,
    SequentialArgs,
)
from gr.argument_error import ArgumentError
from gr.batches import Batches
from gr.features import DATASETS
from gr.optimizers import Optimizers
from gr.ranking_evaluation import evaluate_ranking
from gr.ranking_model import RankingModel
from gr.sequences import read_sequences, split_users
from gr.sequential.data import Histories, windows
from gr.sequential.evaluation import HELD_OUT_OF, held_out
from gr.sequential.model import SequentialModel, SequentialSizes
from gr.vocabulary import make_vocabularies, note_ids_without_rows

FEATURES = DATASETS["ml-100k"]
CPU = torch.device("cpu")
CANDIDATES = 2
GIN = """
TrainerArgs.train_batch_size = 8
TrainerArgs.eval_batch_size = 8
TrainerArgs.log_interval = 5
DatasetArgs.dataset_name = "ml-100k"
DatasetArgs.dataset_path = "{file}"
DatasetArgs.max_history_seqlen = 8
NetworkArgs.num_layers = 1
NetworkArgs.hidden_size = 16
NetworkArgs.num_attention_heads = 2
NetworkArgs.kv_channels = 8
OptimizerArgs.optimizer_str = "adam"
OptimizerArgs.learning_rate = 1e-3
"""


def write_users(path, count=40, seed=3):
    """People like films of even numbers."""
    random = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow("user_id movie_id rating unix_timestamp sex age_group occupation zip_code"
                      .split())
        for user in range(1, count + 1):
            items = random.integers(1, 30, random.integers(2, 12)).tolist()
            actions = [0 if item % 2 else 7 for item in items]
            times = list(range(len(items)))
            rows.writerow([user, items, actions, times, 1 + user % 2, 1, 2, 3])


class Trained:
    """A model, its batches and what trains it, always the same for the same file."""

    def __init__(self, file, load=None):
        torch.manual_seed(5)
        sequences = read_sequences(file, FEATURES, 8 + CANDIDATES, CANDIDATES)
        self.train, self.others = split_users(sequences)
        keys = checkpoint.read_keys(load, FEATURES)
        self.vocabularies = make_vocabularies(FEATURES, self.train, keys)
        network = NetworkArgs(1, 16, 2, 8, hidden_dropout=0.0)
        dataset = DatasetArgs("ml-100k", 8, max_num_candidates=CANDIDATES)
        ranking = RankingArgs([8, 3], num_tasks=3)
        self.model = RankingModel(FEATURES, self.vocabularies, network, dataset, ranking)
        self.optimizers = Optimizers(self.model, OptimizerArgs("adam", 1e-2))
        if load:
            checkpoint.load(load, self.model, self.optimizers, self.vocabularies)

    def batches(self, split):
        return Batches(split, FEATURES, self.vocabularies, CANDIDATES, 8)

    def steps(self, first, last):
        random = np.random.default_rng(0)
        endless = self.batches(self.train).endless(False, random, AugmentationArgs())
        for index, batch in zip(range(last), endless):
            if index >= first:
                self.optimizers.step(self.model.loss(batch))


class TrainerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "users.csv"
        write_users(self.file)

    def tearDown(self):
        self.folder.cleanup()

    def test_users_are_split_in_their_order_and_keep_their_first_items(self):
        whole = read_sequences(self.file, FEATURES, 1000, CANDIDATES)
        cut = read_sequences(self.file, FEATURES, 5, CANDIDATES)
        self.assertTrue((whole.lengths() > CANDIDATES).all())
        self.assertEqual(cut.lengths().tolist(), np.minimum(whole.lengths(), 5).tolist())
        first = slice(0, cut.lengths()[0])
        self.assertEqual(cut.items[first].tolist(), whole.items[first].tolist())
        train, others = split_users(whole)
        self.assertEqual(len(train), int(0.7 * len(whole)))
        users = np.concatenate([train.context[:, 0], others.context[:, 0]])
        self.assertEqual(users.tolist(), whole.context[:, 0].tolist())

    def test_what_candidates_got_does_not_change_their_scores(self):
        trained = Trained(self.file)
        batch = next(trained.batches(trained.others).in_order())
        columns = torch.arange(batch.items.shape[1])
        is_candidate = columns >= (batch.lengths - batch.candidates)[:, None]
        trained.model.eval()
        before = trained.model(batch)
        batch.actions[is_candidate] = 5
        torch.testing.assert_close(trained.model(batch), before, atol=0, rtol=0)
        batch.actions[~is_candidate] = 5
        self.assertGreater((trained.model(batch) - before).abs().max(), 1e-4)

    def test_a_checkpoint_goes_on_where_it_was(self):
        folder = str(Path(self.folder.name) / "iter6")
        straight = Trained(self.file)
        straight.steps(0, 6)
        parts = (straight.model, straight.optimizers, straight.vocabularies)
        checkpoint.save(folder, *parts, "# its gin file", 6)
        straight.steps(6, 12)
        resumed = Trained(self.file, load=folder)
        resumed.steps(6, 12)
        for key, value in straight.model.state_dict().items():
            torch.testing.assert_close(resumed.model.state_dict()[key], value, msg=key)
        names = sorted(path.name for path in Path(folder).glob("**/movie_id*"))
        suffix = "rank_0.world_size_1"
        parts = ("keys", "opt_values", "scores", "values")
        wanted = [f"movie_id_emb_{part}.{suffix}" for part in parts]
        self.assertEqual(names, [*wanted, "movie_id_opt_args.json"])
        state = torch.load(Path(folder) / checkpoint.DENSE_FILE, weights_only=True)
        self.assertIn("_hstu_block._attention_layers.0._linear_uvqk_weight",
                      state["model_state_dict"])

    def test_it_learns_and_new_ids_have_the_row_of_zeros(self):
        trained = Trained(self.file)
        trained.steps(0, 150)
        self.assertTrue((trained.vocabularies["user_id"].rows(trained.others.context[:, 0]) == 0)
                        .all())
        tables = trained.model._embedding_collection.dynamic.embeddings
        self.assertEqual(tables["user_id"].weight[0].abs().max(), 0)
        users, metrics = evaluate_ranking(trained.model, trained.batches(trained.others), None, CPU)
        self.assertEqual(users, len(trained.others))
        self.assertGreater(min(metrics.values()), 0.8)

    def test_what_is_wrong_is_named(self):
        with self.assertRaisesRegex(ArgumentError, "no user of 40 has more than 100 items"):
            read_sequences(self.file, FEATURES, 200, 100)
        with self.assertRaisesRegex(ArgumentError, "no column 'user_active_degree'"):
            read_sequences(self.file, DATASETS["kuairand-1k"], 200, 0)
        sequences = read_sequences(self.file, FEATURES, 200, 0)
        sequences.actions[0] = 8
        vocabularies = make_vocabularies(FEATURES, sequences, {})
        notes = []
        note_ids_without_rows(vocabularies, sequences, FEATURES, notes.append)
        self.assertEqual(notes, [
            "[note] 1 ids of rating are taken as zeros: the table action_weights has 8 rows"
        ])
        outside = torch.from_numpy(vocabularies["rating"].rows(sequences.actions[:1]))
        tables = Trained(self.file).model._embedding_collection
        self.assertEqual(tables("rating", outside).abs().max(), 0)

    def run_program(self, name, text):
        gin = Path(self.folder.name) / "run.gin"
        gin.write_text(GIN.format(file=self.file) + text)
        command = [sys.executable, f"training/{name}.py", "--gin-config-file", str(gin)]
        done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, check=False)
        return done.stdout, done.stderr

    def test_programs(self):
        ranking = ("RankingArgs.prediction_head_arch = [8, 3]\nRankingArgs.num_tasks = 3\n"
                   "DatasetArgs.max_num_candidates = 2\n")
        out, error = self.run_program("pretrain_gr_ranking", ranking)
        self.assertRegex(out, r"\[eval\] \[eval \d+ users\]:\n    Metrics\.task0\.AUC:0\.\d{6}\n")
        self.assertEqual(error, "")
        for text in ("", "SequentialArgs.enabled = True\nRetrievalArgs.num_negatives = 4\n"
                         "SequentialArgs.eval_negatives = 3\n"):
            out, error = self.run_program("pretrain_gr_retrieval", text)
            self.assertRegex(out, r"    Metrics\.HR@10:\d\.\d{6}\n    Metrics\.NDCG@10:")
            self.assertEqual(error, "")

    def test_programs_refuse(self):
        cases = {
            "NetworkArgs.is_causal = False": "NetworkArgs.is_causal: histories that see",
            "TensorModelParallelArgs.tensor_model_parallel_size = 2": "it is 1",
            "RetrievalArgs.eval_metrics = ('AUC',)": "'AUC' is not HR@k, NDCG@k or MRR",
            "NetworkArgs.no_such_key = 1": "no_such_key",
        }
        for text, wanted in cases.items():
            out, error = self.run_program("pretrain_gr_retrieval", text)
            self.assertRegex(error, "^error: .*" + re.escape(wanted), out)


class LeaveOneOutTest(unittest.TestCase):
    HISTORIES = Histories([np.arange(1, 10), np.arange(20, 22), np.arange(10, 15)], None)

    def test_held_out_items_are_not_trained_on(self):
        parts = [self.HISTORIES.items[user][start:end].tolist()
                 for user, start, end in windows(self.HISTORIES, 3)]
        self.assertEqual(parts, [[4, 5, 6, 7], [1, 2, 3, 4], [20, 21], [10, 11, 12]])

    def test_what_is_asked_for_follows_what_is_given(self):
        args = SequentialArgs(eval_negatives=4)
        for split, count in HELD_OUT_OF.items():
            data = held_out(self.HISTORIES, split, 50, args, 1, CPU)
            for row, items in enumerate((self.HISTORIES.items[0], self.HISTORIES.items[2])):
                length = int(data.lengths[row])
                self.assertEqual(data.ids[row, :length].tolist(), items[:-count].tolist())
                self.assertEqual(int(data.targets[row]), items[-count])
                negatives = data.negatives[row].tolist()
                self.assertEqual(len(set(negatives) - set(items.tolist())), 4)

    def test_a_rank_does_not_depend_on_longer_histories_beside_it(self):
        histories = Histories(
            [np.arange(1, 10), np.arange(10, 15)],
            [np.arange(1, 10) * 700_000, np.arange(5) * 90_000 + 5],
        )
        torch.manual_seed(3)
        sizes = SequentialSizes(
            items=14, most_items=8, dim=8, layers=2, heads=1, head_dim=8, dropout=0.0,
            has_times=True,
        )
        model = SequentialModel(sizes)
        for layer in model._hstu._attention_layers:
            torch.nn.init.normal_(layer._rel_attn_bias._ts_w, std=5.0)
        args = SequentialArgs(eval_negatives=4)
        data = held_out(histories, "test", 8, args, 1, CPU)
        self.assertEqual(data.times[1].tolist(), [5, 90_005, 180_005, *[270_005] * 5])
        queries = []
        for part in (slice(0, 2), slice(1, 2)):
            longest = int(data.lengths[part].max())
            encoded = model(data.ids[part, :longest], data.times[part, :longest])
            queries.append(encoded[-1, 3])
        torch.testing.assert_close(*queries)


if __name__ == "__main__":
    unittest.main()
