// The page of `structlearn annotate`: shows a sentence, and sends what is done to it. The server
// keeps everything, so the page can be loaded again at any time.

import { draw, figure, isRightToLeft, make, spanText } from "./drawing.js";

const $ = (id) => document.getElementById(id);
let now = null; // the sentence on the page
let items = []; // what is drawn of it
let at = null; // the item that has the focus
let range = null; // [start, end] of the words that are selected, if it is not that of the item
let anchor = null; // where the range began
let choosing = null; // what a word is chosen for: a function of its number
let labels = { phrases: {}, tags: {}, roles: {} }; // explanations
let looked = null; // an action whose result is shown and not done yet, and the brackets before it
let isBusy = false;
const done = []; // ids of the sentences to which something was done, the last one last

function say(message, isError = false) {
  $("status").textContent = message;
  $("status").classList.toggle("error", isError);
}

function create(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// --- the server -----------------------------------------------------------------------------------
async function call(name, fields) {
  const request = fields && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields) };
  const response = await fetch(name, request).catch(() => {
    throw new Error("The server does not answer. What you did before is saved.");
  });
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found?.error ?? `Error ${response.status}`);
  return found;
}

// One thing is done at a time; keys and clicks in between are dropped.
async function doing(work) {
  if (isBusy) return;
  isBusy = true;
  $("scroll").setAttribute("aria-busy", "true");
  await work().catch((error) => say(error.message, true));
  isBusy = false;
  $("scroll").removeAttribute("aria-busy");
}

const keyOf = (bracket) => bracket.join(" ");

async function act(action, isSure = !$("look").checked || ["choose", "split", "merge"].includes(action.do)) {
  const old = now.id;
  if (!isSure) {
    const known = looked?.known ?? new Set(now.brackets.map(keyOf));
    show(await call("act", { id: old, action, preview: true }), { action, known });
    return say(`${described(action)}? Press Enter to do it, Esc to leave it.`);
  }
  const found = await call("act", { id: old, action });
  done.push(found.id);
  show(found);
  const isMade = found.made.includes(found.actions.length - 1) && !action.alone;
  say(found.id === old && found.actions.length ? `Done: ${described(found.actions.at(-1))}.`
    + (isMade ? " The grammar has no such tree, so it was changed in the tree." : "")
    : action.do === "split" ? "Split. This is the first part." : "Joined.");
  if (found.id !== old) counted(await call("progress"));
  return undefined;
}

async function step(name) {
  const id = now.id;
  counted(await call(name, { id }));
  done.push(id);
  await next();
  say(`${name === "accept" ? "Accepted" : "Skipped"}.${now ? "" : " Nothing is open."}`);
}

async function next(order) {
  const found = await call("next", order ? { order } : {});
  if (found) return show(found);
  now = null;
  [$("work").hidden, $("end").hidden] = [true, false];
  return $("end").querySelector("h2").focus();
}

const undo = () => doing(async () => {
  if (looked) return go(now.id);
  const isHere = now && (now.actions.length || now.status !== "open");
  const id = isHere ? now.id : done.at(-1) ?? now?.id;
  if (id === undefined) return undefined;
  const found = await call("undo", { id });
  if (done.includes(id)) done.splice(done.lastIndexOf(id), 1);
  show(found);
  say("Undone.");
  return counted(await call("progress"));
});

function counted({ open, accepted, skipped }) {
  $("done").max = Math.max(open + accepted + skipped, 1);
  $("done").value = accepted + skipped;
  $("counts").textContent = `${accepted} accepted, ${skipped} skipped, ${open} open`;
}

// --- the sentence on the page -----------------------------------------------------------------------
function show(sentence, look = null) {
  const old = now?.id === sentence.id && at ? { ...at, range, anchor } : null;
  now = sentence;
  looked = look;
  choosing = null;
  say("");
  [$("work").hidden, $("end").hidden] = [false, true];
  const status = { open: "", accepted: ", accepted", skipped: ", skipped", replaced: ", was split or joined" };
  $("place").textContent = `Sentence ${now.id + 1}${status[now.status]} (${now.text})`;
  const asked = now.actions.filter((own) => own.do === "phrase").map((own) => `${own.label} ${own.start} ${own.end}`);
  const svg = make("svg", { class: "tree", role: "tree", "aria-multiselectable": true, "aria-label": now.words.join(" ") });
  items = draw(svg, now, { asked: new Set(asked), known: look?.known });
  $("scroll").replaceChildren(svg);
  $("sentence").replaceChildren(...now.words.flatMap((word, i) => {
    const onclick = (event) => select(wordItem(i), event.shiftKey);
    return [create("span", { textContent: word, onclick }), now.spaces[i] ? " " : ""];
  }));
  $("corrections").hidden = now.actions.length === 0;
  $("corrections").querySelector("ol").replaceChildren(...now.actions.map((action, i) =>
    create("li", { textContent: described(action) + (now.made.includes(i) ? " (changed in the tree)" : "") })));
  if (idOfAddress() !== now.id) history[location.hash ? "pushState" : "replaceState"](null, "", `#id=${now.id}`);
  at = null;
  if (!old) {
    $("scroll").scrollLeft = isRightToLeft(now.words) ? 1e6 : 0;
    return select(doubtfulOnes()[0] ?? items[0]);
  }
  const same = items.filter((item) => item.start === old.start && item.end === old.end);
  const alike = same.filter((item) => item.kind === old.kind);
  select(alike.find((item) => item.label === old.label) ?? alike[0] ?? same[0] ?? wordItem(old.start));
  if (old.range) [range, anchor] = [old.range, old.anchor];
  return mark();
}

const wordItem = (i) => items.find((item) => item.kind === "word" && item.start === i);
const span = () => range ?? [at.start, at.end];
const place = () => ({ start: span()[0], end: span()[1] });
const quoted = (start, end) => {
  const text = now.words.slice(start, end).join(" ");
  return `“${text.length > 50 ? `${text.slice(0, 49)}…` : text}”`;
};

// With `isMore`, the words up to the item are selected, too.
function select(item, isMore = false, isScrolled = true) {
  if (!item) return;
  if (isMore && at) {
    anchor ??= [at.start, at.end];
    range = [Math.min(anchor[0], item.start), Math.max(anchor[1], item.end)];
  } else {
    [range, anchor] = [null, null];
  }
  at = item;
  mark();
  at.el.focus({ preventScroll: true });
  if (isScrolled) at.el.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function mark() {
  const [start, end] = span();
  for (const item of items) {
    const isIn = item.kind === "word" && start <= item.start && item.start < end;
    const isAt = range ? isIn : item === at;
    item.el.classList.toggle("at", isAt);
    item.el.classList.toggle("in", isIn);
    item.el.setAttribute("aria-selected", isAt);
    item.el.setAttribute("tabindex", item === at ? 0 : -1);
  }
  $("sentence").querySelectorAll("span").forEach((own, i) => own.classList.toggle("in", start <= i && i < end && end - start < now.words.length));
  const kind = { phrase: "phrases", word: "tags", role: "roles" }[at.kind];
  const says = range ? "" : labels[kind]?.[at.label] ?? "";
  const first = range ? spanText(start, end) : at.name;
  $("selected").textContent = `${first[0].toUpperCase()}${first.slice(1)}: ${quoted(start, end)}${says && `. ${at.label}: ${says}.`}`;
  for (const action of ACTIONS) {
    action.button.disabled = action.can ? !action.can() : false;
    if (action.texts) {
      const text = action.texts[looked ? "looked" : range ? "phrase" : at.kind];
      action.button.firstChild.data = `${text ?? action.text} `;
    }
  }
}

function described({ start, end, word, label, ...action }) {
  const first = start ?? word;
  const of = (i) => quoted(i, i + 1);
  return `${first === undefined ? "The tree" : quoted(first, end ?? first + 1)} ${{
    phrase: `is a phrase ${label}`,
    no_phrase: `is not a phrase ${label ?? ""}`,
    tag: `has the tag ${action.tag}`,
    attach: `belongs to ${of(action.head)}`,
    role: `${label ? `is ${label}` : "has no role"} of ${of(action.predicate)}`,
    predicate: action.keep ? `is a predicate ${action.roleset ?? ""}` : "is not a predicate",
    chunk: `is ${action.keep ? "" : "not "}a chunk`,
    choose: "is another of the best trees",
  }[action.do]}`;
}

// --- dialogs --------------------------------------------------------------------------------------
// A list to choose from by typing. rows: {value, name, text}. free: whether other values may be
// typed. none: text of a button for the value null. Resolves to {value, predicate}, or undefined.
function pick({ title, label = "Label", rows = [], free = true, empty = false, value = "", none = "", predicates = [], ok = "Apply" }) {
  const [dialog, input, list] = [$("pick"), $("pick-text"), $("pick-list")];
  let [found, active] = [[], -1];
  for (const [id, text] of Object.entries({ title, label, ok, none })) {
    $(`pick-${id}`).textContent = text;
    $(`pick-${id}`).hidden = !text;
  }
  $("pick-of").hidden = predicates.length < 2;
  $("pick-predicate").replaceChildren(...predicates.map(({ word, isChosen }) =>
    new Option(`${now.words[word]} (word ${word + 1})`, word, isChosen, isChosen)));
  return new Promise((resolve) => {
    const end = (own) => {
      resolve({ value: own, predicate: Number($("pick-predicate").value) });
      dialog.close();
    };
    const activate = (i) => {
      active = i;
      [...list.children].forEach((own, j) => own.setAttribute("aria-selected", i === j));
      list.children[i]?.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", list.children[i]?.id ?? "");
    };
    const filter = () => {
      const typed = input.value.trim().toLowerCase();
      const rank = ({ name, text }) => {
        const own = name.toLowerCase();
        return own === typed ? 0 : own.startsWith(typed) ? 1 : own.includes(typed) ? 2
          : text.toLowerCase().includes(typed) ? 3 : 4;
      };
      found = typed ? rows.map((row) => [rank(row), row]).filter(([own]) => own < 4)
        .sort((one, other) => one[0] - other[0]).map(([, row]) => row) : rows;
      list.replaceChildren(...found.slice(0, 200).map((row, i) => create("li",
        { id: `pick-${i}`, role: "option", onclick: () => end(row.value) },
        create("b", { textContent: row.name }), create("span", { textContent: row.text, dir: "auto" }))));
      activate((typed || !free) && found.length ? 0 : -1);
    };
    input.value = value;
    input.oninput = filter;
    input.onkeydown = (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      activate(Math.max(free ? -1 : 0, Math.min(active + by, list.children.length - 1)));
    };
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      const typed = input.value.trim();
      if (active >= 0) end(found[active].value);
      else if (free && (typed || empty)) end(typed);
    };
    $("pick-none").onclick = () => end(null);
    dialog.onclose = () => dialog.open || resolve(undefined); // it may be open again
    dialog.showModal();
    filter();
    input.focus();
    input.select();
  });
}

const explained = (kind) => Object.keys(labels[kind]).sort().map((name) => ({ value: name, name, text: labels[kind][name] ?? "" }));

async function guide() {
  const rows = [["phrases", "Phrase"], ["tags", "Tag"], ["roles", "Role"]].flatMap(([kind, name]) =>
    explained(kind).map((row) => ({ ...row, text: `${name}: ${row.text}` })));
  await pick({ title: "What the labels mean", label: "Search", rows, free: false, ok: "" });
}

async function list() {
  const all = await call("list").catch((error) => say(error.message, true));
  if (!all) return;
  const rows = all.map(({ id, status, words }) => ({ value: id, name: `${id + 1} ${status}`, text: words }));
  const found = await pick({ title: "Sentences", label: "Search", rows, free: false, ok: "Show" });
  if (found) await doing(() => go(found.value));
}

const go = async (id) => show(await call("get", { id }));

async function alternatives() {
  const { trees } = await call("alternatives", { id: now.id });
  if (!trees.length) throw new Error("There is no other tree.");
  const known = new Set(now.brackets.map(keyOf));
  const choose = (i) => {
    $("best").close();
    if (trees[i]) doing(() => act({ do: "choose", brackets: trees[i].brackets }));
  };
  $("alternatives").firstElementChild.replaceChildren(...trees.map((tree, i) => {
    const svg = make("svg", { class: "tree", role: "img", "aria-label": `Tree ${i + 1}` });
    draw(svg, { words: now.words, tags: tree.tags, brackets: tree.brackets, probs: [] }, { known, still: true });
    const isSame = tree.brackets.length === known.size && tree.brackets.every((own) => known.has(keyOf(own)));
    const button = create("button", { type: "button", textContent: `Choose ${i + 1}`, onclick: () => choose(i) });
    return create("figure", { className: isSame ? "chosen" : "" },
      create("figcaption", { textContent: `${i + 1}. ${figure(tree.prob)}${isSame ? ", as on the page" : ""}` }),
      create("div", { className: "scroll", tabIndex: 0 }, svg), button);
  }));
  $("best").onkeydown = (event) => /^[1-9]$/.test(event.key) && trees[event.key - 1] && choose(event.key - 1);
  $("best").showModal();
  for (const svg of $("best").querySelectorAll("svg")) svg.querySelector(".new")?.scrollIntoView({ inline: "center", block: "nearest" });
  $("alternatives").firstElementChild.scrollLeft = 0;
}

// --- what can be done -----------------------------------------------------------------------------
const isRole = () => !range && (at.kind === "role" || at.kind === "predicate");
const alone = () => ($("alone").checked ? { alone: true } : {});

async function phrase(instead) {
  const title = quoted(...span()) + (instead ? ` is another phrase than ${instead}` : " is a phrase");
  const found = await pick({ title, rows: explained("phrases") });
  return found && { do: "phrase", ...place(), label: found.value, ...(instead && { instead }), ...alone() };
}

const label = () => (at.kind === "phrase" ? phrase(at.label) : at.kind === "role" ? role() : predicate());

function nothing() {
  if (at.kind === "chunk") return { do: "chunk", ...place(), keep: false };
  if (at.kind === "role") return { do: "role", ...place(), predicate: at.predicate, label: null };
  if (at.kind === "predicate") return { do: "predicate", word: at.start, keep: false };
  return { do: "no_phrase", ...place(), label: at.label, ...alone() };
}

async function tag() {
  const word = span()[0];
  const found = await pick({ title: `Tag of ${quoted(word, word + 1)}, now ${now.tags[word]}`, rows: explained("tags") });
  return found && { do: "tag", word, tag: found.value };
}

async function role() {
  const [start, end] = span();
  const verbs = now.frames.map(([verb]) => verb);
  if (!verbs.length) return say("There is no predicate. Select a verb and press V first.", true);
  const far = (verb) => Math.max(start - verb, verb - end + 1, 0) || (start <= verb && verb < end ? 1e3 : 0);
  const best = isRole() ? at.predicate : verbs.reduce((one, other) => (far(other) < far(one) ? other : one));
  const predicates = verbs.map((word) => ({ word, isChosen: word === best }));
  const found = await pick({ title: `Role of ${quoted(start, end)}${verbs.length < 2 ? ` for ${now.words[best]}` : ""}`,
    rows: explained("roles"), none: "No role", predicates });
  return found && { do: "role", start, end, predicate: found.predicate, label: found.value };
}

async function predicate() {
  const word = span()[0];
  const frame = now.frames.find(([verb]) => verb === word);
  const found = await pick({ title: `${quoted(word, word + 1)} is a predicate`, label: "Roleset, or nothing if it is not known",
    value: frame?.[1] ?? "", empty: true, none: frame ? "Not a predicate" : "" });
  return found && { do: "predicate", word, roleset: found.value || null, keep: found.value !== null };
}

function chunk() {
  const [start, end] = span();
  return { do: "chunk", start, end, keep: !now.chunks.some((own) => own[0] === start && own[1] === end) };
}

function choose(question, work) {
  choosing = work;
  say(`${question} Click it, or go there and press Enter.`);
  select(wordItem(at.start), false, false);
}

function attach() {
  const own = place();
  const work = (head) => doing(() => act({ do: "attach", ...own, head }));
  choose(`To which word does ${quoted(own.start, own.end)} belong?`, work);
}

function selectRange() {
  const first = at;
  choose("Up to which word?", (i) => {
    select(first, false, false);
    select(wordItem(i), true);
  });
}

const doubtfulOnes = () => items.filter((item) => item.kind === "phrase" && item.prob !== null && item.prob < 0.9)
  .sort((one, other) => one.prob - other.prob);

function doubtful() {
  const found = doubtfulOnes();
  return found.length ? select(found[(found.indexOf(at) + 1) % found.length]) : say("No phrase is doubtful.");
}

const isWord = () => !range && at.end - at.start === 1;
const ACTIONS = [
  { key: "p", text: "Phrase", help: "the selected words are a phrase", run: () => phrase() },
  { key: "l", text: "Label", help: "other label of a phrase or role", run: label, can: () => isRole() || (!range && at.kind === "phrase") },
  { key: "Delete", shown: "Del", text: "Not a phrase", help: "it is no phrase, chunk, role or predicate", run: nothing,
    can: () => !range && at.kind !== "word", texts: { chunk: "Not a chunk", role: "Not a role", predicate: "Not a predicate" } },
  { key: "t", text: "Tag", help: "tag of the word", run: tag, can: isWord },
  { key: "h", text: "Belongs to …", help: "the word to which a phrase belongs", run: attach },
  { key: "r", text: "Role", help: "role for a predicate", run: role },
  { key: "v", text: "Predicate", help: "the word is a predicate, or none", run: predicate, can: isWord },
  { key: "c", text: "Chunk", help: "the selected words are a chunk, or none", run: chunk },
  { key: "b", text: "Begins here", help: "a sentence begins at the word", run: () => ({ do: "split", word: span()[0] }),
    can: () => span()[0] > 0 },
  { key: "j", text: "Join next", help: "join with the next sentence of the text", run: () => ({ do: "merge" }) },
  { key: "w", text: "Range …", help: "select words up to another one", run: selectRange },
  { key: "d", text: "Doubtful", help: "go to the next doubtful phrase", run: doubtful, isStep: true },
  { key: "u", text: "Undo", help: "undo what was done last", run: undo, isStep: true, texts: { looked: "Leave it" } },
  { key: "s", text: "Skip", help: "leave the sentence out", run: () => doing(() => step("skip")), isStep: true },
  { key: "k", text: "Best trees", help: "compare the best trees", run: () => doing(alternatives), isStep: true },
  { key: "Enter", shown: "↵", text: "Accept", help: "accept the sentence", isStep: true,
    run: () => doing(() => (looked ? act(looked.action, true) : step("accept"))), texts: { looked: "Do it" } },
];
const OTHERS = { a: "list", n: "random", g: "guide", "?": "help", f: "look", x: "alone" }; // buttons by key

async function run(action) {
  if (isBusy || (now ? action.can && !action.can() : action.run !== undo)) return;
  const found = await action.run();
  if (found?.do) await doing(() => act(found));
}

for (const action of ACTIONS) {
  const shown = action.shown ?? action.key.toUpperCase();
  action.button = create("button", { type: "button", title: action.help, ariaKeyShortcuts: action.key, onclick: () => run(action),
    className: action.text === "Accept" ? "main" : "" }, `${action.text} `, create("kbd", { textContent: shown }));
  $(action.isStep ? "steps" : "edits").append(action.button);
}

// --- keys and clicks ------------------------------------------------------------------------------
// The item to which an arrow key leads.
function beside(key) {
  const words = items.filter((item) => item.kind === "word");
  const boxes = items.filter((item) => item.row !== undefined);
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key] * (isRightToLeft(now.words) ? -1 : 1);
  const over = (item) => item.start <= at.start && at.start < item.end;
  if (key === "Home" || key === "End") return words.at(key === "Home" ? 0 : -1);
  if (at.row !== undefined) {
    const row = boxes.filter((item) => item.row === at.row);
    if (by) return row[row.indexOf(at) + by];
    const rows = boxes.filter((item) => (key === "ArrowUp" ? item.row < at.row : item.row > at.row) && over(item));
    return key === "ArrowUp" ? rows.at(-1) ?? words[at.start] : rows[0];
  }
  if (key === "ArrowUp") return at.parent.kind === "root" ? null : at.parent;
  if (key === "ArrowDown") return at.children[0] ?? boxes.find(over);
  const row = at.kind === "word" ? words : at.parent.children;
  return row[row.indexOf(at) + by];
}

function extended(key) {
  const isOn = (key === "ArrowRight") === !isRightToLeft(now.words);
  return wordItem(isOn ? at.end : at.start - 1);
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isInTree = $("scroll").contains(target) || target === document.body;
  if (!isInTree && /^(Enter|Arrow|Home|End)/.test(key)) return; // a button is pressed, the page scrolled
  // Of other keyboards than Latin ones, the place of the key counts.
  const letter = /^[ -~]$/.test(key) || key.length > 1 ? key.toLowerCase() : event.code.replace("Key", "").toLowerCase();
  const action = ACTIONS.find((own) => own.key.toLowerCase() === (key === "Backspace" ? "delete" : letter));
  const press = (work) => {
    event.preventDefault();
    if (!event.repeat || key.startsWith("Arrow")) work();
  };
  if (key === "Escape" && looked) {
    press(undo);
  } else if (key === "Escape" && (choosing || range)) {
    choosing = () => select(at);
    press(() => chosen(at));
  } else if (/^(Arrow|Home|End)/.test(key) && at) {
    const isSide = key === "ArrowLeft" || key === "ArrowRight";
    press(() => (event.shiftKey && isSide ? select(extended(key), true) : select(beside(key))));
  } else if (key === "Enter" && choosing) {
    press(() => chosen(at));
  } else if (action) {
    press(() => run(action));
  } else if (OTHERS[letter]) {
    press(() => $(OTHERS[letter]).click());
  }
});

function chosen(item) {
  const work = choosing;
  choosing = null;
  say("");
  work(item.start);
}

const itemOf = (event) => items.find((item) => item.el === event.target.closest(".item"));
const pointed = (event) => {
  const item = itemOf(event);
  if (!item || event.button || (event.pointerType === "touch") !== (event.type === "click")) return;
  event.preventDefault();
  if (choosing) chosen(item);
  else select(item, event.shiftKey);
};
$("scroll").addEventListener("pointerdown", pointed);
$("scroll").addEventListener("click", pointed); // a finger may also scroll
$("scroll").addEventListener("pointermove", (event) => {
  const item = itemOf(event);
  const isDrag = event.buttons === 1 && event.pointerType === "mouse" && !choosing;
  if (isDrag && item?.kind === "word" && at?.kind === "word" && item !== at) select(item, true);
});
$("scroll").addEventListener("dblclick", (event) => {
  const key = { word: "t", phrase: "l", role: "l", predicate: "v" }[itemOf(event)?.kind];
  if (key) run(ACTIONS.find((own) => own.key === key));
});

// --- the rest of the page -------------------------------------------------------------------------
$("random").onclick = () => doing(() => next("random"));
[$("list").onclick, $("guide").onclick] = [list, guide];
$("help").onclick = () => $("keys").showModal();
$("export").onclick = () => doing(async () => {
  const found = await call("export", {});
  say(`${found.accepted} sentence${found.accepted === 1 ? "" : "s"} exported to the annotator's folder: ${found.files.join(", ")}.`);
  await agreement();
});
$("learn").onclick = () => doing(async () => learned(await call("learn", {})));
for (const button of document.querySelectorAll("[data-close]")) button.onclick = () => button.closest("dialog").close();
const MOVES = { "← → ↑ ↓": "next word or phrase, parent, child", "Shift + ← →": "select words", "Home End": "first or last word",
  Esc: "leave a choice", A: "list of sentences", N: "a random sentence", G: "what labels mean", F: "look first", X: "change nothing else", "1 … 9": "choose one of the best trees" };
$("keys").querySelector("dl").append(...[...Object.entries(MOVES),
  ...ACTIONS.map((own) => [own.shown ?? own.key.toUpperCase(), own.help])].flatMap(([key, text]) =>
  [create("dt", {}, create("kbd", { textContent: key })), create("dd", { textContent: text })]));

async function learned({ status, before, after, better }) {
  const score = (own) => own?.toFixed(3) ?? "–";
  const lines = Object.keys(after ?? {}).map((name) => `${name}: ${score(before[name])} before, ${score(after[name])} after`);
  $("learning").hidden = status === "none";
  $("learn").disabled = status === "running";
  $("learning").textContent = {
    running: "Learning in the background. Go on as long as it takes.",
    failed: "Learning failed. The annotator's folder has its log.",
    done: ["Scores on sentences held out:", ...lines, better ? "The new model is better, and used from now on."
      : "The new model is not better. The old one stays."].join("\n"),
  }[status];
  if (status === "running") setTimeout(async () => learned(await call("learned").catch(() => ({ status }))), 1500);
  if (better && now?.status === "open") doing(() => go(now.id));
}

async function agreement() {
  const rows = (await call("agreement")).map((own) => [own.annotators.join(", "), own.sentences,
    ...[own.brackets_f, own.labelled_f, own.tags_kappa].map((score) => score?.toFixed(3) ?? "–")]);
  $("agreement").hidden = rows.length === 0;
  $("agreement").querySelector("tbody").replaceChildren(...rows.map((row) =>
    create("tr", {}, ...row.map((cell) => create("td", { textContent: cell })))));
}

const idOfAddress = () => Number(location.hash.match(/^#id=(\d+)$/)?.[1] ?? -1);
window.addEventListener("popstate", () => idOfAddress() !== now?.id && doing(() => go(idOfAddress())));

await doing(async () => {
  const { model, version, annotator } = await call("health");
  $("model").textContent = `${annotator}, ${model}, spacy-structlearn ${version}`;
  labels = await call("labels");
  counted(await call("progress"));
  await (idOfAddress() < 0 ? next() : go(idOfAddress()).catch(() => next()));
});
call("learned").then(learned).catch(() => {});
agreement().catch(() => {});
