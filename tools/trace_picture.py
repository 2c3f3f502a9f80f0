"""Draws a part of a trace that `terrace --trace FILE` wrote as SVG.

usage: trace_picture.py TRACE START_MS END_MS TITLE > picture.svg

Steps are one row. Copies and the tiers' work overlap, so each kind has as many rows as it needs.
"""

import json
import sys
from html import escape

WIDTH, LEFT, ROW, GAP, TOP = 900, 120, 14, 6, 40
COLOURS = {"prefill": "#4c78a8", "decode": "#72b7b2", "to device": "#f58518", "to host": "#eeca3b",
           "read": "#54a24b", "write": "#b279a2", "look up": "#9d755d"}


def spans(events):
    """Row name, start, end and name of everything, in milliseconds."""
    begun = {}
    for event in events:
        match event["ph"]:
            case "X":
                start = event["ts"] / 1e3
                yield "steps", start, start + event["dur"] / 1e3, event["name"]
            case "b":
                begun[event["cat"], event["id"]] = event
            case "e":
                begin = begun.pop((event["cat"], event["id"]), None)
                if begin is not None:
                    row = f"{event['cat']}: {event['name']}"
                    yield row, begin["ts"] / 1e3, event["ts"] / 1e3, event["name"]


def rows(found):
    """Spans by row; those that overlap take further rows of the same name."""
    by_name = {}
    for name, start, end, what in sorted(found, key=lambda span: span[1]):
        lanes = by_name.setdefault(name, [])
        lane = next((lane for lane in lanes if lane[-1][1] <= start), None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane.append((start, end, what))
    order = sorted(by_name, key=lambda name: (name != "steps", not name.startswith("copies"), name))
    return [(name, lane) for name in order for lane in by_name[name]]


def picture(lanes, first, last, title):
    scale = (WIDTH - LEFT - 30) / (last - first)
    x = lambda ms: LEFT + (min(max(ms, first), last) - first) * scale
    height = TOP + len(lanes) * (ROW + GAP) + 30
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="11">')
    yield f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    yield f'<text x="10" y="20" font-size="13">{escape(title)}</text>'
    base = height - 24
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * scale > 60)
    for tick in range(0, int(last - first) + 1, step):
        at = x(first + tick)
        yield f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{base}" stroke="#ddd"/>'
        yield f'<text x="{at:.1f}" y="{base + 14}" text-anchor="middle">{tick} ms</text>'
    seen = None
    for index, (name, lane) in enumerate(lanes):
        y = TOP + index * (ROW + GAP)
        if name != seen:
            yield f'<text x="10" y="{y + ROW - 3}">{escape(name)}</text>'
            seen = name
        for start, end, what in lane:
            width = max(x(end) - x(start), 0.5)
            colour = COLOURS.get(what, "#888")
            yield (f'<rect x="{x(start):.1f}" y="{y}" width="{width:.1f}" height="{ROW}" '
                   f'fill="{colour}" stroke="#fff" stroke-width="0.5"/>')
    yield "</svg>"


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    trace, first, last, title = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    with open(trace) as file:
        found = [span for span in spans(json.load(file)) if span[1] < last and first < span[2]]
    print("\n".join(picture(rows(found), first, last, title)))


if __name__ == "__main__":
    main()
