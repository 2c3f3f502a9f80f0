"""Files of embedding tables that tests write, and the rows that a server must give for their keys."""

import array
import base64
import random
from pathlib import Path

from checks import equal
from ranked_users import ask
from redis_cluster import wait_until


class TableFiles:
    """A folder with `key` and `emb_vector`; every number is one of 32 bits."""

    def __init__(self, folder, rows=1_000, dim=16, seed=1):
        chance = random.Random(seed)
        self.folder, self.dim = Path(folder), dim
        self.keys = chance.sample(range(1 << 31), rows)
        self.rows = {}
        for key in self.keys:
            self.rows[key] = array.array("f", [chance.uniform(-1, 1) for _ in range(dim)]).tolist()
        self.folder.mkdir(parents=True)
        (self.folder / "key").write_bytes(array.array("q", self.keys).tobytes())
        numbers = array.array("f", [number for key in self.keys for number in self.rows[key]])
        (self.folder / "emb_vector").write_bytes(numbers.tobytes())

    def check(self, base, table, default=0.0):
        """All rows, and one that is not there, are what a server gives in both encodings."""
        keys = [*self.keys, (1 << 31) + 7, self.keys[0]]
        want = [self.rows.get(key, [default] * self.dim) for key in keys]
        path = f"/v1/tables/{table}/lookup"

        def is_given(keys, want):
            numbers = ask(base, "POST", path, {"keys": keys})
            encoded = ask(base, "POST", path, {"keys": keys, "encoding_format": "base64"})
            decoded = array.array("f", base64.b64decode(encoded["rows"])).tolist()
            equal(encoded["dim"], self.dim)
            is_right = rounded(numbers["rows"]) == want and decoded == sum(want, [])
            # Rows that nobody waited for are on their way.
            deferred = numbers["lookup"]["deferred_rows"] + encoded["lookup"]["deferred_rows"]
            assert is_right or deferred > 0, f"{table}: other rows than its files have"
            missing = numbers["lookup"]["default_rows"] + numbers["lookup"]["deferred_rows"]
            return is_right and missing == 1

        wait_until("all rows are given", lambda: is_given(keys, want))


def rounded(rows):
    """JSON has the shortest digits of a 32-bit float, which Python reads as one of 64."""
    return [array.array("f", row).tolist() for row in rows]
