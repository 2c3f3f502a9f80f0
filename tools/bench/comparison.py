"""Rates of all rounds, their medians, and how many times faster the first program is."""

import statistics

WIDTH = 34


class Comparison:
    def __init__(self, contestants, load, model, machine):
        self.contestants, self.load, self.model, self.machine = contestants, load, model, machine
        self.rates = {program.name: {key: [] for key in load.measures()} for program in contestants}

    def add(self, program, rates):
        for key, rate in rates.items():
            self.rates[program.name][key].append(rate)

    def ratio(self, name, key):
        """Of the first program's median to another's; None where there is none."""
        first = self.contestants[0].name
        ours, theirs = self.rates[first][key], self.rates[name][key]
        if name == first or not ours or not theirs:
            return None
        return statistics.median(ours) / statistics.median(theirs)

    def table(self):
        lines = [*self.heading(), ""]
        names = [program.name for program in self.contestants]
        lines.append(f"{'tokens a second':{WIDTH}}" + "".join(f"{name:>{WIDTH}}" for name in names))
        for key, title in self.load.measures().items():
            cells = [cell(self.rates[name][key], self.ratio(name, key)) for name in names]
            lines.append(f"{title:{WIDTH}}" + "".join(f"{text:>{WIDTH}}" for text in cells))
        lines += ["", f"median (least to most) and, after x, how many times faster {names[0]} is"]
        return "\n".join(lines)

    def heading(self):
        machine = self.machine
        yield f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}"
        yield f"{' '.join(machine['instructions'])}"
        yield f"{self.model.name}, {self.load.threads} threads"
        for program in self.contestants:
            yield ""
            yield program.name
            for key, value in program.describe().items():
                yield f"  {key}: {' '.join(value) if isinstance(value, list) else value}"

    def as_json(self):
        programs = []
        for program in self.contestants:
            rates, name = self.rates[program.name], program.name
            medians = {key: statistics.median(all) for key, all in rates.items() if all}
            ratios = {key: self.ratio(name, key) for key in rates}
            described = {"name": name, **program.describe()}
            programs.append({**described, "rates": rates, "medians": medians, "ratios": ratios})
        return {
            "machine": self.machine,
            "model": self.model.name,
            "load": vars(self.load),
            "measures": self.load.measures(),
            "programs": programs,
        }


def cell(rates, ratio):
    if not rates:
        return "-"
    text = f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"
    return text if ratio is None else f"{text} x{ratio:.2f}"
