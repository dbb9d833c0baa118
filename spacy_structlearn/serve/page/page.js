// The page of `structlearn serve`: sends the text, and shows and copies what comes back. The
// drawings are those of `structlearn render`.

const $ = (id) => document.getElementById(id);
const MOST_IN_ADDRESS = 8000; // characters
let answer = null; // the last one of /draw
let running = null; // the AbortController of the request in progress

function say(message, isError = false) {
  $("status").textContent = message;
  $("status").classList.toggle("error", isError);
}

function textOfAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  return { text: found.get("text") ?? "", trees: found.get("trees") };
}

function setAddress(text, trees) {
  const hash = `#${new URLSearchParams({ text, trees })}`;
  if (hash.length <= MOST_IN_ADDRESS && hash !== location.hash) {
    history.pushState(null, "", hash);
  }
}

async function parse({ focus = false } = {}) {
  const text = $("text").value;
  const trees = Number($("trees").value);
  if (!text.trim()) return;
  running?.abort();
  const own = (running = new AbortController());
  const button = $("form").querySelector("button");
  button.disabled = true;
  say("Parsing …");
  try {
    const response = await fetch("draw", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text, trees }),
      signal: own.signal,
    });
    const found = await response.json();
    if (!response.ok) throw new Error(found.error ?? `Error ${response.status}`);
    answer = found;
    show(focus);
  } catch (error) {
    if (own.signal.aborted) return;
    $("result").hidden = true;
    say(error instanceof TypeError ? "The server does not answer." : error.message, true);
  }
  if (running === own) button.disabled = false;
}

function show(focus) {
  const sentences = answer.sentences;
  const select = $("sentence");
  const names = sentences.map(({ text }, i) => {
    const short = text.length > 60 ? `${text.slice(0, 59)}…` : text;
    return new Option(`${i + 1}: ${short}`, i);
  });
  select.replaceChildren(new Option("all", "all"), ...names);
  $("which").hidden = sentences.length < 2;
  const hasTrees = sentences.some((own) => own.svg);
  for (const name of ["brackets", "svg", "latex"]) {
    document.querySelector(`[data-copy=${name}]`).hidden = !hasTrees;
  }
  draw(answer.html);
  compare();
  $("result").hidden = false;
  const words = answer.data.tokens.length;
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  say(`${count(sentences.length, "sentence")}, ${count(words, "word")}.`);
  if (focus) $("structure").focus();
}

// The page of `render`, in a shadow tree, where its style is its own. Its styles are set by
// script, because the policy of this page forbids those in markup. Texts have neither quotes nor
// brackets in it, so they cannot look like a style.
function draw(html) {
  const styles = [];
  const marked = html
    .replaceAll(/<style>([^]*?)<\/style>/g, (_, style) => (styles.push(style), ""))
    .replaceAll(' style="', ' data-style="');
  const page = new DOMParser().parseFromString(marked, "text/html");
  const root = $("drawing").shadowRoot ?? $("drawing").attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles.join("\n"));
  root.adoptedStyleSheets = [sheet];
  root.replaceChildren(...page.querySelectorAll("main > section, main > .guide"));
  for (const own of root.querySelectorAll("[data-style]")) {
    own.style.cssText = own.dataset.style;
  }
}

function chosen() {
  const which = $("sentence").value;
  return which === "all" ? answer.sentences : [answer.sentences[which]];
}

function svgElement(text) {
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}

function create(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function figureOf(tree, number, text) {
  const svg = svgElement(tree.svg);
  svg.style.minWidth = `${0.75 * svg.getAttribute("width")}px`;
  const textContent = `${number}. ${tree.prob.toFixed(2)}${tree.chosen ? ", chosen above" : ""}`;
  const onclick = () => copyText(tree.brackets, "Brackets");
  const label = { textContent: "Copy brackets", ariaLabel: `Copy brackets of tree ${number}` };
  return create("figure", { className: tree.chosen ? "chosen" : "" }, create("figcaption", { textContent }),
    create("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: `Tree ${number} of: ${text}` }, svg),
    create("button", { type: "button", onclick, ...label }));
}

function compare() {
  const rows = chosen().filter(({ trees }) => trees?.length).flatMap(({ text, trees }) => [
    create("h4", { textContent: text, dir: "auto" }),
    create("div", { className: "trees" }, ...trees.map((tree, i) => figureOf(tree, i + 1, text))),
  ]);
  $("alternatives").replaceChildren(...rows);
  $("best").hidden = rows.length === 0;
}

const COPIES = {
  brackets: () => chosen().map((own) => own.brackets ?? "").join("\n"),
  latex: () => chosen().map((own) => own.latex ?? "").join("\n\n"),
  svg: () => chosen().map((own) => own.svg ?? "").join("\n"),
  json: () => JSON.stringify(answer.data, null, 2),
  conllu: () => answer.conllu,
};

async function copyText(text, name) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https, and in old browsers.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) return say("The browser does not allow copying.", true);
  }
  return say(`${name} copied.`);
}

function fromAddress() {
  const { text, trees } = textOfAddress();
  if (!text) return;
  $("text").value = text;
  if ([...$("trees").options].some((option) => option.value === trees)) $("trees").value = trees;
  parse();
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  setAddress($("text").value, $("trees").value);
  parse({ focus: true });
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});
$("trees").addEventListener("change", () => answer && $("form").requestSubmit());
$("sentence").addEventListener("change", compare);
for (const button of document.querySelectorAll("[data-copy]")) {
  const name = button.textContent.replace("Copy ", "");
  button.addEventListener("click", () => copyText(COPIES[button.dataset.copy](), name));
}
window.addEventListener("popstate", fromAddress);
fetch("health")
  .then((response) => response.json())
  .then(({ model, version }) => {
    $("model").textContent = `${model}, spacy-structlearn ${version}`;
  })
  .catch(() => {});
fromAddress();
