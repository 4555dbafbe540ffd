#!/usr/bin/python3
"""Draws docs/architecture.svg, the picture of the house, from the includes of its files.

    architecture.py              write the picture
    architecture.py --check      compare the picture and docs/architecture.md with the tree
    architecture.py --list       print every arrow between rooms with its number of includes
    architecture.py --self-test  plant one fault of each kind and demand that it is found

A room is a folder that holds C++ files; ROOMS says which folders count as one room. Room A has an arrow to room B
where a file of A includes a file of B. Rooms stand on floors, so that every arrow points down. The picture shows each
room's size, rounded; the check allows a size to drift, so that small edits do not change the picture.
"""

import itertools
import math
import os
import posixpath
import re
import sys
from typing import NamedTuple
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True  # importing the rules leaves no __pycache__ in tests/
ROOT = posixpath.dirname(posixpath.dirname(posixpath.abspath(__file__)))
sys.path.insert(0, posixpath.join(ROOT, "tests"))
import house_rules_test as house

PICTURE = "docs/architecture.svg"
DOCUMENT = "docs/architecture.md"
COMMAND = "tools/architecture.py"

# ---- The rooms: path -> (kind, what it is for) ----

DEVICE, PURE, HOST = "device", "pure", "host"
ROOMS = {
    "proto": (DEVICE, "the messages"),
    "runtime/base": (DEVICE, "limits, arena, arithmetic"),
    "host": (HOST, "signals, files, tables"),
    "runtime/manifold": (DEVICE, "one file a manifold"),
    "runtime/problem": (DEVICE, "one file a loss"),
    "runtime/training": (DEVICE, "estimators and solvers"),
    "runtime/wire": (DEVICE, "codec, frames, identity"),
    "runtime/link": (DEVICE, "the client, TLS, its port"),
    "include": (DEVICE, "what applications include"),
    "firmware": (DEVICE, "the client's image"),
    "boards": (DEVICE, "a folder a port"),
    "server/base": (HOST, "text, files, log, Asio"),
    "server/run": (PURE, "a run's keys and policies"),
    "server/rules": (PURE, "the fold, one file a rule"),
    "server/journal": (PURE, "records, what a store is"),
    "server/coordinator": (PURE, "the deciding machine"),
    "server/engine": (PURE, "what several nodes share"),
    "server/postgresql": (HOST, "an engine, by libpq"),
    "server/store": (HOST, "SQLite and its thread"),
    "server/link": (HOST, "TLS sessions of devices"),
    "server/watch": (HOST, "HTTP and the web page"),
    "server/program": (HOST, "the verbs and the shell"),
    "server/cluster": (HOST, "an engine's verbs"),
    "sim": (HOST, "a fleet in virtual time"),
    "experiments": (HOST, "papers, reproduced"),
    "bench": (HOST, "speeds and budgets"),
    "python": (HOST, "devices in Python"),
    "examples": (DEVICE, "an application each"),
}
SERVER = "server"  # the one box that stands for all rooms of server/ in the picture of the whole house
SPLIT_FOLDERS = ("runtime", SERVER)  # each folder inside is a room; any other folder is one room with all inside it
NO_ROOMS = ("tests", "cmake", "docs", "tools", "operations")  # includes of and by these files are not drawn

# A size in the picture may be wrong by this many lines or by this share of the room before it must be drawn anew.
SIZE_SLACK_LINES = 300
SIZE_SLACK_SHARE = 0.2


class Include(NamedTuple):
    path: str
    line: int
    header: str

    def __str__(self):
        return f"{self.path}:{self.line} includes {self.header}"


def room_at(path: str) -> str:
    """The room that a file belongs to, or '' where it is in none."""
    parts = path.split("/")
    if len(parts) < 2 or parts[0] in NO_ROOMS:
        return ""
    return "/".join(parts[:2]) if parts[0] in SPLIT_FOLDERS and len(parts) > 2 else parts[0]


class Graph:
    """sizes: room -> lines of C++. arrows: (from, to) -> includes."""

    def __init__(self, tree: house.Tree):
        self.sizes, self.arrows = {}, {}
        for path in tree.select():
            room = room_at(path)
            if not room:
                continue
            self.sizes[room] = self.sizes.get(room, 0) + tree.files[path].count("\n")
            for line, header, quoted in tree.includes(path):
                other = room_at(header) if quoted and (header in tree.files or house.is_generated(header)) else ""
                if other and other != room:
                    self.arrows.setdefault((room, other), []).append(Include(path, line, header))
        for path in tree.select("proto/", ends=(".proto",)):
            self.sizes["proto"] = self.sizes.get("proto", 0) + tree.files[path].count("\n")


# ---- Faults of the graph ----

def find_circle(arrows) -> list:
    """The rooms of a shortest circle, the first one again at the end; empty where there is none."""
    below = {}
    for upper, lower in sorted(arrows):
        below.setdefault(upper, []).append(lower)
    best = []
    for start in sorted(below):
        trails = [[start]]
        seen = set()
        while trails and not (best and len(trails[0]) >= len(best)):
            trail = trails.pop(0)
            for room in below.get(trail[-1], []):
                if room == start:
                    best = trail + [start]
                    trails = []
                    break
                if room not in seen:
                    seen.add(room)
                    trails.append(trail + [room])
    return best


def excused_includes(tree: house.Tree) -> set:
    found = re.findall(r"^include_arrow (\S+) (\S+) # ", tree.files.get(house.ALLOW_FILE, ""), re.M)
    return set(found)


def is_forbidden(include: Include) -> bool:
    """Whether the house's table of arrows forbids the include. The simulator may see the pure rooms of the server."""
    rules = house.room_of(include.path)
    if not rules or house.is_generated(include.header) or include.header.startswith(tuple(house.ARROWS[rules])):
        return False
    return not (rules == "sim/" and ROOMS.get(room_at(include.header), ("",))[0] == PURE)


def graph_faults(tree: house.Tree, graph: Graph) -> list:
    faults = [f"{room}/ is a room without a line in ROOMS of {COMMAND}"
              for room in sorted(set(graph.sizes) - set(ROOMS))]
    faults += [f"ROOMS of {COMMAND} describes {room}/, which holds no C++ file"
               for room in sorted(set(ROOMS) - set(graph.sizes))]
    circle = find_circle(graph.arrows)
    if circle:
        steps = [f"{graph.arrows[step][0]}" for step in zip(circle, circle[1:])]
        faults.append(f"rooms in a circle, {' -> '.join(circle)}: {'; '.join(steps)}")
    excused = excused_includes(tree)
    for includes in graph.arrows.values():
        faults += [f"an arrow that ARROWS of tests/house_rules_test.py forbids: {include}"
                   for include in includes if is_forbidden(include) and (include.path, include.header) not in excused]
    return faults


# ---- Floors ----

def reduce_arrows(arrows) -> list:
    """The arrows that no longer path explains."""
    below = {}
    for upper, lower in arrows:
        below.setdefault(upper, set()).add(lower)

    def reach(room: str, target: str, is_first: bool) -> bool:
        return any((lower == target and not is_first) or (lower != target and reach(lower, target, False))
                   for lower in below.get(room, ()))
    return sorted((upper, lower) for upper, lower in arrows if not reach(upper, lower, True))


def floors_of(rooms: list, arrows: list) -> dict:
    """room -> floor. A room stands one above the highest that it rests on; where that shortens the arrows, higher."""
    floor = {}

    def place(room: str) -> int:
        if room not in floor:
            floor[room] = 1 + max((place(lower) for upper, lower in arrows if upper == room), default=-1)
        return floor[room]
    for room in rooms:
        place(room)
    for room in sorted(rooms, key=lambda r: (-floor[r], r)):
        above = [floor[upper] for upper, lower in arrows if lower == room]
        below = [floor[lower] for upper, lower in arrows if upper == room]
        if above and len(above) > len(below):
            floor[room] = min(above) - 1
    return floor


# ---- Layout: orders without crossings, then places ----

ROOM_WIDTH, ROOM_HEIGHT, PITCH, GAP, BEND_WIDTH = 168, 52, 84, 12, 8
START_COUNT, ORDERED_WHOLE_MAX = 12, 6


class Node:
    """A room, or a bend of an arrow that passes a floor (room is '')."""

    def __init__(self, room: str, floor: int):
        self.room, self.floor, self.x = room, floor, 0.0
        self.width = ROOM_WIDTH if room else BEND_WIDTH
        self.above, self.below = [], []


def build_layers(rooms: list, arrows: list) -> tuple:
    """(layers of nodes from the lowest floor up, routes: for each arrow its nodes from top to bottom)."""
    floor = floors_of(rooms, arrows)
    layers = [[] for _ in range(max(floor.values()) + 1)]
    nodes = {}
    for room in sorted(rooms):
        nodes[room] = Node(room, floor[room])
        layers[floor[room]].append(nodes[room])
    routes = []
    for upper, lower in arrows:
        route = [nodes[upper]]
        for level in range(floor[upper] - 1, floor[lower], -1):
            route.append(Node("", level))
            layers[level].append(route[-1])
        route.append(nodes[lower])
        for high, low in zip(route, route[1:]):
            high.below.append(low)
            low.above.append(high)
        routes.append(route)
    return layers, routes


def crossings(layers: list) -> int:
    count = 0
    for layer in layers:
        place = {id(node): i for i, node in enumerate(layer)}
        upper = layers[layers.index(layer) + 1] if layer is not layers[-1] else []
        lines = [(i, place[id(low)]) for i, node in enumerate(upper) for low in node.below]
        count += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in itertools.combinations(lines, 2))
    return count


def spread(layers: list) -> int:
    """How far arrows lead sideways, with every floor in the middle; a number without a fraction, so that equal is
    equal."""
    where = {}
    for layer in layers:
        left = -sum(node.width + GAP for node in layer)
        for node in layer:
            where[id(node)] = left + node.width + GAP
            left += 2 * (node.width + GAP)
    return sum(abs(where[id(node)] - where[id(low)]) for layer in layers for node in layer for low in node.below)


def orders_of(layer: list):
    """Every order of a floor; of a wide one those that move one node."""
    if len(layer) <= ORDERED_WHOLE_MAX:
        return itertools.permutations(layer)
    rest = [(layer[:i] + layer[i + 1:], layer[i]) for i in range(len(layer))]
    return [others[:j] + [node] + others[j:] for others, node in rest for j in range(len(layer))]


def improve_order(layers: list) -> tuple:
    """Permutes floor by floor until that saves neither a crossing nor a way; returns the cost that is left."""
    best = (crossings(layers), spread(layers))
    improved = True
    while improved:
        improved = False
        for level, layer in enumerate(layers):
            for order in orders_of(layer):
                layers[level] = list(order)
                cost = (crossings(layers), spread(layers))
                if cost < best:
                    best, layer, improved = cost, list(order), True
            layers[level] = layer
    return best


def order_layers(layers: list):
    """The best of several starts, each a rotation of the floors that a fixed sequence chooses."""
    best, best_layers = (), []
    for start in range(START_COUNT):
        trial = [layer[start * level % len(layer):] + layer[:start * level % len(layer)]
                 for level, layer in enumerate(layers, 1)]
        cost = improve_order(trial)
        if not best or cost < best:
            best, best_layers = cost, trial
    layers[:] = best_layers


def place_apart(wanted: list, distances: list) -> list:
    """Places nearest to those wanted, in this order, with at least distances[i] from i to i + 1 (least squares)."""
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    blocks = []  # [sum of wanted places without offsets, count]: neighbours that touch move as one
    for place, offset in zip(wanted, offsets):
        blocks.append([place - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    means = [total / count for total, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets)]


def pull(layer: list, is_down: bool):
    """Moves a floor's nodes to the middle of what they are joined to above (is_down) or below."""
    wanted = []
    for node in layer:
        joined = (node.above or node.below) if is_down else (node.below or node.above)
        wanted.append(sum(other.x for other in joined) / len(joined) if joined else node.x)
    distances = [(a.width + b.width) / 2 + GAP for a, b in zip(layer, layer[1:])]
    for node, x in zip(layer, place_apart(wanted, distances)):
        node.x = x


def place_nodes(layers: list) -> float:
    """x of every node's middle: floor after floor below the middle of what leads to it, and above what it leads to.
    Returns the width of all."""
    for layer in layers:
        for i, node in enumerate(layer):
            node.x = 3.0 * ROOM_WIDTH * (i + 1) / (len(layer) + 1)
    for turn in range(24):
        for layer in reversed(layers) if turn % 2 == 0 else layers:
            pull(layer, turn % 2 == 0)
    widest = max(range(len(layers)), key=lambda level: len(layers[level]))  # has the least room to move: it stays
    for layer in layers[widest + 1:]:
        pull(layer, False)
    for layer in reversed(layers[:widest]):
        pull(layer, True)
    left = min(node.x - node.width / 2 for layer in layers for node in layer)
    right = max(node.x + node.width / 2 for layer in layers for node in layer)
    for node in itertools.chain(*layers):
        node.x -= left
    return right - left


# ---- The picture ----

STYLE = """
  text { font-family: "Helvetica Neue", Helvetica, Arial, sans-serif; font-size: 12px; fill: #3d4650; }
  .title { font-size: 17px; font-weight: 600; fill: #14181d; }
  .name { font-size: 13px; font-weight: 600; fill: #14181d; }
  .folder { font-weight: 400; fill: #66707b; }
  .quiet { font-size: 11px; fill: #66707b; }
  .page { fill: #ffffff; }
  .panel { fill: #f6f7f9; stroke: #dde1e6; }
  .room { stroke-width: 1.2; }
  .device { fill: #e3f1ec; stroke: #4f9b82; }
  .pure { fill: #e4ebf8; stroke: #5f82c4; }
  .host { fill: #fbf0df; stroke: #c1933f; }
  .server { fill: url(#both); stroke: #8a8a80; }
  .arrow { fill: none; stroke: #77818c; stroke-width: 1.3; }
  .head { fill: #77818c; stroke: none; }
  .pale-a { stop-color: #e4ebf8; } .pale-b { stop-color: #fbf0df; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b6bec8; }
    .title, .name { fill: #eef1f4; }
    .folder, .quiet { fill: #8d97a2; }
    .page { fill: #0f1317; }
    .panel { fill: #161b21; stroke: #2a313a; }
    .device { fill: #16302a; stroke: #4f9b82; }
    .pure { fill: #1b2a47; stroke: #5f82c4; }
    .host { fill: #35290f; stroke: #a57d35; }
    .arrow { stroke: #7d8792; }
    .head { fill: #7d8792; }
    .pale-a { stop-color: #1b2a47; } .pale-b { stop-color: #35290f; }
  }
"""
MARGIN, HEADER, PANEL_GAP, PORT_GAP, STRAIGHT = 12, 62, 12, 22, 8
GROUND_HEIGHT, GROUND_GAP, LEGEND_HEIGHT = 48, 28, 138


def number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{number(x)}" y="{number(y)}"{attributes}>{escape(words)}</text>'


def room_name(x: float, y: float, name: str) -> str:
    folder, slash, last = name.rpartition("/")
    before = f'<tspan class="folder">{folder}/</tspan>' if slash else ""
    return f'<text x="{number(x)}" y="{number(y)}" class="name">{before}{last}</text>'


def thousands(lines: int) -> str:
    return f"{lines / 1000:.1f}k"


def ports(node: Node, others: list, neighbours: list) -> dict:
    """Where the arrows to others touch the node's edge: id of the other -> x, each as near to straight as there is
    room."""
    if not node.room:
        return {id(other): node.x for other in others}
    reach = node.width / 2 - 18
    ordered = sorted(others, key=lambda other: (neighbours.index(other), other.x))
    wanted = [min(max(other.x, node.x - reach), node.x + reach) for other in ordered]
    gap = min(PORT_GAP, 2 * reach / max(1, len(ordered) - 1))
    places = place_apart(wanted, [gap] * (len(ordered) - 1))
    shift = max(0.0, node.x - reach - places[0]) - max(0.0, places[-1] - node.x - reach)
    return {id(other): place + shift for other, place in zip(ordered, places)}


class Panel:
    """Rooms on floors, in a frame of its own."""

    def __init__(self, rooms: list, arrows: list):
        self.pitch = PITCH
        self.arrows = reduce_arrows(arrows)
        self.layers, self.routes = build_layers(rooms, self.arrows)
        order_layers(self.layers)
        self.width = place_nodes(self.layers)

    def height(self) -> float:
        return (len(self.layers) - 1) * self.pitch + ROOM_HEIGHT

    def top(self, node: Node) -> float:
        return (len(self.layers) - 1 - node.floor) * self.pitch

    def arrow_paths(self, left: float, top: float) -> list:
        down, up = {}, {}
        for layer in self.layers:
            for node in layer:
                if node.below:
                    down[id(node)] = ports(node, node.below, self.layers[node.floor - 1])
                if node.above:
                    up[id(node)] = ports(node, node.above, self.layers[node.floor + 1])
        for upper, lower in [(node, low) for layer in self.layers for node in layer for low in node.below]:
            x0, x1 = down[id(upper)][id(lower)], up[id(lower)][id(upper)]
            if abs(x0 - x1) < STRAIGHT:
                down[id(upper)][id(lower)] = up[id(lower)][id(upper)] = (x0 + x1) / 2 if upper.room else x0
        lines = []
        for route in self.routes:
            x = left + down[id(route[0])][id(route[1])]
            path = f"M{number(x)} {number(top + self.top(route[0]) + ROOM_HEIGHT)}"
            for high, low in zip(route, route[1:]):
                x0, y0 = left + down[id(high)][id(low)], top + self.top(high) + ROOM_HEIGHT
                x1, y1 = left + up[id(low)][id(high)], top + self.top(low) - (7 if low.room else 0)
                middle = (y0 + y1) / 2
                path += f"C{number(x0)} {number(middle)} {number(x1)} {number(middle)} {number(x1)} {number(y1)}"
                if not low.room:
                    path += f"V{number(y1 + ROOM_HEIGHT)}"
            lines.append(f'<path class="arrow" d="{path}"/>')
            end_x, end_y = left + up[id(route[-1])][id(route[-2])], top + self.top(route[-1])
            lines.append(f'<path class="head" d="M{number(end_x)} {number(end_y - 0.5)}l-4.2 -8.5h8.4z"/>')
        return lines

    def room_boxes(self, left: float, top: float, sizes: dict, short: str) -> list:
        lines = []
        for node in itertools.chain(*reversed(self.layers)):
            if not node.room:
                continue
            kind, words = ROOMS.get(node.room, (SERVER, "its rooms: on the right"))
            x, y = left + node.x - node.width / 2, top + self.top(node)
            name = node.room.removeprefix(short)
            lines += [f'<g id="{node.room}" data-lines="{sizes[node.room]}">',
                      f'<rect class="room {kind}" x="{number(x)}" y="{number(y)}" width="{node.width}" '
                      f'height="{ROOM_HEIGHT}" rx="6"/>',
                      room_name(x + 10, y + 21, name),
                      text(x + node.width - 10, y + 21, thousands(sizes[node.room]), "quiet", "end"),
                      text(x + 10, y + 40, words), "</g>"]
        return lines


def house_panel(graph: Graph) -> Panel:
    def outer(room: str) -> str:
        return SERVER if room.startswith(SERVER + "/") else room
    rooms = sorted({outer(room) for room in graph.sizes})
    arrows = sorted({(outer(a), outer(b)) for a, b in graph.arrows if outer(a) != outer(b)})
    return Panel(rooms, arrows)


def server_panel(graph: Graph) -> Panel:
    rooms = sorted(room for room in graph.sizes if room.startswith(SERVER + "/"))
    return Panel(rooms, sorted(arrow for arrow in graph.arrows if set(arrow) <= set(rooms)))


LEGEND = [
    (DEVICE, "runs on a device: no heap, no exceptions, no RTTI"),
    (PURE, "pure: no socket, disk, thread or clock; what happened goes in, actions come out"),
    (HOST, "runs on a host and may use all of it"),
]
NOTES = [
    "An arrow points down: a file of the upper room includes one of the lower room.",
    "An arrow is left out where a longer path of arrows leads to the same room.",
    "1.2k: about 1,200 lines. tests/ mirrors these folders and may include all of them.",
]


def legend(left: float, top: float) -> list:
    lines = []
    for i, (kind, words) in enumerate(LEGEND):
        y = top + 24 * i
        lines += [f'<rect class="room {kind}" x="{number(left)}" y="{number(y)}" width="26" height="15" rx="4"/>',
                  text(left + 36, y + 12, words)]
    y = top + 24 * len(LEGEND) + 14
    return lines + [text(left, y + 18 * i, words, "quiet") for i, words in enumerate(NOTES)]


def ground(graph: Graph, left: float, top: float, width: float) -> list:
    """The bar that all of the server stands on: the rooms of the runtime that its files include."""
    used = sorted({b for a, b in graph.arrows if a.startswith(SERVER + "/") and b.startswith("runtime/")})
    names = ", ".join(room.removeprefix("runtime/") for room in used)
    return [f'<rect class="room {DEVICE}" x="{number(left)}" y="{number(top)}" width="{number(width)}" '
            f'height="{GROUND_HEIGHT}" rx="6"/>',
            f'<text x="{number(left + 12)}" y="{number(top + 19)}" class="name"><tspan class="folder">runtime/</tspan> '
            f"{names}</text>",
            text(left + 12, top + 37, "one copy of the mathematics and of the wire for both ends")]


def draw(graph: Graph, sizes: dict) -> str:
    left, right = house_panel(graph), server_panel(graph)
    sizes = {**sizes, SERVER: sum(lines for room, lines in sizes.items() if room.startswith(SERVER + "/"))}
    beneath = GROUND_HEIGHT + LEGEND_HEIGHT + 2 * GROUND_GAP
    pitch = (left.height() - beneath - ROOM_HEIGHT) // max(1, len(right.layers) - 1)
    right.pitch = min(max(PITCH, pitch), 1.25 * PITCH)
    inner = max(left.height(), right.height() + beneath)
    height = inner + HEADER + 3 * MARGIN
    left_x, right_x = 2 * MARGIN, 4 * MARGIN + left.width + PANEL_GAP
    width = math.ceil(right_x + right.width + 2 * MARGIN)
    top = MARGIN + HEADER
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" aria-labelledby="title desc">',
        '<title id="title">gradstream: the rooms of the house and what rests on what</title>',
        '<desc id="desc">Rooms on floors; each arrow points down, to a room whose files the upper room includes. '
        'docs/architecture.md says the same as a table.</desc>',
        f"<!-- Made by {COMMAND} from the include graph. -->",
        f"<style>{STYLE}</style>",
        '<defs><linearGradient id="both"><stop class="pale-a" offset="0.3"/><stop class="pale-b" offset="0.7"/>'
        "</linearGradient></defs>",
        f'<rect class="page" width="{number(width)}" height="{number(height)}"/>']
    for x, panel, title, words in (
            (left_x, left, "The whole house", "runtime/ is the device library; everything else rests on it"),
            (right_x, right, "server/ in detail", "the pure rooms decide; the others talk, store and show")):
        lines += [f'<rect class="panel" x="{number(x - MARGIN)}" y="{MARGIN}" rx="10" '
                  f'width="{number(panel.width + 2 * MARGIN)}" height="{number(height - 2 * MARGIN)}"/>',
                  text(x, MARGIN + 27, title, "title"), text(x, MARGIN + 45, words, "quiet")]
        lines += panel.arrow_paths(x, top)
        lines += panel.room_boxes(x, top, sizes, SERVER + "/" if panel is right else "")
    ground_top = top + right.height() + GROUND_GAP
    lines += ground(graph, right_x, ground_top, right.width)
    lines += legend(right_x, ground_top + GROUND_HEIGHT + GROUND_GAP)
    return "\n".join(lines) + "\n</svg>\n"


def drawn_sizes(picture: str) -> dict:
    return {room: int(lines) for room, lines in re.findall(r'<g id="([\w/]+)" data-lines="(\d+)">', picture)
            if room != SERVER}


def rounded(lines: int) -> int:
    return max(100, (lines + 50) // 100 * 100)


def picture_faults(graph: Graph, picture: str) -> list:
    """The picture must be the one of this graph, with sizes that are still about right."""
    sizes = {room: rounded(lines) for room, lines in graph.sizes.items()}
    for room, lines in drawn_sizes(picture).items():
        slack = max(SIZE_SLACK_LINES, SIZE_SLACK_SHARE * graph.sizes.get(room, 0))
        if room in sizes and abs(lines - graph.sizes[room]) <= slack:
            sizes[room] = lines
    if draw(graph, sizes) == picture:
        return []
    return [f"{PICTURE} is not the picture of this tree: run {COMMAND}, and read {DOCUMENT} again"]


# ---- The document: what it names must be there ----

FILE = re.compile(r"[\w.-]+(/[\w.-]+)+\.(h|cc|c|py|toml|txt|proto|options|md|svg|cmake)$")
FUNCTION = re.compile(r"(?:\w+::)*~?\w+\(\)$")


def wanted_call(path: str, function: str) -> str:
    """A header declares a member without its class."""
    name = function.removesuffix("()")
    return rf"\b{re.escape(name.split('::')[-1] if path.endswith('.h') else name)}\("


def document_faults(tree: house.Tree, graph: Graph) -> list:
    """Every path in backticks exists, every function() behind one occurs in that file, every room and every house rule
    has its row, and no row is of another."""
    document = tree.files.get(DOCUMENT)
    if document is None:
        return [f"{DOCUMENT} is missing"]
    folders = {posixpath.dirname(path) for path in tree.files}
    faults = []
    for line, words in enumerate(document.split("\n"), 1):
        path = ""
        for span in re.findall(r"`([^`]+)`", words):
            function = FUNCTION.match(span)
            if FILE.match(span):
                path = span
                if path not in tree.files:
                    faults.append(f"{DOCUMENT}:{line}: there is no {path}")
            elif re.match(r"[\w-]+(/[\w-]+)*/$", span):
                if not any(folder + "/" == span or folder.startswith(span) for folder in folders):
                    faults.append(f"{DOCUMENT}:{line}: there is no folder {span}")
            elif function and not path:
                faults.append(f"{DOCUMENT}:{line}: {span} stands behind no file")
            elif function and path in tree.files and not re.search(wanted_call(path, span), tree.files[path]):
                faults.append(f"{DOCUMENT}:{line}: {path} has no {span}")
    rows = set(re.findall(r"^\| `([\w/]+)` \|", document, re.M))
    wanted = {room + "/" for room in graph.sizes} | {rule for rule, *_ in house.PLANTED}
    faults += [f"{DOCUMENT}: no table has a row that begins with | `{name}` |" for name in sorted(wanted - rows)]
    faults += [f"{DOCUMENT}: the row `{name}` is of no room and of no house rule" for name in sorted(rows - wanted)]
    return faults


# ---- The script's own test ----

GOOD = {"runtime/base/a.h": "", "runtime/wire/w.h": '#include "runtime/base/a.h"\n',
        "server/run/r.h": '#include "runtime/base/a.h"\n', "server/coordinator/c.h": '#include "server/run/r.h"\n',
        "sim/s.cc": '#include "server/coordinator/c.h"\n', "runtime/link/l.h": "",
        "server/coordinator/c.cc": '#include "runtime/link/l.h"\n',
        house.ALLOW_FILE: "include_arrow server/coordinator/c.cc runtime/link/l.h # why\n"}
GOOD_DOCUMENT = "".join(f"| `{name}` |\n" for name in (
    "runtime/base/", "runtime/wire/", "runtime/link/", "server/run/", "server/coordinator/", "sim/",
    *sorted({rule for rule, *_ in house.PLANTED})))
# (a part of the fault's text, files to add or to replace)
PLANTED = [
    ("attic/ is a room without a line", {"attic/a.cc": "\n"}),
    ("server/attic/ is a room without a line", {"server/attic/a.cc": "\n"}),
    ("server/run -> server/coordinator -> server/run: server/run/r.h:1 includes server/coordinator/c.h; "
     "server/coordinator/c.h:1 includes", {"server/run/r.h": '#include "server/coordinator/c.h"\n'}),
    ("forbids: runtime/base/a.h:1 includes runtime/wire/w.h", {
        "runtime/base/a.h": '#include "runtime/wire/w.h"\n', "runtime/wire/w.h": ""}),
    ("forbids: server/coordinator/c.cc:1 includes runtime/link/l.h", {house.ALLOW_FILE: ""}),
    ("forbids: sim/s.cc:1 includes server/link/l.h", {"sim/s.cc": '#include "server/link/l.h"\n',
                                                      "server/link/l.h": ""}),
    (f"{PICTURE} is not the picture", {"sim/s.cc": '#include "runtime/base/a.h"\n'}),
    (f"{PICTURE} is not the picture", {"runtime/base/a.h": "\n" * 401}),
    ("there is no sim/t.cc", {DOCUMENT: GOOD_DOCUMENT + "`sim/t.cc`\n"}),
    ("there is no folder simulator/", {DOCUMENT: GOOD_DOCUMENT + "`simulator/`\n"}),
    ("sim/s.cc has no Sim::run()", {DOCUMENT: GOOD_DOCUMENT + "`sim/s.cc` `Sim::run()`\n"}),
    ("run() stands behind no file", {DOCUMENT: GOOD_DOCUMENT + "`run()` `sim/s.cc`\n"}),
    ("has a row that begins with | `sim/` |", {DOCUMENT: GOOD_DOCUMENT.replace("| `sim/` |\n", "")}),
    ("has a row that begins with | `nanopb` |", {DOCUMENT: GOOD_DOCUMENT.replace("| `nanopb` |\n", "")}),
    ("the row `attic/` is of no room", {DOCUMENT: GOOD_DOCUMENT + "| `attic/` |\n"}),
]
NOT_PLANTED = [
    {},
    {"runtime/base/a.h": "\n" * 300},
    {"tests/t.cc": '#include "sim/s.cc"\n'},
    {"sim/s.cc": '#include "server/coordinator/c.h"\n#include "server/coordinator/c.h"\n'},
]


def self_test() -> int:
    global ROOMS
    every_room = ROOMS
    ROOMS = {room: every_room[room] for room in sorted({room_at(path) for path in GOOD} - {""})}
    graph = Graph(house.Tree(GOOD))
    good = {**GOOD, PICTURE: draw(graph, {room: rounded(lines) for room, lines in graph.sizes.items()}),
            DOCUMENT: GOOD_DOCUMENT}
    failures = 0
    for part, files in PLANTED:
        found = check(house.Tree({**good, **files}))
        if not any(part in fault for fault in found):
            print(f"not found: '{part}' planted in {', '.join(files)}; found {found}")
            failures += 1
    for files in NOT_PLANTED:
        for fault in check(house.Tree({**good, **files})):
            print(f"found in a clean tree: {fault}")
            failures += 1
    ROOMS = {**ROOMS, "cellar": (HOST, "empty")}
    if not any("describes cellar/, which holds no" in fault for fault in check(house.Tree(good))):
        print("not found: a description without a room")
        failures += 1
    ROOMS = every_room
    print(f"{len(PLANTED) + 1} planted faults, {len(NOT_PLANTED)} clean trees, {failures} failures")
    return 1 if failures else 0


def check(tree: house.Tree) -> list:
    graph = Graph(tree)
    faults = graph_faults(tree, graph)
    # Without floors there is no picture to compare.
    faults += [] if faults else picture_faults(graph, tree.files.get(PICTURE, ""))
    return faults + document_faults(tree, graph)


def main() -> int:
    option = sys.argv[1:]
    if option == ["--self-test"]:
        return self_test()
    tree = house.Tree.read(ROOT)
    graph = Graph(tree)
    if option == ["--check"]:
        faults = check(tree)
    elif option == ["--list"]:
        for (upper, lower), includes in sorted(graph.arrows.items()):
            print(f"{upper} -> {lower} {len(includes)}")
        return 0
    elif option:
        print(f"unknown option {' '.join(option)} (known: --check, --list, --self-test)", file=sys.stderr)
        return 2
    else:
        faults = graph_faults(tree, graph)
        if not faults:
            with open(os.path.join(ROOT, PICTURE), "w", encoding="utf-8") as file:
                file.write(draw(graph, {room: rounded(lines) for room, lines in graph.sizes.items()}))
    for fault in faults:
        print(fault)
    drawn = len(graph.arrows)
    print(f"{len(graph.sizes)} rooms, {drawn} arrows between them, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
