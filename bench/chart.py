"""Line charts as SVG: panels side by side, both axes logarithmic, each line labeled at its end. No library."""
import html
import math

COLORS = {"hone": "#0a7d5a", "TRL": "#b3472a", "limit": "#767676"}
OTHER = "#444444"
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 430, 330, 58, 50, 52, 62  # of a panel


def ticks(low, high):
    """1, 2 and 5 times powers of ten within [low, high]."""
    return [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
            if low * 0.999 <= m * 10.0**e <= high * 1.001]


def text(x, y, words, size=11, anchor="middle", color="#333333", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}" font-weight="{weight}">'
            f"{html.escape(str(words))}</text>")


def short(value):
    return f"{value:g}"


def panel(left, title, lines, low, high):
    """`lines`: name -> [(x, y)]; y from `low` to `high`."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    span = math.log(xs[-1] / xs[0]) or 1
    at_x = lambda x: left + LEFT + width * math.log(x / xs[0]) / span
    at_y = lambda y: TOP + height * (1 - math.log(y / low) / math.log(high / low))
    out = [text(left + LEFT + width / 2, HEIGHT - 10, title)]
    for y in ticks(low, high):
        out.append(f'<line x1="{left + LEFT}" x2="{left + LEFT + width}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#e4e4e4"/>')
        out.append(text(left + LEFT - 7, at_y(y) + 4, short(y), anchor="end"))
    for x in xs:
        out.append(text(at_x(x), TOP + height + 18, short(x)))
    for name, points in lines.items():
        if not points:
            continue
        color = COLORS.get(name, OTHER)
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if name == "limit" else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
        if name != "limit":
            out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3.2" fill="{color}"/>' for x, y in points]
        out.append(text(at_x(points[-1][0]) + 8, at_y(points[-1][1]) + 4, name, anchor="start", color=color, weight="bold"))
    return out


def chart(title, panels):
    """`panels`: [{"title": under the x axis, "lines": {name: [(x, y)]}}]; one y axis for all."""
    ys = [y for one in panels for points in one["lines"].values() for _, y in points]
    low, high = min(ys) / 1.25, max(ys) * 1.25
    width = WIDTH * len(panels)
    body = [text(width / 2, 26, title, size=14, weight="bold")]
    for number, one in enumerate(panels):
        body += panel(number * WIDTH, one["title"], one["lines"], low, high)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" font-family="sans-serif">'
            f'<rect width="100%" height="100%" fill="white"/>' + "".join(body) + "</svg>\n")


def bars(title, groups, unit):
    """Groups of bars below each other: [(name of the group, [(name of the bar, value)])], each bar with its value at the end."""
    row, gap, left, width = 20, 12, 150, 620
    largest = max(value for _, entries in groups for _, value in entries)
    body, y = [text(width / 2, 26, title, size=14, weight="bold")], 46
    for group, entries in groups:
        body.append(text(left - 52, y + row * len(entries) / 2 + 4, group, anchor="end", weight="bold"))
        for name, value in entries:
            color, length = COLORS.get(name, OTHER), max(2, (width - left - 110) * value / largest)
            body.append(text(left - 6, y + 14, name, anchor="end", color=color))
            body.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{row - 6}" fill="{color}"/>')
            body.append(text(left + length + 6, y + 14, f"{value:.0f} {unit}", anchor="start"))
            y += row
        y += gap
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 6}" width="{width}" height="{y + 6}" font-family="sans-serif">'
            f'<rect width="100%" height="100%" fill="white"/>' + "".join(body) + "</svg>\n")
