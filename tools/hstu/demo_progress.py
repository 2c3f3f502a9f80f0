"""A bar for what the trainer prints: how far it is, the loss, and how long it still takes."""

import re
import sys
import time

WIDTH = 30
STEP = re.compile(r"\[train\] \[iter (\d+),.*loss ([\d.]+)")


class TrainingBar:
    """Lines about steps move the bar; all others are printed as they are."""

    def __init__(self, gin_file):
        text = gin_file.read_text()
        self.steps = int(re.search(r"^TrainerArgs.max_train_iters = (\d+)", text, re.M)[1])
        self.started = time.monotonic()
        self.on_terminal = sys.stdout.isatty()

    def follow(self, lines):
        print(f"training: {self.steps} steps", flush=True)
        for line in lines:
            step = STEP.match(line)
            if step is None:
                self.clear()
                print(line, end="", flush=True)
            else:
                self.show(int(step[1]), step[2])
        self.clear()

    def show(self, done, loss):
        if not self.on_terminal:
            return
        left = (time.monotonic() - self.started) / done * (self.steps - done)
        bar = ("#" * (WIDTH * done // self.steps)).ljust(WIDTH)
        minutes = f"{int(left) // 60}:{int(left) % 60:02} left"
        print(f"\r\033[K[{bar}] {done}/{self.steps}  loss {loss}  {minutes}", end="", flush=True)

    def clear(self):
        if self.on_terminal:
            print("\r\033[K", end="", flush=True)
