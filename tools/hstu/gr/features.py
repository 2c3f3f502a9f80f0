"""Data sets that are known by name: their columns, tables, and where preprocessing writes them.

Names, rows and order of the tables are those of recsys-examples, since checkpoints depend on them.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Table:
    feature: str
    rows: int | None = None  # None: dynamic, known by the ids of the training users
    own_name: str | None = None

    @property
    def name(self):
        return self.own_name or self.feature


@dataclass(frozen=True)
class Features:
    """The columns of `processed_seqs.csv` that a model reads."""

    file: str
    context: tuple[str, ...]
    item: str
    action: str
    tables: tuple[Table, ...]
    time: str | None = None
    actions: frozenset[int] | None = None  # all that there are, where others would mislead

    def path(self, dataset_path):
        """A file is taken as it is; a folder is the one that preprocessing was given."""
        given = Path(dataset_path or "tmp_data")
        return given if given.is_file() else given / self.file

    @property
    def static(self):
        return [table for table in self.tables if table.rows is not None]

    @property
    def dynamic(self):
        return [table for table in self.tables if table.rows is None]


KUAIRAND_CONTEXT = (
    "user_id",
    "user_active_degree",
    "follow_user_num_range",
    "fans_user_num_range",
    "friend_user_num_range",
    "register_days_range",
)


def kuairand(folder, rows):
    names = (*KUAIRAND_CONTEXT[1:], "action_weights")
    static = tuple(Table(name, count) for name, count in zip(names, rows))
    dynamic = (Table("video_id"), Table("user_id"))
    file = f"{folder}/data/processed_seqs.csv"
    tables = static + dynamic
    return Features(file, KUAIRAND_CONTEXT, "video_id", "action_weights", tables, "time_ms")


def movielens(folder, context, action_rows, actions=None):
    static = tuple(Table(name, count) for name, count in context.items())
    action = Table("rating", action_rows, own_name="action_weights")
    tables = (*static, action, Table("movie_id"), Table("user_id"))
    file = f"{folder}/processed_seqs.csv"
    names = (("user_id", *context), "movie_id", "rating", tables, "unix_timestamp")
    return Features(file, *names, actions)


USERS_OF_1M = {"sex": 3, "age_group": 8, "occupation": 22, "zip_code": 3440}
# A rating of 3 or more is bit 0, of 4 or more bit 1, of 5 bit 2.
BITS_OF_RATINGS = frozenset({0b000, 0b001, 0b011, 0b111})
USERS_OF_100K = {"sex": 3, "age_group": 8, "occupation": 22, "zip_code": 796}
DATASETS = {
    "kuairand-pure": kuairand("KuaiRand-Pure", (10, 9, 10, 8, 8, 226)),
    "kuairand-1k": kuairand("KuaiRand-1K", (8, 9, 9, 8, 8, 233)),
    "kuairand-27k": kuairand("KuaiRand-27K", (10, 9, 10, 8, 8, 246)),
    "ml-1m": movielens("ml-1m", USERS_OF_1M, 11),
    "ml-20m": movielens("ml-20m", {}, 11),
    "ml-100k": movielens("ml-100k", USERS_OF_100K, 8, BITS_OF_RATINGS),
}
