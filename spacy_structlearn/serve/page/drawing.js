// Draws a sentence: its tree above tags and words, and rows of chunks and roles below them. Each of
// them is an item: {kind, start, end, ...} over the words, with its element `el`.

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const FONTS = { label: `600 15px ${FAMILY}`, word: `15px ${FAMILY}`, small: `11.5px ${FAMILY}` };
const [GAP, LEVEL, TOP, ROW, HEAD] = [16, 44, 24, 30, 58]; // pixels
const COLORS = { V: "#D55E00", ARG0: "#56B4E9", ARG1: "#009E73", ARG2: "#E69F00", ARG3: "#CC79A7",
  ARG4: "#B39DDB", ARGM: "#AAAAAA" }; // those of `structlearn render`
const pen = document.createElement("canvas").getContext("2d");

function width(text, font) {
  pen.font = FONTS[font];
  return Math.ceil(pen.measureText(text).width);
}

export function make(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function isRightToLeft(words) {
  const letter = words.join(" ").match(/\p{L}/u)?.[0] ?? "";
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/.test(letter);
}

export const figure = (p) => p.toFixed(2).replace(/^0/, "");

export function spanText(start, end) {
  return end - start === 1 ? `word ${start + 1}` : `words ${start + 1} to ${end}`;
}

// The items of the tree in pre-order.
function structure({ words, tags, brackets, probs }) {
  const items = [];
  const open = [{ kind: "root", end: words.length, children: [] }];
  const add = (item) => {
    item.parent = open.at(-1);
    item.parent.children.push(item);
    items.push(item);
    return item;
  };
  let next = 0;
  words.forEach((word, start) => {
    while (open.length > 1 && open.at(-1).end <= start) open.pop();
    for (; next < brackets.length && brackets[next][1] <= start; next++) {
      const [label, , end] = brackets[next];
      const prob = probs[next] ?? null;
      open.push(add({ kind: "phrase", label, start, end, prob, children: [], depth: open.length }));
    }
    add({ kind: "word", label: tags[start] ?? "", word, start, end: start + 1, children: [], depth: open.length });
  });
  return items;
}

// As `display.trees` lays it out: levels from below, a parent in the middle of its children.
function layOut(items, left) {
  const outer = new Map();
  for (const item of items.toReversed()) {
    const { children } = item;
    item.level = children.length ? 1 + Math.max(...children.map((child) => child.level)) : 0;
    item.own = Math.max(width(item.label, item.word === undefined ? "label" : "small"),
      width(item.word ?? "", "word"), 20);
    item.inner = children.reduce((sum, child) => sum + outer.get(child), 0);
    outer.set(item, Math.max(item.own + GAP, item.inner));
  }
  let right = left;
  for (const item of items) {
    if (item.parent.kind === "root") right = (item.left = right) + outer.get(item);
    let at = item.left + (outer.get(item) - item.inner) / 2;
    for (const child of item.children) {
      child.left = at;
      at += outer.get(child);
    }
    item.width = outer.get(item);
  }
  for (const item of items.toReversed()) {
    const [first, last] = [item.children[0], item.children.at(-1)];
    item.x = first ? (first.x + last.x) / 2 : item.left + item.width / 2;
  }
  return right;
}

// Returns the items. asked: of "label start end", brackets that the annotator asked for. known: a
// set of the same kind; other brackets are marked. still: whether nothing can be selected.
export function draw(svg, sentence, { asked = new Set(), known = null, still = false } = {}) {
  const { words, chunks = [], frames = [] } = sentence;
  const items = structure(sentence);
  const hasRows = chunks.length + frames.length > 0;
  const right = layOut(items, hasRows && !still ? HEAD : 6) + 6;
  const top = Math.max(...items.map((item) => item.level));
  const flip = isRightToLeft(words) ? (x) => right - x : (x) => x;
  const y = (level) => TOP + (top - level) * LEVEL;
  const leaves = items.filter((item) => item.kind === "word");
  const [lines, marks] = [make("g", { class: "lines" }), []];

  const place = (item, x, at, w, h, fill) => {
    const box = make("rect", { class: "hit", x: flip(x + w / 2) - w / 2, y: at, width: w, height: h, rx: 6 });
    if (fill) box.setAttribute("fill", fill);
    item.el = make("g", { class: `item ${item.kind}` }, box);
    if (still) return;
    for (const [key, value] of Object.entries({ role: "treeitem", tabindex: -1, "aria-level": item.depth,
      "aria-selected": false, "aria-label": item.name })) item.el.setAttribute(key, value);
  };
  const write = (item, text, x, at, kind) =>
    item.el.append(make("text", { class: kind, x: flip(x), y: at }, text));

  for (const item of items) {
    const { label, start, end, prob, x } = item;
    const at = y(item.level);
    if (item.kind === "word") {
      item.name = `${item.word}, tag ${label || "none"}, word ${start + 1}`;
      place(item, x - item.own / 2 - 5, at - 15, item.own + 10, 42);
      write(item, label, x, at, "tag");
      write(item, item.word, x, at + 20, "word");
      continue;
    }
    const key = `${label} ${start} ${end}`;
    item.name = `${label}, ${spanText(start, end)}`
      + (prob === null ? "" : `, probability ${figure(prob)}`) + (asked.has(key) ? ", as you said" : "");
    place(item, x - item.own / 2 - 6, at - 16, item.own + 12, prob === null ? 22 : 33);
    if (asked.has(key)) item.el.classList.add("asked");
    else if (prob !== null && prob < 0.9) item.el.classList.add(prob < 0.6 ? "unsure" : "doubt");
    if (known && !known.has(key)) item.el.classList.add("new");
    write(item, label, x, at, "label");
    if (prob !== null) write(item, figure(prob), x, at + 13, "small");
    const from = at + (prob === null ? 8 : 18);
    const bar = y(item.level - 1) - 19;
    const ends = item.children.map((child) => [flip(child.x), y(child.level) - 16]);
    const path = ends.length === 1 ? [`M${flip(x)},${from}V${ends[0][1]}`]
      : [`M${flip(x)},${from}V${bar}M${ends[0][0]},${bar}H${ends.at(-1)[0]}`,
        ...ends.map(([column, to]) => `M${column},${bar}V${to}`)];
    lines.append(make("path", { d: path.join("") }));
  }

  // Frames that do not overlap share a row.
  let bottom = y(0) + 38;
  const rowsOf = (name, groups) => {
    const rows = [];
    for (const group of groups) {
      const [from, to] = [Math.min(...group.map((box) => box.start)), Math.max(...group.map((box) => box.end))];
      const row = rows.find((own) => own.every(([start, end]) => to <= start || end <= from));
      if (row) row.push([from, to, group]);
      else rows.push([[from, to, group]]);
    }
    rows.forEach((row, i) => {
      if (!i) marks.push(make("text", { class: "small head", x: flip(HEAD / 2), y: bottom + 16 }, name));
      for (const [from, to, group] of row) {
        const ends = [leaves[from].left + 4, leaves[to - 1].left + leaves[to - 1].width - 4].map(flip);
        if (group.length > 1) lines.append(make("path", { d: `M${ends[0]},${bottom + 11}H${ends[1]}` }));
        for (const box of group.sort((one, other) => one.start - other.start)) addBox(box);
      }
      bottom += ROW;
    });
  };
  const addBox = (box) => {
    const [first, last] = [leaves[box.start], leaves[box.end - 1]];
    const x = first.left + 3;
    const w = last.left + last.width - 3 - x;
    Object.assign(box, { row: bottom, depth: 1 });
    place(box, x, bottom, w, ROW - 7, COLORS[box.base] ?? COLORS.ARGM);
    const fits = width(box.label, "small") < w - 4;
    write(box, fits ? box.label : box.short ?? box.label.replace(/ARGM-|RG(?=\d)/, ""), x + w / 2, bottom + 16, "small");
    box.el.append(make("title", {}, box.name));
    items.push(box);
  };
  if (!still) {
    rowsOf("chunks", chunks.map(([start, end]) =>
      [{ kind: "chunk", label: "NP", base: "ARG0", start, end, name: `chunk, ${spanText(start, end)}` }]));
    rowsOf("roles", frames.map(([verb, roleset, roles]) => [
      ...roles.map(([label, start, end]) => ({ kind: "role", label, predicate: verb, start, end,
        base: label.replace(/^[RC]-/, "").split("-")[0], name: `${label} of ${words[verb]}, ${spanText(start, end)}` })),
      { kind: "predicate", label: roleset || "V", short: roleset?.split(".").pop(), base: "V", predicate: verb,
        start: verb, end: verb + 1, name: `predicate ${words[verb]}, ${roleset || "without a roleset"}` },
    ]));
  }
  svg.setAttribute("viewBox", `0 0 ${right} ${bottom}`);
  svg.setAttribute("width", right);
  svg.setAttribute("height", bottom);
  svg.style.minWidth = `${(still ? 0.65 : 0.8) * right}px`;
  svg.style.maxWidth = `${right}px`;
  svg.replaceChildren(lines, ...marks, ...items.map((item) => item.el));
  return items;
}
