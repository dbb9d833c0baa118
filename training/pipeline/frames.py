"""Sentences with frames of kinds that the treebank has few of, and a labeler that learns on.

    python -m training.pipeline.frames training/work/sm en_structlearn_sm

Concrete objects of verbs that are often light ("She made a cake"), quotations, phrases with "by"
that are no agents, subjects of infinitives, and particles behind objects. The labeler of a pipeline
learns on from them: its weights are those of more text, which is not read again
(`classification.adaptation`). Words are chosen at random, but always the same.

In a template, "{NAME}" is a phrase of `WORDS`, and a label is followed by the roles that the phrase
has: "(NP|ARG0.0,ARG1.1 ...)" for the predicates 0 and 1, "(VBD|V.0 ...)" for a predicate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from spacy.language import Language
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.classification.linear.log_linear import LogLinear
from spacy_structlearn.classification.stages import Stages
from spacy_structlearn.groups import CONSTITUENTS, SRL
from spacy_structlearn.pipeline.extensions import Frame, frame_spans
from spacy_structlearn.pipeline.extensions.span_groups import set_spans
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.pipeline.srl_stages import (
    OF_CANDIDATES,
    PREDICATES,
    SENSES,
    srl_templates,
)
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.roles.features import PREDICATE_FEATURES
from spacy_structlearn.roles.propositions import PREDICATE, PlainFrame
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import placed_nodes
from training.common.command import options
from training.common.ewt import build_docs, read_docs

COMPONENT, ENCODER = "srl_labeler", "token_encoder"
PASSES = 3
NUMBER = 40  # of sentences of each template
# Phrases without their outer label, by what they mean.
WORDS = {
    "ONE": "(NNP Alice) | (NNP Omar) | (NNP Priya) | (NNP Mr.) (NNP Novak) | (PRP She) | (PRP He)"
    " | (DT The) (NN gardener) | (DT The) (NN nurse) | (PRP$ My) (NN uncle) | (PRP I) | (PRP They)"
    " | (PRP We) | (DT The) (NN teacher) | (DT A) (NN tailor) | (DT The) (JJ old) (NN man)"
    " | (NNS Farmers) | (PRP$ Our) (NNS neighbours) | (DT The) (NN company) | (DT The) (NNS twins)",
    "HIM": "(PRP him) | (PRP her) | (PRP them) | (PRP me) | (DT the) (NN boy) | (NNP Omar)"
    " | (PRP$ his) (NN sister) | (DT the) (NNS pupils) | (PRP$ my) (NN aunt) | (DT the) (NN clerk)",
    "AGENT": "(DT the) (NN gardener) | (DT a) (NN nurse) | (NNP Priya) | (PRP$ my) (NN cousin)"
    " | (DT the) (NNS workers) | (NNS thieves) | (DT the) (NN wind) | (DT a) (JJ young) (NN doctor)"
    " | (NNP Mr.) (NNP Novak) | (DT the) (NN council) | (NNS volunteers) | (PRP them)",
    "THING": "(DT a) (NN chair) | (DT a) (NN kite) | (NN jam) | (NN bread) | (DT a) (NN basket)"
    " | (DT the) (NN soup) | (NNS candles) | (DT a) (NN necklace) | (DT a) (JJ wooden) (NN boat)"
    " | (DT a) (NN lamp) | (PRP$ her) (NN coat) | (DT a) (NN sandwich) | (NN cheese) | (NNS toys)"
    " | (DT a) (NN blanket) | (NN beer) | (DT a) (NN pizza) | (DT the) (NN dress) | (NN pottery)"
    " | (DT a) (NN table) | (CD two) (NNS baskets) | (NNS curtains) | (DT a) (NN salad)"
    " | (DT the) (NNS pancakes) | (DT a) (NN ring) | (NN soap) | (NN wine) | (DT a) (NN snowman)"
    " | (DT a) (NN bicycle) | (DT the) (NN key) | (DT a) (NN map) | (DT some) (NN tea)"
    " | (DT a) (NN nest) | (DT a) (NN tent) | (JJ warm) (NNS gloves) | (DT a) (NN cup)",
    "TIME": "(NP (NNP Friday)) | (NP (NN noon)) | (NP (NNP March)) | (NP (NN midnight)) | (NP (NNP"
    " Tuesday)) | (NP (CD 2031)) | (NP (NNP August)) | (NP (NN dawn)) | (NP (NNP Christmas))"
    " | (NP (CD six) (NN o'clock)) | (NP (NNP Sunday)) | (NP (JJ next) (NN week)) | (NP (NN lunch))"
    " | (NP (DT the) (NN weekend)) | (NP (CD 5) (NN pm)) | (ADVP (RB then)) | (ADVP (RB now))"
    " | (NP (NN tomorrow)) | (NP (NN tonight)) | (NP (NNP Wednesday)) | (NP (NNP May) (CD 3))"
    " | (NP (NN evening)) | (NP (DT the) (NN end) ) | (NP (CD 10) (NN a.m.)) | (NP (NNP October))"
    " | (NP (CD 1998)) | (NP (NN spring)) | (NP (NN year) (NN end)) | (NP (NNP Thanksgiving))",
    "MEANS": "(NN bus) | (NN boat) | (NN plane) | (NN phone) | (NN email) | (NN car) | (NN mail)"
    " | (NN ship) | (NN lorry) | (NN courier) | (NN bike) | (NN fax) | (NN post) | (NN tram)"
    " | (NN ferry) | (NN helicopter) | (NN telephone) | (NN horse) | (NN machine) | (NN mistake)"
    " | (NN accident) | (NN law) | (NN force) | (NN sea) | (NN road) | (NN foot) | (NN metro)"
    " | (NN messenger) | (NN radio) | (NN cheque) | (NN credit) (NN card) | (NN e-mail)",
    "AMOUNT": "(CD two) (NN percent) | (CD 15) (NN percent) | (CD 3) (NN %) | (CD forty) (NNS euros)"
    " | (DT a) (JJ few) (NNS points) | (CD 20) (NNS dollars) | (CD six) (NNS inches)"
    " | (DT a) (NN third) | (CD 200) (NNS pounds) | (CD half) | (CD 1.5) (NN %) | ($ $) (CD 80)"
    " | (CD 3) (NNS degrees) | (CD ten) (NNS miles) | (CD 25) (NNS cents) | (DT a) (NN quarter)",
    "DONE": " | ".join(f"(VBN|V.0 {verb})" for verb in (
        "made sold built delivered ordered opened tested read seen checked moved carried filled"
        " closed replaced reviewed fixed collected published shown taken solved broken removed"
        " signed accepted washed cooked planted copied discussed found repaired brought").split()),
    "CHANGED": " | ".join(f"(VBN|V.0 {verb})" for verb in
        "raised reduced increased expanded cut extended lowered".split()),
    "PRICE": "(DT The) (NN fee) | (PRP$ Their) (NNS wages) | (DT The) (NN budget) | (NNS Taxes)"
    " | (DT The) (NN rent) | (NNS Fares) | (PRP$ Her) (NN salary) | (DT The) (NN wall)",
    "SAID": "(VBD|V.0 said) | (VBD|V.0 said) | (VBD|V.0 shouted) | (VBD|V.0 added) | (VBZ|V.0 says)"
    " | (VBD|V.0 whispered) | (VBD|V.0 explained) | (VBD|V.0 cried) | (VBD|V.0 announced)",
    "QUOTED": "(NP (PRP I)) (VP (VBP am) (ADJP (JJ late))) | (NP (PRP It)) (VP (VBZ is) (ADJP (JJ"
    " cold))) | (NP (PRP We)) (VP (MD will) (VP (VB win))) | (VP (VB Stay) (ADVP (RB here)))"
    " | (NP (DT The) (NN shop)) (VP (VBZ is) (ADJP (JJ open))) | (VP (VB Close) (NP (DT the)"
    " (NN door))) | (NP (NN Nobody)) (VP (VBD called)) | (NP (DT That)) (VP (VBD was) (NP (DT a)"
    " (NN surprise))) | (NP (PRP You)) (VP (VBP are) (ADJP (JJ right))) | (VP (VB Wait))"
    " | (NP (PRP They)) (VP (VBD left) (ADVP (RB early))) | (VP (VB Look) (PP (IN at) (NP (PRP"
    " me)))) | (NP (DT The) (NN train)) (VP (VBZ has) (VP (VBN arrived)))",
    "ASKED": "(SBARQ|ARG1.0 (WHADVP (WRB Why)) (SQ (VBP are) (NP (PRP you)) (ADVP (RB here))))"
    " | (SBARQ|ARG1.0 (WHNP (WP Who)) (SQ (VP (VBZ is) (ADVP (RB there)))))"
    " | (SBARQ|ARG1.0 (WHNP (WP What)) (SQ (VBD was) (NP (DT that))))"
    " | (SBARQ|ARG1.0 (WHADVP (WRB When)) (SQ (VBZ is) (NP (NN dinner))))"
    " | (SBARQ|ARG1.0 (WHADVP (WRB How)) (SQ (VBD was) (NP (DT the) (NN trip))))"
    " | (SQ|ARG1.0 (VBP Are) (NP (PRP you)) (ADJP (JJ ready)))"
    " | (SQ|ARG1.0 (VBZ Is) (NP (PRP it)) (ADJP (JJ far)))"
    " | (SQ|ARG1.0 (MD Can) (NP (PRP we)) (VP (VB come) (ADVP (RB in))))",
    "INF": "(VB|V.1 swim) | (VB|V.1 sing) | (VB|V.1 wait) | (VB|V.1 leave) | (VB|V.1 cook)"
    " | (VB|V.1 read) | (VB|V.1 stay) | (VB|V.1 dance) | (VB|V.1 work) | (VB|V.1 drive)",
    "OPEN": '(`` ") | (`` “)',
}
WORDS["LATER"] = (
    " | (ADVP|ARGM-TMP.0 (RB yesterday)) | (PP|ARGM-TMP.0 (IN at) (NP (NN noon)))"
    " | (PP|ARGM-LOC.0 (IN in) (NP (DT the) (NN kitchen)))"
)
_BE = ("(VBD was)", "(VBZ is)", "(MD|ARGM-MOD.0 will) (VP (VB be)", "(VBZ has) (VP (VBN been)")
_OBJECT = "(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 %s) (NP|ARG1.0 {THING}) {LATER}) (. .))"
_BEHIND = "(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 %s) (NP|ARG1.0 {THING}) (ADVP (%s %s))) (. .))"
_ASK = "(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 %s) (NP|%s {HIM}) (S|%s.0 (VP (TO to) (VP {INF})))) (. .))"
_QUOTE = "(S (NP|ARG0.0 {ONE}) (VP {SAID} (%s) {OPEN} (S|ARG1.0 {QUOTED})) (. .) ('' \"))"
_FLAT = "(S (NP|ARG0.0 {ONE}) (VP {SAID}) (%s) {OPEN} (S|ARG1.0 {QUOTED}) (. .) ('' \"))"
_INITIAL = "(S {OPEN} (S|ARG1.0 {QUOTED}) (, %s) ('' \") (NP|ARG0.0 {ONE}) (VP {SAID}) (. .))"
_PROMISED = "(S (NP|ARG0.1 {ONE}) (VP (VBD promised) (NP {HIM}) (S (VP (TO to) (VP {INF})))) (. .))"
_ASIDE = "(S (S (NP|ARG0.0 {ONE}) (VP {SAID})) (, ,) {OPEN} (S|ARG1.0 {QUOTED}) (. .) ('' \"))"


def _by(subject: str, verb: str, role: str, phrase: str, be: str) -> str:
    """Return a template of a passive with a phrase with "by"."""
    close = ")" * (be.count("(") - be.count(")"))
    return (
        f"(S (NP|ARG1.0 {{{subject}}}) (VP {be} (VP {{{verb}}} (PP|{role}.0 (IN by) {phrase}))"
        f"{close}) (. .))"
    )


# Templates with the roleset of the predicate 0; "" for that which the pipeline finds.
TEMPLATES: tuple[tuple[str, str], ...] = (
    (_OBJECT % "made", "make.01"),
    ("(S (NP|ARG0.0 {ONE}) (VP (MD|ARGM-MOD.0 can) (VP (VB|V.0 make) (NP|ARG1.0 {THING}))) (. .))",)
    + ("make.01",),
    ("(S (VP (VB|V.0 Make) (NP|ARG1.0 {THING}) {LATER}) (. .))", "make.01"),
    (_OBJECT % "took", "take.01"),
    (_OBJECT % "had", "have.03"),
    (_OBJECT % "got", "get.01"),
    ("(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 gave) (NP|ARG2.0 {HIM}) (NP|ARG1.0 {THING})) (. .))",)
    + ("give.01",),
    *((_by(*own, be), "") for be in _BE for own in (
        ("THING", "DONE", "ARG0", "(NP {AGENT})"), ("THING", "DONE", "ARGM-TMP", "{TIME}"),
        ("THING", "DONE", "ARGM-MNR", "(NP {MEANS})"), ("PRICE", "CHANGED", "ARG2", "(NP {AMOUNT})"),
        ("PRICE", "CHANGED", "ARG0", "(NP {AGENT})"))),
    *((_QUOTE % mark, "") for mark in (", ,", ": :")),
    (_FLAT % ", ,", ""),
    (_ASIDE, ""),
    (_INITIAL % ",", ""),
    ("(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 asked) (, ,) {OPEN} {ASKED}) (. ?) ('' \"))", "ask.01"),
    ("(S (NP|ARG0.0 {ONE}) (VP (VBD|V.0 asked)) (, ,) {OPEN} {ASKED} (. ?) ('' \"))", "ask.01"),
    ("(S {OPEN} {ASKED} (. ?) ('' \") (NP|ARG0.0 {ONE}) (VP (VBD|V.0 asked)) (. .))", "ask.01"),
    (_ASK % ("taught", "ARG2.0,ARG0.1", "ARG1"), "teach.01"),
    (_ASK % ("told", "ARG2.0,ARG0.1", "ARG1"), "tell.01"),
    (_ASK % ("asked", "ARG2.0,ARG0.1", "ARG1"), "ask.02"),
    (_PROMISED, ""),
    (_BEHIND % ("threw", "RB", "away"), "throw_away.07"),
    (_BEHIND % ("gave", "RB", "away"), "give_away.02"),
    (_BEHIND % ("took", "RB", "away"), "take_away.05"),
)
_NAME, _ROLES = re.compile(r"\{(\w+)\}"), re.compile(r"\|(\S+)")


def generated(nlp: Language) -> Iterator[Doc]:
    """Yield a Doc for each sentence, with its tree and its frames.

    Frames of predicates that the template does not have are those of the pipeline.
    """
    random, labeler = Random(0), nlp.get_pipe(COMPONENT)
    for template, roleset in TEMPLATES:
        for _ in range(NUMBER):
            text = template
            while _NAME.search(text):
                text = _NAME.sub(lambda name: random.choice(WORDS[name[1]].split(" | ")), text)
            text = re.sub(r" (\w)(?=[^ ]*\))", lambda first: first[0].upper(), text, count=1)
            own: dict[str, list[tuple[str, int, int]]] = {}
            for node in placed_nodes(parse_tree(f"(TOP {text})")):
                for role in node.label.partition("|")[2].split(","):
                    label, _, number = role.partition(".")
                    own.setdefault(number, []).append((label, node.start, node.end))
            tree = parse_tree(_ROLES.sub("", f"(TOP {text})"))
            starts = [number == 0 for number in range(len(tree.words()))]
            doc = Doc(nlp.vocab, tree.words(), tags=tree.tags(), sent_starts=starts)
            set_spans(doc, CONSTITUENTS, tree.spans()[1:])
            for name, component in nlp.pipeline:
                if name in (ENCODER, COMPONENT):
                    doc = component(doc)
            quoted = [span[1:] for spans in own.values() for span in spans if span[0] == "ARG1"]
            plain = {frame[0]: frame for frame in _plain(doc, quoted)}
            for number, (*spans,) in own.items():
                for _, at, _ in (span for span in spans if span[0] == PREDICATE):
                    known = plain[at][1] if at in plain else None
                    name = roleset if number == "0" and roleset else known
                    plain[at] = at, name, [span for span in spans if span[0] != PREDICATE]
            set_spans(doc, SRL, frame_spans(plain[at] for at in sorted(plain)))
            yield doc


def _plain(doc: Doc, clauses: Iterable[tuple[int, int]]) -> Iterator[PlainFrame]:
    """Yield the frames of a Doc. Predicates inside of clauses have their arguments there."""
    for frame in doc._.frames:
        at = frame.predicate.start
        begin, end = next((own for own in clauses if own[0] <= at < own[1]), (0, len(doc)))
        spans = [(a.label, a.span.start, a.span.end) for a in frame.arguments]
        inside = [span for span in spans if begin <= span[1] and span[2] <= end]
        yield at, frame.roleset, inside


def _extended(stage: str, model: LogLinear) -> LogLinear:
    """Add the templates and variables of a stage that its model does not have yet."""
    known = set(map(frozenset, model.templates))
    wanted = map(tuple, srl_templates(stage, classes=True))
    new = [template for template in wanted if frozenset(template) not in known]
    variables = PREDICATE_FEATURES if stage in (PREDICATES, SENSES) else OF_CANDIDATES
    new = [tuple(sorted(template, key=variables.index)) for template in new]
    return model.replaced(templates=(*model.templates, *new), variables=variables)


def learn_on(nlp: Language, docs: Iterable[Doc], passes: int = PASSES) -> None:
    """Let the labeler of a pipeline learn on from Docs with trees and frames.

    Templates that its model does not have yet are added. passes: of site scorers.
    """
    labeler = nlp.get_pipe(COMPONENT)
    labeler.parameters = Stages(
        {stage: _extended(stage, labeler.parameters[stage]) for stage in labeler.parameters}
    )
    examples = [to_example(doc, spans=[CONSTITUENTS]) for doc in docs]
    if nlp.has_pipe(ENCODER):
        for example in examples:
            nlp.get_pipe(ENCODER)(example.predicted)
    iterations, labeler.iterations_per_step = labeler.iterations_per_step, 1000
    for _ in range(passes):  # the stages are learned in the first one
        labeler.update(examples)
    labeler.iterations_per_step = iterations


def main() -> None:
    parser = options(__doc__, "corpora", "work")
    parser.add_argument("output", type=Path, help="folder of the pipeline")
    parser.add_argument("pipeline", help="its name or path")
    args = parser.parse_args()
    nlp = spacy_structlearn.load(args.pipeline)
    docs = read_docs(build_docs(args.corpora, args.work)["train"], nlp.vocab)
    learn_on(nlp, [*docs, *generated(nlp)])
    fitting.save(nlp, args.output)


if __name__ == "__main__":
    main()
