// Questions about a page in a browser. The value: for each one "", or what is wrong.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const seen = element => element.checkVisibility({ visibilityProperty: true });
  const list = found => [...new Set(found)].slice(0, 3).join(" | ");
  const name = element => `${element.tagName} ${element.className}`;
  const box = element => element.getBoundingClientRect();

  // Texts that are seen, each with its element.
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (node.data.trim() && seen(parent) && !parent.closest("style, title, defs"))
      texts.push([node, parent]);
  }

  // Colours are blended from the outermost element to the innermost one.
  const parse = color => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  const chain = element => (element ? [...chain(element.parentElement), element] : []);
  const behind = element =>
    chain(element).reduce((c, e) => over(parse(getComputedStyle(e).backgroundColor), c), canvas);
  const luminance = rgb => {
    const [r, g, b] = rgb.map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = element => {
    const style = getComputedStyle(element), back = behind(element);
    const [r, g, b, a] = parse(element.closest("svg") ? style.fill : style.color);
    const opacity = chain(element).reduce((o, e) => o * getComputedStyle(e).opacity, a);
    const [dark, light] = [over([r, g, b, opacity], back), back].map(luminance).sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };

  const boxes = all("*").filter(e => seen(e) && !e.closest("svg") && e.clientWidth
    && /auto|scroll/.test(getComputedStyle(e).overflowX) && e !== document.documentElement);
  const scrolling = boxes.filter(e => e.scrollWidth > e.clientWidth + 1);
  const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
  const plain = element => {
    const copy = element.cloneNode(true);
    // A blank follows a label.
    all("mark > b", copy).forEach(e => {
      const next = e.nextSibling;
      if (next?.nodeType === 3) next.data = next.data.replace(/^ /, "");
    });
    all("b, sub, i, style, .turn", copy).forEach(e => e.remove());
    return copy.textContent;
  };
  const bare = text => text.replace(/\s/g, "");
  const one = text => text.replace(/\s+/g, " ").trim();
  const sentences = all(".sentence[open]").map(e => [e, e.querySelector("summary").textContent]);
  const drawn = (e, kind) => all(`.either > .${kind}`, e).filter(seen);

  const answers = {
    overflow: document.scrollingElement.scrollWidth > innerWidth
      ? list(all("body *").filter(e => box(e).right > innerWidth && !e.closest(".scroll")).map(e => e.outerHTML.slice(0, 60))) || "page" : "",
    "root in view": list(all(".either > .scroll").filter(seen)
      .filter(e => !inside(box(e.querySelector("text, tspan, b, span")), { left: 0, right: innerWidth }))
      .map(e => e.getAttribute("aria-label"))),
    "root first": list(all(".upright").filter(seen).filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => e.getAttribute("aria-label"))),
    size: list(texts.filter(([, e]) => parseFloat(getComputedStyle(e).fontSize)
      * (e.closest("svg")?.getScreenCTM().a ?? 1) < 10).map(([n, e]) => e.tagName + " " + n.data)),
    contrast: list(texts.filter(([, e]) => contrast(e) < 4.5)
      .map(([n, e]) => `${e.tagName} ${n.data.trim()} ${contrast(e).toFixed(1)}`)),
    "words of lines": list(sentences.filter(([e, text]) => drawn(e, "lines")
      .filter(l => l.getAttribute("aria-label") === "Tree").some(l => bare(plain(l)) !== bare(text))).map(([, t]) => t)),
    "words of pictures": list(sentences.filter(([e, text]) => drawn(e, "upright").flatMap(u => all("svg[role=img]", u))
      .some(s => {
        const found = all("text", s).map(t => [box(t), t.textContent]), low = Math.max(...found.map(([b]) => b.top));
        const row = found.filter(([b]) => b.top > low - 2).sort(([a], [b]) => a.left - b.left).map(([, t]) => t);
        if (s.closest("[dir=rtl]")) row.reverse();
        return bare(row.join("")) !== bare(text);
      })).map(([, t]) => t)),
    "words of arcs": list(sentences.filter(([e, text]) => all("svg.displacy", e).filter(seen)
      .some(s => {
        const row = all(".displacy-word", s);
        return bare(row.map(t => t.textContent).join("")) !== bare(text);
      })).map(([, t]) => t)),
    spacing: list(sentences.flatMap(([e, text]) => all(":scope > p:not(.note), :scope > ul > li", e).map(p => [p, text]))
      .filter(([p, text]) => !one(text).includes(one(plain(p).replace(/\u2026/g, "")).replace(/ +/g, " ")))
      .map(([p]) => one(plain(p)))),
    overlap: list(all("svg").filter(seen).flatMap(s => {
      const found = all("text", s).flatMap(t => all("tspan, textPath", t).length ? all("tspan, textPath", t) : [t])
        .map(t => [box(t), t.textContent]).filter(([b]) => b.width).sort(([a], [b]) => a.left - b.left);
      const wrong = [];
      found.forEach(([a, one], i) => {
        for (let j = i + 1; j < found.length && found[j][0].left < a.right - 1; j++) {
          const b = found[j][0];
          if (Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6) wrong.push(`${one} / ${found[j][1]}`);
        }
      });
      return wrong;
    })),
    elsewhere: list([...performance.getEntriesByType("resource").map(r => r.name),
      ...all("script, link, img, iframe, object, embed").map(e => e.tagName)]),
    scripts: window.hacked ? "a script of the text has run" : "",
    keyboard: list(scrolling.filter(e => e.tabIndex < 0 || !e.getAttribute("role")).map(name)),
    names: list([
      ...scrolling.filter(e => !e.getAttribute("aria-label")).map(name),
      ...all("svg").filter(s => !s.getAttribute("aria-label") && !s.closest("[aria-label]")).map(() => "svg"),
      ...all("input").filter(e => !e.labels.length).map(() => "input"),
      ...(document.documentElement.lang && document.title ? [] : ["page"]),
    ]),
    "scrolling is shown": list(scrolling.filter(e => getComputedStyle(e).backgroundImage === "none").map(name)),
    whole: list(all("body *").filter(e => seen(e) && !e.closest("svg") && e.scrollHeight > e.clientHeight + 2
      && /auto|hidden|scroll/.test(getComputedStyle(e).overflowY)).map(name)),
    compact: list(all(".either > .scroll").filter(seen).filter(e => {
      const area = texts.filter(([, t]) => e.contains(t)).reduce((sum, [n]) => {
        const range = document.createRange();
        range.selectNodeContents(n);
        const { width, height } = range.getBoundingClientRect();
        return sum + width * height;
      }, 0);
      const { width, height } = box(e.querySelector("svg") ?? e);
      // The blank top of a picture is cut off.
      const shown = Math.min(height, e.scrollHeight);
      return shown > 300 && area < 0.05 * width * shown;
    }).map(e => `${e.getAttribute("aria-label")} ${e.scrollWidth} x ${e.scrollHeight}`)),
  };
  // The root is not always in view in the layout that was not chosen for the width.
  const keep = ([key]) => !/root|compact/.test(key) || !document.querySelector("input:checked");
  return Object.fromEntries(Object.entries(answers).filter(keep));
})()
