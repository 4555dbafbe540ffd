"""Curves as SVG: what the demos draw of a run. It needs no other program, so that a demo installs none for it."""

import math
from xml.sax.saxutils import escape

WIDTH = 900
LEFT, RIGHT, TOP, BOTTOM = 80, 24, 44, 60  # margins, for labels
COLOURS = ("#1f5fa8", "#c2540a", "#3c7d3c", "#7a4a9e")
TICKS_MAX = 8  # of a linear axis


def linear_ticks(low, high):
    """Round values within [low, high], at steps of 1, 2 or 5 times a power of ten."""
    span = max(high - low, 1e-12)
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if span / (step * part) <= TICKS_MAX)
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


class Axis:
    """Values to pixels; logarithmic: whole decades."""

    def __init__(self, values, first, last, logarithmic=False, limits=None):
        self.logarithmic, self.first, self.last = logarithmic, first, last
        positive = [value for value in values if not logarithmic or value > 0] or [1.0]
        self.low, self.high = limits or (min(positive), max(positive))
        self.least = self.low  # stands for what a logarithmic axis cannot show
        if logarithmic:
            self.low, self.high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        if self.high == self.low:
            self.high = self.low + 1

    def at(self, value):
        if self.logarithmic:
            value = math.log10(value if value > 0 else self.least)
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)

    def ticks(self):
        """(value, its text)"""
        if self.logarithmic:
            return [(10.0 ** power, "1" if power == 0 else f"1e{power}") for power in range(self.low, self.high + 1)]
        return [(value, f"{value:g}") for value in linear_ticks(self.low, self.high)]


def draw(path, title, x_label, curves, logarithmic=False, limits=None, height=540):
    """Writes curves, each (label, [(x, y), ...]), to path. limits: (low, high) of a linear axis of values."""
    right, bottom = WIDTH - RIGHT, height - BOTTOM
    x_axis = Axis([x for _, points in curves for x, _ in points], LEFT, right)
    y_axis = Axis([y for _, points in curves for _, y in points], bottom, TOP, logarithmic, limits)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
             f'height="{height}" font-family="sans-serif" font-size="14" fill="#222222">',
             f'<title>{escape(title)}</title>', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             f'<text x="{WIDTH / 2}" y="26" text-anchor="middle" font-size="16">{escape(title)}</text>',
             f'<text x="{(LEFT + right) / 2}" y="{height - 14}" text-anchor="middle">{escape(x_label)}</text>']
    for value, text in x_axis.ticks():
        x = x_axis.at(value)
        parts += [f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#dddddd"/>',
                  f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{text}</text>']
    for value, text in y_axis.ticks():
        y = y_axis.at(value)
        parts += [f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#dddddd"/>',
                  f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{text}</text>']
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#666666"/>')
    for index, (label, points) in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        line = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in points)
        # The legend stands where the curves are not: a gap falls to the right, an accuracy rises.
        y = TOP + 24 + 22 * index if logarithmic else bottom - 22 * (len(curves) - index)
        parts += [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>',
                  f'<path d="M{right - 44} {y - 5}h32" stroke="{colour}" stroke-width="2"/>',
                  f'<text x="{right - 52}" y="{y}" text-anchor="end">{escape(label)}</text>']
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
