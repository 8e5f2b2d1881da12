# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What the pictures are drawn with: boxes, lines and text, written as SVG. Coordinates are pixels from the top left."""
import math
from xml.sax.saxutils import escape

# Fill and edge. The same colour means the same thing in all pictures.
COLOURS = {
    "plain": ("#ffffff", "#555555"),
    "quiet": ("#f1f1f1", "#999999"),
    "memory": ("#dcebfa", "#3f74a8"),  # in memory only
    "disk": ("#fbe9cf", "#b07a24"),  # stored
    "live": ("#dcf0dc", "#3d8b3d"),  # committed, or holds
    "open": ("#fbdcdc", "#b54545"),  # being changed
}
FONT = "DejaVu Sans, Verdana, sans-serif"
INK = "#222222"
FAINT = "#666666"


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts, self.words = [], []  # the words are drawn last, so that no line goes through them

    def text(self, x, y, words, size=13, anchor="start", bold=False, faint=False, halo="#ffffff"):
        """Lines of text; y is the first one's base line. The halo has the colour of what is behind them."""
        for number, line in enumerate(words.split("\n")):
            weight = ' font-weight="bold"' if bold else ""
            around = f' stroke="{halo}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
            self.words.append(f'<text x="{x:g}" y="{y + number * size * 1.3:g}" font-size="{size}" text-anchor="{anchor}"'
                              f'{weight} fill="{FAINT if faint else INK}"{around}>{escape(line)}</text>')

    def box(self, x, y, width, height, words="", kind="plain", size=13, bold=False):
        """A box with its text in the middle."""
        fill, edge = COLOURS[kind]
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" '
                          f'stroke="{edge}"/>')
        if words:
            lines = words.count("\n")
            self.text(x + width / 2, y + height / 2 + size * (0.36 - 0.65 * lines), words, size, "middle", bold, halo=None)

    def titled_box(self, x, y, width, height, title, words, kind="plain"):
        """A box with a title, and lines below it."""
        self.box(x, y, width, height, kind=kind)
        self.text(x + 10, y + 19, title, 13, bold=True, halo=None)
        self.text(x + 10, y + 36, words, 11.5, faint=True, halo=None)

    def line(self, points, dashed=False, arrow=False, colour=FAINT):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"{dashes}/>')
        if arrow:
            self.head(points[-2], points[-1], colour)

    def arrow(self, points, dashed=False, colour=INK):
        self.line(points, dashed, True, colour)

    def head(self, before, at, colour=INK):
        angle = math.atan2(at[1] - before[1], at[0] - before[0])
        corners = [at] + [(at[0] - 9 * math.cos(angle + side), at[1] - 9 * math.sin(angle + side)) for side in (0.4, -0.4)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self.parts.append(f'<polygon points="{path}" fill="{colour}"/>')

    def ring_part(self, x, y, inner, outer, begin, end, kind):
        """A part of a ring around (x, y), between two angles in degrees, clockwise from the top."""
        fill, edge = COLOURS[kind]

        def at(radius, angle):
            return f"{x + radius * math.sin(math.radians(angle)):.1f} {y - radius * math.cos(math.radians(angle)):.1f}"

        large = int(end - begin > 180)
        self.parts.append(f'<path d="M {at(outer, begin)} A {outer} {outer} 0 {large} 1 {at(outer, end)} L {at(inner, end)} '
                          f'A {inner} {inner} 0 {large} 0 {at(inner, begin)} Z" fill="{fill}" stroke="{edge}"/>')

    def zoom(self, upper, lower):
        """Two dashed lines from the ends of a part, (left, right, y), to those of its enlargement."""
        self.line([(upper[0], upper[2]), (lower[0], lower[2])], dashed=True)
        self.line([(upper[1], upper[2]), (lower[1], lower[2])], dashed=True)

    def svg(self):
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>', *self.parts, *self.words, "</svg>", ""])
