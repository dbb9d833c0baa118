"""Plots of lines as SVG, in the colour of the text around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .html import Svg, escaped

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of the lines, which readers with colour blindness can tell apart (Okabe & Ito 2008)."""
_WIDTH, _HEIGHT, _LEFT, _TOP, _LINE = 360, 260, 52, 12, 18  # pixels; of the area inside the axes


def plot_svg(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    low: float = 0.0,
    diagonal: bool = False,
) -> Svg:
    """Draw lines with a point at each (x, y), and their names below.

    x, y: the names of the axes. low: where the axes begin, unless a value is less.
    diagonal: whether to draw the line on which x and y are equal.
    """
    values = [point for points in lines.values() for point in points] or [(0.0, 0.0)]
    lows = [min(low, *(point[axis] for point in values)) for axis in (0, 1)]
    highs = [max(1.0, *(point[axis] for point in values)) for axis in (0, 1)]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        a, b = ((v - s) / (t - s) for v, s, t in zip(point, lows, highs, strict=True))
        return round(_LEFT + a * _WIDTH, 1), round(_TOP + (1 - b) * _HEIGHT, 1)

    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    parts = [f'<path d="M{_LEFT},{_TOP}V{bottom}H{right}"/>']
    turned = f' transform="translate(13 {_TOP + _HEIGHT / 2}) rotate(-90)"'
    texts = [_text(_LEFT + _WIDTH / 2, bottom + 38, x), _text(0, 0, y, more=turned)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        a, b = (s + share * (t - s) for s, t in zip(lows, highs, strict=True))
        column, row = place((a, b))
        parts.append(
            f'<path d="M{_LEFT},{row}H{right}M{column},{bottom}v4" stroke-opacity="0.25"/>'
        )
        texts += [
            _text(column, bottom + 17, f"{a:.4g}"),
            _text(_LEFT - 6, row + 4, f"{b:.3g}", "end"),
        ]
    if diagonal:
        (a, b), (c, d) = place((lows[0], lows[0])), place((highs[0], highs[0]))
        parts.append(f'<path d="M{a},{b}L{c},{d}" stroke-dasharray="4 4"/>')
    row = bottom + 38
    for number, (name, points) in enumerate(lines.items()):
        color, row = COLORS[number % len(COLORS)], row + _LINE
        path = " ".join(f"{a},{b}" for a, b in map(place, points))
        parts.append(f'<polyline points="{path}" stroke="{color}" stroke-width="2"/>')
        if len(points) <= 20:
            dots = "".join(f"M{a},{b}h0" for a, b in map(place, points))
            parts.append(
                f'<path d="{dots}" stroke="{color}" stroke-width="7" stroke-linecap="round"/>'
            )
        parts.append(f'<path d="M{_LEFT},{row - 4}h22" stroke="{color}" stroke-width="3"/>')
        texts.append(_text(_LEFT + 30, row, name, "start"))
    width, height = right + 16, row + 8
    name = escaped(f"{y} by {x}: {', '.join(lines)}")
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f"<title>{name}</title>\n"
        + '<g fill="none" stroke="currentColor">'
        + "\n".join(parts)
        + '</g>\n<g fill="currentColor" font-family="sans-serif" font-size="12">'
        + "\n".join(texts)
        + "</g>\n</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{escaped(text)}</text>'
