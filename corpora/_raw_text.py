"""Build `raw_text`: plain English prose from sources with free licences. Each format has a function
that yields the documents of a source, with their paragraphs. The rules for paragraphs are the same
for all formats."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

from _archives import Members
from _download import FetchError

Document = tuple[str, list[str]]  # name or title, paragraphs with markup removed
GAP = "\ufffc"  # in place of a formula or a reference without text; its paragraph is dropped

# --- paragraphs
WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*")
INVISIBLE = re.compile(
    r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]|[^\S\n\t ]|[\x00-\x08\x0e-\x1f]"
)
MARKER = re.compile(r"(?:[-–*+•▪□]|\(?\d{1,3}[.)])\s+")  # of list items
BRACKETS = re.compile(rf"\s*[(\[][^()\[\]]*{GAP}[^()\[\]]*[)\]]|\s*\(\s*[;,]?\s*\)")
ADDRESS = re.compile(
    r"[\w.+-]+@\w[\w-]*\.\w|https?:|www\.\w"  # e-mail and web
    r"|(?<![\d.,])(?:\+?1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])?\d{3}[-. ]\d{4}(?!\d)"  # telephone, USA
    r"|\+\d{1,3}[ \d()-]{7,}"
)
# Remains of markup that no rule above removed.
MARKUP = re.compile(r"\{\{|\}\}|\{%|%\}|\]\(|</?\w+[ >/]|\|.*\||[<>]{2}|\\\w+\{|\ufffd")
CITATION = re.compile(
    r"(?=(?:—|[A-Z][\w'’-]+, [A-Z]).*\b(?:1[6-9]|20)\d\d\b)"
    r".*(?:Press\b|Books\b|Publish|University|Journal|Review\b|New York:|London:|\. \d{4}\. )"
    r"|.*\b(?:pp?\. \d|vol\. \d|no\. \d|doi[:.]|ISBN)"
)
LONGEST_CITATION = 400  # characters
START = re.compile(r"[^\W_]|[\"“”'‘’(\[$£€—–-]+[^\W_]")  # of a paragraph
# Frequent words of English that other languages with Latin letters do not have.
FREQUENT = frozenset(
    re.findall(
        r"\w+",
        "about after all also and are at be been before but by did for from had have her his how "
        "if into is it its like many may more most my not of only or other our over she some "
        "such than that the their them then there these they this those through to up we were "
        "what when which who why will with would you your",
    )
)
ENGLISH = 15  # words of a long paragraph for each frequent word
LONG = 8  # words
SHORTEST = 4  # words
LETTERS = 0.6  # of the characters, without blanks, are letters


def cleaned(paragraph: str) -> str:
    """Return a paragraph in NFC, without formatting characters, with single blanks."""
    text = INVISIBLE.sub(lambda match: " " if match[0].isspace() else "", paragraph)
    text = BRACKETS.sub("", unicodedata.normalize("NFC", text))
    text = " ".join(text.split())
    marker = MARKER.match(text)
    return text[marker.end() :] if marker else text


def is_prose(paragraph: str) -> bool:
    """Return whether a cleaned paragraph may contain sentences in English."""
    words = WORD.findall(paragraph)
    visible = len(paragraph) - paragraph.count(" ")
    letters = sum(character.isalpha() for character in paragraph)
    if len(words) < SHORTEST or letters < LETTERS * visible:
        return False
    if GAP in paragraph or ADDRESS.search(paragraph) or MARKUP.search(paragraph):
        return False
    if not START.match(paragraph):
        return False
    if len(paragraph) < LONGEST_CITATION and CITATION.match(paragraph):
        return False
    if not any(word.islower() for word in words):
        return False
    frequent = sum(word.lower() in FREQUENT for word in words)
    return len(words) < LONG or ENGLISH * frequent >= len(words)


def prose_lines(documents: Iterable[Document]) -> tuple[list[str], int]:
    """Return one line of JSON per document, and the number of words. A repeated paragraph is kept
    once."""
    seen: set[str] = set()
    lines: list[str] = []
    words = 0
    for name, paragraphs in documents:
        kept = []
        for paragraph in map(cleaned, paragraphs):
            if paragraph not in seen and is_prose(paragraph):
                seen.add(paragraph)
                kept.append(paragraph)
        if kept:
            text = "\n\n".join(kept)
            words += len(text.split())
            lines.append(json.dumps({"document": name, "text": text}, ensure_ascii=False) + "\n")
    return lines, words


# --- plain text
WIDE = 90  # characters; longer lines on average are paragraphs
SPARSE = 300  # words per blank line; with fewer blank lines, they do not separate paragraphs


def text_documents(members: Members) -> Iterator[Document]:
    """Each file is a document."""
    for name in sorted(members):
        if name.endswith(".txt"):
            text = members.read(name).decode("utf-8-sig", "replace")
            yield name, text_paragraphs(text.replace("\r\n", "\n"))


def text_paragraphs(text: str) -> list[str]:
    """Return paragraphs, which are separated by blank lines or are lines. If neither is the case,
    the paragraphs are unknown, and none are returned."""
    text = re.sub(r"_([^_\n]+)_", r"\1", text)  # emphasis
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    lines = [line for line in text.split("\n") if line.strip()]
    if len(text.split()) < SPARSE * len(blocks):
        return blocks
    return lines if len(text) > WIDE * len(lines) else []


def review_documents(members: Members) -> Iterator[Document]:
    """Each file is a review, one tokenised sentence per line, and becomes one paragraph."""
    for name in sorted(members):
        if name.endswith(".txt"):
            yield name, [attached(members.text(name))]


def attached(text: str) -> str:
    """Remove the blanks around the marks of a tokenised text."""
    text = re.sub(r'" ([^"\n]*?) "', r'"\1"', " ".join(text.split()))
    text = re.sub(r"([(\[]) ", r"\1", text)
    return re.sub(r" ([.,;:!?)\]]+)", r"\1", text)


# --- Wikipedia, extracted by WikiExtractor
ARTICLE = re.compile(r'<doc id="\d+" url="[^"]*" title="([^"]*)">\n(.*?)</doc>', re.DOTALL)
STUB = 200  # words of the shortest article


def wikipedia_documents(members: Members) -> Iterator[Document]:
    """Each line of an article is a paragraph. The first one is the title."""
    for name in sorted(members):
        for title, text in ARTICLE.findall(members.text(name)):
            if len(text.split()) >= STUB:
                lines = re.sub(r"</?\w[^>\n]*>", "", unescape(text)).strip().split("\n")
                # Templates are lost: "Rome (; 753 BC)", "the height is ."
                found = [re.sub(r"\(\s*[;,]\s*", "(", line) for line in lines[1:]]
                found = [re.sub(r"(?<=\w) (?=[.,;](?: |$))", GAP, line) for line in found]
                yield unescape(title), [line for line in found if not is_heading(line)]


def is_heading(line: str) -> bool:
    """WikiExtractor adds a full stop to headings."""
    return len(line.split()) < 2 * SHORTEST and line.endswith(".")


# --- XML
BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "blockquote caption content definition div document entry exercise figcaption figure h1 h2 "
        "h3 h4 h5 h6 item li list note ol p para problem quote section ul",
    )
)
DROPPED = frozenset(
    re.findall(
        r"\w+",
        "code commentary equation footnote glossary label media metadata solution subtitle table "
        "title",
    )
)
REFERENCE_CLASS = re.compile(
    r"reference|reading|resource|cited|consulted|contrib-auth|teacher|delete-me|hot-links"
)
REFERENCE_TITLE = re.compile(
    r"(?:references|bibliography|glossary|index|sources|answer key|works cited"
    r"|(?:further|recommended|suggested) (?:readings?|resources))$",
    re.IGNORECASE,
)
CREDIT = re.compile(
    r"\s*\((?:credit|attribution|modification)\b(?:[^()]|\([^()]*\))*\)", re.IGNORECASE
)


class Flow:
    """Collects paragraphs from a stream of texts and ends of blocks."""

    def __init__(self):
        self.paragraphs: list[str] = []
        self._open: list[str] = []

    def add(self, text: str | None) -> None:
        self._open.append(text or "")

    def end(self) -> None:
        if text := "".join(self._open).strip():
            self.paragraphs.append(text)
        self._open = []


def parsed(text: str, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise FetchError(f"{name}: no well-formed XML ({error})") from None


def cnxml_documents(members: Members) -> Iterator[Document]:
    """Each module of a textbook is a document."""
    for name in sorted(members):
        if name.endswith(".cnxml"):
            root = parsed(members.text(name), name)
            flow = Flow()
            cnxml_paragraphs(root, flow)
            flow.end()
            yield name, [CREDIT.sub("", paragraph) for paragraph in flow.paragraphs]


def cnxml_paragraphs(element: ElementTree.Element, flow: Flow) -> None:
    """Add the text in and after `element`."""
    tag = element.tag.rpartition("}")[2]
    block = tag in BLOCKS or tag in DROPPED
    if block and tag != "footnote":
        flow.end()
    if tag == "math" or (tag == "link" and not "".join(element.itertext()).strip()):
        flow.add(GAP)
    elif tag == "newline" or tag == "space":
        flow.add(" ")
    elif tag not in DROPPED and not is_reference(element):
        flow.add(element.text)
        for child in element:
            cnxml_paragraphs(child, flow)
            flow.add(child.tail)
    if block and tag != "footnote":
        flow.end()


def is_reference(element: ElementTree.Element) -> bool:
    """Return whether an element is a list of references, by its class or title."""
    titles = [child.text or "" for child in element if child.tag.endswith("}title")]
    named = any(REFERENCE_TITLE.match(title.strip()) for title in titles)
    return named or bool(REFERENCE_CLASS.search(element.get("class", "")))


def answer_documents(members: Members) -> Iterator[Document]:
    """Each file has questions on one subject. The answers are kept; the questions are templates."""
    for name in sorted(members):
        if name.endswith(".xml"):
            root = parsed(members.text(name), name)
            answers = (answer.text or "" for answer in root.iter("Answer"))
            yield (
                name,
                [piece for answer in answers for piece in re.split(r"\n|\s{2,}-\s+", answer)],
            )


# --- Markdown
class _Html(HTMLParser):
    """Collects the paragraphs of HTML, or of Markdown with HTML tags."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._dropped = 0

    def handle_starttag(self, tag, attrs):
        self._dropped += tag in HTML_DROPPED
        self.pieces.append("\n\n" if tag in BLOCKS else " " if tag == "br" else "")

    def handle_startendtag(self, tag, attrs):
        self.pieces.append(" " if tag == "br" else "")

    def handle_endtag(self, tag):
        self._dropped -= tag in HTML_DROPPED and self._dropped > 0
        self.pieces.append("\n\n" if tag in BLOCKS else "")

    def handle_data(self, data):
        if not self._dropped:
            self.pieces.append(data)


HTML_DROPPED = frozenset(["iframe", "math", "pre", "script", "style", "svg", "table"])
FRONT_MATTER = re.compile(r"\A---\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
FENCED = re.compile(r"^[ >]*(```+|~~~+).*?(?:^[ >]*\1|\Z)", re.DOTALL | re.MULTILINE)
TEMPLATE = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|\{[:#.][^}\n]*\}|\[\^[^\]\n]*\]:?|<!--.*?-->", re.DOTALL
)
IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
LINK = re.compile(r"\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
DEFINITION = re.compile(r"^[ ]{0,3}\[[^\]\n]+\]:.*$", re.MULTILINE)
EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3})(?=\S)(.+?)(?<=\S)\1(?!\*)|(?<!\w)(_{1,3})(?=\S)(.+?)(?<=\S)\3(?!\w)"
)
NO_PROSE = re.compile(r"\s*(?:#|\||[-=*_ ]+$|:?-+:?\||\[toc\])", re.IGNORECASE)
UNDERLINE = re.compile(r"(?:=+|-+)\s*")


def markdown_documents(members: Members) -> Iterator[Document]:
    """Each file is a document."""
    for name in sorted(members):
        if name.endswith(".md"):
            yield name, markdown_paragraphs(members.text(name).replace("\r\n", "\n"))


def markdown_paragraphs(text: str) -> list[str]:
    """Return paragraphs and list items, without front matter, code, tables, headings and targets of
    links."""
    text = FENCED.sub("\n\n", FRONT_MATTER.sub("", text.lstrip("\ufeff")))
    text = DEFINITION.sub("", TEMPLATE.sub("", text))
    text = re.sub(r"<(?:https?|mailto):[^>\s]*>", GAP, text)
    parser = _Html()
    parser.feed(text)
    parser.close()
    paragraphs: list[str] = []
    for block in re.split(r"\n[ \t>]*\n", "".join(parser.pieces)):
        paragraphs += markdown_block(block.strip("\n"))
    return [inline(paragraph) for paragraph in paragraphs]


def markdown_block(block: str) -> list[str]:
    """Return the paragraphs of lines without a blank line between them."""
    lines = [re.sub(r"^\s*>\s?", "", line) for line in block.split("\n")]
    indented = all(line.startswith(("    ", "\t")) for line in lines)
    if indented and not MARKER.match(lines[0].lstrip()) and not re.search(r"[.!?:]\s*$", lines[-1]):
        return []  # code; a further paragraph of a list item has a mark at its end
    found: list[list[str]] = [[]]
    for line in lines:
        if UNDERLINE.fullmatch(line):
            found[-1] = []  # the lines before it are a heading
        elif NO_PROSE.match(line):
            found.append([])
        elif marker := MARKER.match(line.lstrip()):
            found.append([line.lstrip()[marker.end() :]])
        else:
            found[-1].append(line)
    return [" ".join(lines) for lines in found if lines]


def inline(text: str) -> str:
    """Remove the markup of images, links, emphasis, code, and escapes."""
    text = LINK.sub(r"\1", IMAGE.sub("", text))
    for _ in range(2):  # emphasis can be nested
        text = EMPHASIS.sub(lambda match: match[2] or match[4], text)
    text = re.sub(r"(`+)(.+?)\1", r"\2", text)
    return re.sub(r"\\([\\`*_{}\[\]()#+.!$-])", r"\1", text)


# --- dialogues
def dialogue_documents(members: Members) -> Iterator[Document]:
    """Each turn of a dialogue is a paragraph."""
    for name in sorted(members):
        if name.endswith(".json"):
            for dialogue in json.loads(members.text(name)):
                turns = [turn["utterance"] for turn in dialogue["turns"]]
                yield f"{name} {dialogue['dialogue_id']}", turns


FORMATS: dict[str, Callable[[Members], Iterator[Document]]] = {
    "answers": answer_documents,
    "cnxml": cnxml_documents,
    "dialogues": dialogue_documents,
    "markdown": markdown_documents,
    "reviews": review_documents,
    "text": text_documents,
    "wikipedia": wikipedia_documents,
}


def raw_text_files(sources: dict[str, Members]) -> dict[str, str]:
    """Return a file of documents for each source, and files with their licences and sizes."""
    files: dict[str, str] = {}
    licences = []
    counts = ["#source\tdocuments\twords\n"]
    for name, members in sorted(sources.items()):
        source = members.source
        lines, words = prose_lines(FORMATS[source["format"]](members))
        files[f"{name}.jsonl.gz"] = "".join(lines)
        counts.append(f"{name}\t{len(lines)}\t{words}\n")
        licences.append(
            f"{name}.jsonl.gz\n  title: {source['title']}\n  author: {source['author']}\n"
            f"  licence: {source['licence']}\n  source: {source['url']}\n"
            f"  commit: {source['commit']}\n\n"
        )
    return files | {"LICENSES.txt": "".join(licences), "counts.tsv": "".join(counts)}
