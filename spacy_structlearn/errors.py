"""All errors and warnings of the package, each with a stable code that can be searched for.

A message says what is wrong and where (file and line, component, attribute), and how to correct it.
Codes are never reused. SL0xx: components, configuration, models on disk; SL1xx: trees and corpus
files; SL2xx: sequences and optimization; SL3xx: evaluation; SL4xx: grammars; SL5xx: classification;
SL6xx: incremental sigmoid belief networks; SL7xx: search in trees; SL8xx: warnings. Hidden
characters of texts, labels and names are shown as escapes.
"""

import re
from functools import partial
from typing import Any

LONGEST = 1000  # characters of a text in a message
# Control characters except tab and newline, surrogates, and invisible characters: marks of
# direction, the byte order mark, and the characters of tags.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Replace hidden characters by escapes such as \u001b, which JSON has too."""
    return HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[begin : begin + 4]}" for begin in range(0, len(units), 4))


class StructlearnError(ValueError):
    """Raised for bad input. `code` is the stable code, e.g. "SL101"."""

    def __init__(self, code: str, **fields: object):
        self.code = code
        self.fields = fields
        super().__init__(message(code, **fields))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions travel between processes (nlp.pipe with n_process > 1): rebuild from the
        # code and the fields, which BaseException's own protocol would not pass.
        return partial(type(self), self.code, **self.fields), ()


class NonConstituentException(StructlearnError):
    """Raised if a span that is not a constituent is read as one. The name is that of benepar."""


def message(code: str, **fields: object) -> str:
    """Return the message of an error or a warning, with its code in front.

    Of long texts, the beginning and the end are shown.
    """
    cut = {name: _cut(value) for name, value in fields.items()}
    return visible(f"[{code}] " + MESSAGES[code].format(**cut))


def _cut(value: object) -> object:
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    half = LONGEST // 2
    return f"{value[:half]}...{value[-half:]}"


MESSAGES = {
    # --- SL0xx: components, configuration, models on disk -------------------------------------
    "SL001": "{component!r} reads {attribute}, but the Doc {text!r} has none. Put a component "
    "that sets it earlier in the pipeline and leave it enabled. In training, wrap the reader of "
    "[corpora.train] in spacy_structlearn.CrossPredicted.v1, which lets this component predict it.",
    "SL002": "{component!r} has not been trained. Load a trained pipeline, or call "
    "nlp.initialize() with examples and then train it.",
    "SL003": "{component!r}: {attribute!r} is not a token attribute of spaCy. In templates, "
    "word and tag, use names such as ORTH, LOWER, NORM, SHAPE, PREFIX, SUFFIX, TAG.",
    "SL005": "{component!r}: no training example has {annotation} in its reference Doc. Check "
    "the reader of the training corpus.",
    "SL006": "{component!r} cannot add the label {label!r}, because the labels are fixed when "
    "the component is initialized. Add it before, or initialize the component again.",
    "SL007": "doc.noun_chunks: the Doc {text!r} has no NP chunks. Run a pipeline with np_chunker "
    "first.",
    "SL008": "{component!r} is not a component of spacy_structlearn, so `structlearn train` "
    "cannot train it. List it in [training] frozen_components, or use `spacy train`.",
    "SL010": "No such file: {path}",
    "SL011": "{path}, line {line}: found {found} columns, expected 3 (word, tag, chunk tag). Put "
    "an empty line after each sentence.",
    "SL012": "{other} does not match {path}: they differ at sentence {number}. Both files must "
    "have the same sentences with the same tokens.",
    "SL013": "{path} is not a DocBin, or it is damaged ({problem}). `structlearn convert` makes a "
    "DocBin from trees or columns; otherwise, write it again with DocBin.to_disk.",
    "SL014": "{path} already exists and is not a pipeline, so it is not overwritten. Choose "
    "another output directory, or remove it yourself.",
    "SL015": "{path} has no section [training]. Start from one of the configs "
    "in spacy_structlearn/pipeline/configs.",
    "SL060": "{path}: the format cannot be recognized from the first line. If the format is one "
    "of {known}, give it with --reader.",
    "SL063": "{path} is empty: it contains no documents. Check that this is the right file.",
    "SL064": "{path}, line {line}: {problem}. Every line must be a JSON object with a string "
    '"text".',
    "SL065": "{path}, text {number} has at least {length} characters; the pipeline accepts at "
    "most {most}. Split it into shorter texts.",
    "SL068": "{path}: of the {kind}, {name} was {found} when files were written, and is {value}. "
    "Choose another output folder, remove the files that were made from it, or give --force, which "
    "makes all files anew.",
    "SL069": "{folder} contains no files to read. Hidden files are skipped; check that this is "
    "the right folder.",
    "SL072": "A process died while it parsed {place}, or texts behind them. Perhaps the system "
    "killed it for lack of memory: choose fewer processes, or smaller batches. Finished files are "
    "kept, and the same command continues.",
    "SL073": "{held_out} of the {of} documents of {path} would be held out. Choose another "
    "share, so that both parts have at least one document.",
    "SL075": "{path} is {what}, not a text. Use `structlearn apply` to parse it.",
    "SL076": "No such file: {path}. If it is a text, give it on standard input: echo {path} | "
    "structlearn parse -",
    "SL078": "{path}, which records the settings of this output folder, is damaged ({problem}). "
    "Remove the folder, or choose another one.",
    "SL079": "Ray failed: {problem}. See Ray's logs for details.",
    "SL058": "{path} is the output, and also {other}. Give different files.",
    "SL059": "{path} is there already, and it may be of another input. Choose another output, or "
    "give --force, which replaces it.",
    "SL100": "{path} also has what was made from {name}, and this command would not make it again. "
    "Choose another output folder.",
    "SL050": "These bytes are not a {kind} of spacy-structlearn. Give the file or the bytes that "
    "to_disk or to_bytes wrote.",
    "SL051": "This {kind} is damaged: it was cut short or changed after it was written. Copy or "
    "download it again.",
    "SL052": "Expected a {kind}, but these bytes contain a {found}. Check that the right file is "
    "loaded.",
    "SL053": "This {kind} has format version {found}; this installation reads: {known}. Upgrade "
    "spacy-structlearn, or train the model again.",
    "SL054": "This {kind} does not have the format that spacy-structlearn writes: {problem}. "
    "Write it again with to_disk or to_bytes.",
    "SL055": "Cannot store {where}: {problem}. Use numeric NumPy arrays, str, int (64 bits), "
    "float, bool, None, and lists, tuples and dicts of these.",
    "SL056": "{path} cannot be read: its sections are nested too deeply. Check that this is the "
    "right file.",
    "SL080": "{component!r} cannot load {place}: {problem}. If the file is damaged, copy or "
    "download the pipeline again.",
    "SL081": "{place} does not contain the settings of a component ({problem}). Copy or download "
    "the pipeline again.",
    "SL082": "{component!r} cannot load {place}: it was not saved by the architecture "
    "{architecture!r}, or it is damaged. Load it with the config that it was saved with, or copy "
    "or download the pipeline again.",
    "SL083": "{path} {problem}. Copy or download the pipeline again; if you edited it on "
    "purpose, delete {digests}.",
    "SL084": "{path} cannot be loaded ({problem}). Copy or download the pipeline again, and "
    "install the packages that it was made with.",
    "SL085": "{path} is not a training checkpoint, or it is damaged ({problem}). Delete it, and "
    "the training begins anew.",
    "SL086": "The reader gives the tags of the corpus to the predicted Docs, where they would pass "
    "for predictions of {component!r}: the scores would be too high. Set tags = false in the "
    "readers of [corpora], and if other components read tags, wrap the reader of [corpora.train] "
    "in spacy_structlearn.CrossPredicted.v1.",
    "SL087": "Cross-prediction needs at least 2 documents. Check the reader of the corpus.",
    "SL016": "Token {index} cannot be given the tag {tag!r}. The token must not be white space, "
    "and the tag must be one of the model's: {tags}.",
    "SL017": "The pipeline has no component {component!r}. Its components are: {names}.",
    "SL018": "{component!r}: n_best takes a Doc of one sentence, and this Doc has {number}. Pass "
    "`sentence.as_doc()`.",
    "SL019": "{component!r} is not a component whose features can be listed. Try np_chunker.",
    "SL020": "The Doc {text!r} has no constituents. Run a pipeline with a constituency_parser "
    "first; sentence.as_doc() and Doc.from_array do not copy constituents, so read them from the "
    "whole Doc.",
    "SL021": "{text!r} is not a constituent. Check span._.is_constituent first, or use one of "
    "the spans in span.sent._.constituents.",
    "SL022": "{component!r}: the reference Doc {text!r} has constituents but no tags, and a "
    "grammar is learned from both. Set tag_ of its tokens, or read the treebank with a reader of "
    "spacy_structlearn.",
    "SL024": "{component!r}: k_best takes one sentence, and this Doc has {number}. Pass one of "
    "doc.sents.",
    "SL025": "{component!r}: k_best was given {number} words and accepts at most {most}. Pass a "
    "part of the sentence, or increase max_length; memory grows with its square.",
    "SL026": "{component!r} needs {missing}, and the Doc {text!r} has none. Put the component "
    "that sets it earlier in the pipeline and leave it enabled; in training, use a reader that "
    'gives trees to the predicted Docs, with spans = ["constituents"].',
    "SL027": 'doc.spans["pp_attachments"] of the Doc {text!r} does not have the layout that '
    "pp_attacher writes. Each phrase must be followed by four spans labelled verb, noun, prep "
    "and object.",
    "SL028": "{path}, line {line}: {text!r} is not a quadruple. Write six columns: number, verb, "
    "noun, preposition, noun, and V or N.",
    "SL029": "{component!r} cannot use a model of the type {model!r}, which has no {missing}. "
    "Choose an architecture made for this component, such as its default.",
    "SL030": "{component!r} was trained with the variable {variable!r}, which it cannot compute "
    "now. Give it the lemmatizer and the word classes that it was trained with.",
    "SL032": "{component!r} has no label {label!r}. Its labels are: {labels}.",
    "SL033": 'doc.spans["srl"] of the Doc {text!r} does not have the layout that srl_labeler '
    "writes. Each frame must begin with its predicate, a span labelled V, and frames must be in "
    "the order of their predicates.",
    "SL034": "{path}, line {line}: sentence {number} has {found} where it has {wanted} in "
    "{trees}. Both files must have the same sentences with the same tokens.",
    "SL035": "{path} is not in UTF-8 ({problem}). Convert it, for example with iconv -f {encoding} "
    "-t utf-8.",
    "SL036": "{component!r} cannot use a model with the stages {found}. It needs identification, "
    "and roles as the last stage; predicates and senses may come before, and no others.",
    "SL037": "{component!r} cannot be calibrated, because all of its arguments are right, or all "
    "are wrong. Give more examples with gold frames, whose predicted Docs were parsed and have "
    "the same tokens.",
    "SL038": "{path}, line {line}: {text!r} does not describe the spaces of a sentence. Write "
    "one digit per token: 0 for nothing after it, 1 for a blank, 2 for a blank line.",
    "SL039": "There are no templates for the stage {stage}. There are templates for: {known}.",
    "SL047": "{component!r} cannot use a model with the stages {found}. It needs {wanted}, in this "
    "order; see the default of the factory tree_dependencies.",
    "SL049": "{component!r} cannot be calibrated, because all of its arcs are right, or all wrong, "
    "or there are none. Give it more documents with gold dependencies and predicted trees.",
    "SL048": "{path} is in {format}. {remedy}.",
    "SL043": "{learner}: {name} is {value}; it must be {wanted}",
    "SL088": "{component!r} cannot load {place}: the model was trained to read {found}, but the "
    "settings of its architecture (templates, or word and tag) read {wanted}. Load it "
    "with the settings that it was saved with, or train a new one.",
    "SL091": "The path of a corpus is null. Give --paths.train and --paths.dev, or set `path` in "
    "[corpora] of the config.",
    "SL093": "{path} is not plain text, according to its name. Convert it to JSONL, with one "
    'object with a "text" per line; if it is plain text, rename it to .txt.',
    "SL094": "{component!r} cannot learn on from its trained parameters, because its learner, "
    "{learner}, cannot. To train it from scratch on the new data, set component.reinitialise = "
    "True (`structlearn adapt --reinitialise {component}`), or use `factory` in place of `source` "
    "in the config.",
    "SL095": "{learner} cannot learn on from trained parameters. Train it from scratch.",
    "SL096": "{source} has no gold annotation for {components}. `structlearn convert` reads it "
    "from treebanks, PropBank's columns, chunks in columns, and quadruples. A sentence splitter "
    "needs documents of several sentences, with their spaces.",
    "SL097": "The pipeline has no component {component!r} that `structlearn adapt` can train. "
    "Choose from: {names}.",
    "SL098": "{path} is being written by {process}. Wait until it ends, or choose another output. "
    "To share the work of `structlearn apply`, give each process its own --shard.",
    "SL099": "{path} is {kind}, where a file is expected. Remove it, or copy or download the "
    "files again.",
    "SL057": "{path} is a link that leads out of its folder, in a circle, or nowhere. Replace it "
    "by the file itself; `cp -rL FOLDER COPY` copies a folder without links.",
    "SL089": "{place} was saved by {found}, and {component!r} is {wanted}. Put each component's "
    "own files in its place, or copy or download the pipeline again.",
    # --- SL1xx: trees and corpus files --------------------------------------------------------
    "SL101": "{path}, line {line}: a closing bracket without an opening one. Remove it, or look "
    "for an extra bracket earlier in the file.",
    "SL102": "{path}, line {line}: the text ends inside the tree that began on line {began}. Add "
    "the missing closing brackets.",
    "SL103": "{path}, line {line}: {text!r} is outside of any tree. Every line of a treebank "
    "file is bracketed; remove comments and headers.",
    "SL104": "{path}, line {line}: empty brackets. Give the tree at least one leaf, (TAG word).",
    "SL105": "{path}, line {line}: a bracket contains only {text!r}. If it is a word, add its "
    "tag: (TAG word); if it is a phrase, add its children.",
    "SL106": "{path}, line {line}: {text!r} has neighbours in its bracket. Put each word alone "
    "in a bracket with its tag: (TAG word).",
    "SL107": "Expected exactly one tree in the text, found {count}. Use read_trees for several.",
    "SL108": "A tree has either a word (a leaf) or at least one child, but the node {label!r} "
    "has both or neither.",
    "SL109": "These brackets do not form a tree: {problem}. They must be in pre-order; the first "
    "covers all tokens, and each of the others lies within its parent.",
    "SL111": "The leaf ({tag} {word}) has no children, so it has no head child. Ask for the head "
    "child of phrases only.",
    "SL113": "Expected one probability for each of {brackets} brackets, in the order of "
    "tree.spans(); got {found}.",
    "SL117": "This frame does not fit on {n} words: {problem}. Count words from 0, with "
    "exclusive ends; arguments in columns must not overlap.",
    "SL120": "The attachment of the tokens {start} to {end} is {label!r}. Set it to 'V', for the "
    "verb, or 'N', for the noun; chains_from_chunks leaves it open.",
    "SL121": "{path} is not a gzip file, or it is damaged ({problem}). Copy or compress it "
    "again; if it is plain text, remove .gz from its name.",
    "SL122": "{path} expands to more than {ratio} times its size, so it is not read. If this is "
    "right, store it uncompressed, or divide it into smaller files.",
    "SL123": "{path}, line {line} has more than {longest} characters. Check that this is the right "
    "file, and divide it into shorter lines.",
    "SL124": "{path}, line {line}: more than {most} brackets are open, as in no sentence. Close "
    "them, or look for a missing closing bracket earlier in the file.",
    "SL125": "{folder} has no file with a name that ends in {endings}, but for example {name}. "
    "Rename the files, or give `apply` an --input-format, with which it reads all of them.",
    "SL126": "{path}, line {line}: the tag {tag!r} is not in the IOB scheme. Use O, or B or I, "
    "each with a type (B-NP) or without; convert other schemes, such as IOBES.",
    "SL127": "{path} is not plain text: it has characters that no text has, as in PDF, in files of "
    "word processors and in archives. Extract its text first, for example with pdftotext.",
    "SL128": "{path}, line {line}: {problem}. Write CoNLL-U: ten columns with tabs between them, "
    "words numbered from 1 in each sentence, heads that are such numbers, one of them 0, and an "
    "empty line after the sentence.",
    "SL129": "The pipeline ({model}) has no {component}, which makes dependencies of trees. Give "
    "another one with --model, or write a DocBin.",
    "SL130": "{path}, line {line}: {problem}. Write the columns document, sentence number, token "
    "number, word, tag, parse bit, lemma or -, roleset or -, and one for each predicate.",
    "SL131": "Token {token} is not one of the {n} tokens of the trees. Count tokens from 0, with "
    "exclusive ends.",
    "SL132": "There is no role feature {name!r}. The features are: {known}.",
    "SL140": "doc._.{name} is not registered, so it cannot be drawn. Load a pipeline of "
    "spacy_structlearn first, or call spacy_structlearn.pipeline.extensions.register().",
    "SL141": "Expected {wanted}, such as nlp(text), not an object of the type {kind}.",
    "SL142": "The Doc {text!r} has no {what} to draw. Run a pipeline with {component} first.",
    "SL144": "The tree cannot be edited at {node}. Give the path of one of its nodes; a tree keeps "
    "one root, and a node that moves keeps its words in their order.",
    "SL180": "{value!r} is no choice of phrases. Give which as one of: {known}.",
    "SL181": "The package {package} is not installed. Install it: pip install {package}",
    "SL182": "The word {word!r} has no tag. Put each word alone into a Tree with its tag, such as "
    "Tree('NN', ['dog']).",
    "SL190": "{component!r}: no tree of {text!r} meets the constraints on {constraints} (in "
    "tokens). Remove one of them. A bracket that must be cannot cross another one or the end of "
    "the sentence.",
    "SL191": "{component!r} needs sentence boundaries, and the Doc {text!r} has none. Put "
    "sentence_splitter or sentencizer in front of it, or set token.is_sent_start. If each Doc is "
    'one sentence, set nlp.get_pipe("{component}").one_sentence = True.',
    "SL192": "{component!r} reads vectors, and the Doc {text!r} has none for its tokens. Put "
    "token_encoder in front of it and leave it enabled. Copies and merged Docs have no vectors; "
    "with its setting set_tensor they are in doc.tensor, too.",
    "SL193": "token_encoder needs onnxruntime, which is not installed. Install it: "
    "pip install 'spacy-structlearn[md]'",
    "SL194": "{component!r} has no encoder. Take it from a pipeline that has one: "
    "nlp.add_pipe({component!r}, source=spacy_structlearn.load('en_structlearn_md')).",
    "SL195": "{component!r} has learned from vectors of {wanted} numbers, and those of the Doc "
    "{text!r} have {found}: they are of another encoder. Put the token_encoder in front of it that "
    "{component!r} was trained with, or train it on these vectors from scratch, after "
    "nlp.get_pipe({component!r}).reinitialise = True.",
    "SL198": "{component!r} finds trees by derivations, which cannot be scored by an encoder nor "
    "reranked. Set encoder to false and rerank to 0, or choose a grammar, such as LatentGrammar.",
    # --- SL2xx: sequences and optimisation ----------------------------------------------------
    "SL201": "The template {text!r} is malformed. Write column[offset], or several joined by |, "
    "for example TAG[-1]|TAG[0]; write bias for the predicate that is always true.",
    "SL202": "The template {text!r} is given twice. Remove one.",
    "SL203": "The offsets do not delimit sentences of {n_tokens} tokens. They must start with 0, "
    "never decrease, and end with the number of tokens.",
    "SL204": "Expected columns of shape ({n_tokens}, {n_columns}), one for each of {columns}; "
    "got shape {shape}.",
    "SL205": "This chain model is empty. Train it or load a trained one before using it.",
    "SL206": "The parts of a chain model do not match: {problem}.",
    "SL207": "Expected one label id from 0 to {last} for each of {n_tokens} tokens; got {problem}.",
    "SL208": "The weights overflow {dtype}. Use float32, or train with a larger l2.",
    "SL209": "{name} must be {wanted}, not {value}.",
    "SL210": "The tag {tag!r} is not in the {scheme} scheme. Use O, or a label after one of "
    "{prefixes} and a hyphen.",
    "SL211": "The span {span!r} cannot be written as tags: it is empty, has no label, or lies "
    "outside of the {length} tokens.",
    "SL212": "The spans {first!r} and {second!r} overlap and cannot both be written as tags. "
    "Remove one of them.",
    "SL240": "The parts of word classes do not match: {problem}.",
    "SL241": "The templates read word classes (CLASS), but no classes are given. Set `classes` "
    "of the architecture to a file of word classes, or remove these templates.",
    "SL242": "A component uses the word classes of the pipeline in which it was saved, and those "
    "of this pipeline are {problem}. Load the whole pipeline with its vocab. Or save the component "
    "in a pipeline that has the classes: share_classes(nlp.vocab, word_classes(source.vocab)).",
    "SL216": "Expected the allowed label, 0 to {last} or -1 for any, of each of {n_tokens} tokens; "
    "got {problem}.",
    "SL217": "A sentence has no possible label sequence. Allow more labels where some are fixed, "
    "and smooth a model that forbids unseen transitions.",
    "SL220": "The objective is {value} with a gradient of shape {shape} at the starting point. "
    "Both must be finite, with one partial derivative for each of {n} parameters.",
    "SL226": "There are no examples to estimate from. Give at least one labelled sentence.",
    "SL246": "The base distribution has {problem}. Give every reachable label a probability of "
    "ending the sentence, for example by smoothing.",
    "SL247": "The base distribution and the model do not match: there are {problem}. Use the "
    "same labels and columns for both.",
    "SL255": "With joint = true, each template must read one position, but {template!r} reads "
    "several. Remove it, or set joint = false.",
    "SL256": "Joint pseudolikelihood sums over all symbols of a column, but the model has no "
    "vocabulary of {column}. Initialize it with the same estimator, or set `vocabularies`.",
    "SL257": "A symbol of {column}, at token {at}, is not in the vocabulary of the model. "
    "Replace it by features.UNKNOWN, as `ChainModel.derive` does.",
    "SL258": "Joint pseudolikelihood treats every column as a separate variable, but {column} is "
    "a function of the word. Remove its templates, or set joint = false.",
    "SL250": "Ray is not installed. Install it with: pip install 'spacy-structlearn[ray]'",
    "SL270": "The pipeline cannot be served, because a worker could not load it: {problem}",
    "SL271": "{what}: {problem}.",
    # --- SL3xx: evaluation --------------------------------------------------------------------
    "SL301": "Got {gold} gold but {predicted} predicted {what}. Score the same {what} on both "
    "sides, in the same order.",
    "SL302": "Sentence {sentence} has {gold} gold but {predicted} predicted tags. Give one tag "
    "for each token on both sides.",
    "SL303": "The tag {tag!r} at position {position} is not in the IOB scheme. Use O, or B or I, "
    "each with a type (B-NP) or without.",
    "SL304": "The texts of document {document} differ from character {at} on (without white "
    "space): {gold!r} in the gold text, {predicted!r} in the predicted text. Score the same text.",
    "SL305": "The span {span!r} is empty or goes beyond the {length} tokens of its document.",
    "SL306": "Sentence {sentence}: word {place} is {gold!r} in the gold tree and {predicted!r} "
    "in the predicted one. To delete punctuation by the gold tags, use the same words on both "
    "sides.",
    "SL307": "punctuation is {value!r}; it must be 'own' (the tags of each tree) or 'gold'.",
    "SL310": "Expected one probability and one bool for each prediction; got arrays of the "
    "shapes {probabilities} and {right}.",
    "SL311": "Prediction {place} (counted from 0) has the probability {value}. Give numbers from "
    "0 to 1.",
    "SL312": "Cannot put predictions into {bins} bins. Give an integer of at least 1.",
    "SL320": "{argument!r} is not an argument. Give a label, a start, and an end greater than "
    "the start.",
    # --- SL4xx: grammars ----------------------------------------------------------------------
    "SL401": "There is no binarization {value!r}. Choose one of {known}.",
    "SL403": "The parts of a latent grammar do not match: {problem}.",
    "SL405": "No {kind} function is registered as {name!r}; registered are: {known}. Import the "
    "package that registers it before the model is loaded.",
    "SL407": "There are no trees to learn from. Check the reader of the treebank.",
    "SL408": "{learner} cannot learn on: its weights of productions are no counts. Train it from "
    "scratch on the old and the new trees.",
    "SL409": "{path} has {number} grammars, which are fewer than the setting `grammars` asks for. "
    "Train more of them, or set `grammars` to {number}.",
    "SL420": "There is no model to parse with, or it is empty. Train one or load one first.",
    "SL421": "{name} is {value!r}; it must be {wanted}.",
    "SL422": "The grammars have different symbols or rules. Combine only grammars that were "
    "trained on the same trees.",
    "SL423": 'Expected one tag for each word of each sentence. Use "" for an unknown tag.',
    "SL424": "{right} of {number} brackets are right. To fit a temperature, give brackets of "
    "which some are right and some are wrong.",
    "SL425": "A scorer returned scores of shape {shape}, expected {wanted}, or scores that are "
    "NaN or +inf. Return one number, or -inf, for each item of the forests.",
    "SL426": "The parser needs a latent grammar, several of them, or one span grammar.",
    "SL428": "{constraint!r} is not a constraint on a sentence of {number} words. Give its start "
    "and end in words, its label or None, and whether the bracket must be.",
    "SL429": "Got constraints of {number} sentences for {of} sentences. Give the constraints of "
    "each sentence, or None.",
    "SL430": "{text!r} is not a template of features of a {kind}. Join terms such as {examples} "
    'by |, or write "bias".',
    "SL433": "The parts of a span grammar do not match: {problem}.",
    "SL434": "A grammar cannot be trained on {problem}. Give at least two trees.",
    "SL440": "The grammar does not define a distribution of trees: {problem}. Use a generative "
    "grammar learned from trees.",
    "SL441": "{text!r} is not a template of features of fragments: {problem}. Begin with RULE, "
    "LABEL or TAG, and join, by |, PARENT and SIBLING, or terms such as WORD[first].",
    "SL443": "The expectations of a product of {members} grammars have no closed form. Use a "
    "single grammar as the base of M-estimation.",
    "SL444": "A sentence of {number} words is too long to parse: it takes more memory than there "
    "is, or has more productions than can be counted. Set sentence boundaries, or parse parts of "
    "it, as the parser component does above its `max_length`.",
    "SL445": "The scorer of spans has labels {labels} and reads {slots} vectors. It must have the "
    'labels of phrases after the label "" of no phrase, and read 4 vectors.',
    "SL446": "Got vectors of shape {shape} for a sentence, expected {wanted}. Give the parser the "
    "vectors of the encoder with which its scorer of spans was trained, one for each word.",
    # --- SL5xx: classification ----------------------------------------------------------------
    "SL501": "The variables {variables} do not form a table: {problem}. Give each column a "
    "different name.",
    "SL502": "The table is not rectangular: {what} has {found} values, expected {wanted}. Give "
    "every instance a value for each variable, or None if it is missing.",
    "SL503": "There is no variable {variable!r}. The variables of the table are: {known}.",
    "SL504": "Expected one label, a string, for each of {rows} instances; got {found}.",
    "SL506": "Expected a table, but {what} is {found}. Give rows, each a list of values, or a "
    "dict from column names to lists of values.",
    "SL507": "The development data must be a pair of rows and labels, not {found}.",
    "SL510": "The Bayes net is empty or has no labels. Fit it, or load a fitted one first.",
    "SL511": "The structure does not define a Bayes net: {problem}. Map each variable that is "
    "used to the list of its parents, without the class, and omit the others.",
    "SL522": "The log-linear model has no labels. Train it, or load a trained one.",
    "SL530": "There is no stage {stage!r}. The stages are: {known}.",
    "SL531": "The stage {stage!r} is {found}, which is not a classifier. Use the "
    "architecture spacy_structlearn.LogLinear.v1 or spacy_structlearn.BayesNet.v1 for it.",
    "SL532": "The stage {stage!r} has word classes, which belong to all stages. Move the setting "
    "classes to the block of spacy_structlearn.Stages.v1.",
    "SL533": "The order of the stages is {order}. Name each stage to be learned once, and the "
    "main one last.",
    "SL540": "Cannot calibrate with {problem}. Give probabilities of shape (rows, sources) and "
    "one bool per row; some must be true and some false.",
    # --- SL6xx: incremental sigmoid belief networks -------------------------------------------
    "SL600": "The symbols of derivations do not match: {problem}.",
    "SL604": "The parts of a sigmoid belief network do not match: {problem}.",
    "SL621": "A sigmoid belief network cannot be trained on {problem}. Give normalized trees "
    "whose tags and labels were all seen by `initialize`, and hold fewer of them out.",
    "SL622": "The weights of the sigmoid belief network diverged in epoch {epoch}. Use a "
    "learn_rate far below {value}.",
    "SL633": "A sigmoid belief network parses without constraints. Remove the spans that constrain "
    "the trees, set constraint_keys = [], or use a grammar.",
    "SL640": "No sigmoid belief network can be made with {problem}.",
    "SL641": "Cannot compute with the derivations: there is {problem}. Encode the trees with the "
    "symbols of the same model.",
    "SL642": "Derivation {sentence} is not legal at move {move}. Encode a complete tree with the "
    "symbols of the same model.",
    # --- SL7xx: search in trees ---------------------------------------------------------------
    "SL701": "The pattern {text!r} is malformed at character {place}: expected {wanted}. Put "
    "quotes around labels with signs of relations, and brackets around a node with relations of "
    "its own.",
    "SL702": "Node {number} of the pattern, counted from 0: {problem}.",
    "SL703": "The matcher has no pattern {key!r}. It has: {known}.",
    "SL704": "{path}, text {number}: its trees cannot be read ({problem}). Write the file again "
    "with `structlearn apply`, or remove the key trees, and the text is parsed.",
    "SL705": "The regular expression {regex!r} may take too long on a text of {length:,} "
    "characters. Write it with fewer repeats, and none of alternatives or of other repeats.",
    "SL706": "The pattern with the nodes {nodes!r} has {found:,} matches in one tree; at most "
    "{most:,} are listed. Give it labels or nearer relations, or only count its matches.",
    # --- SL8xx: warnings ----------------------------------------------------------------------
    "SL801": "{component!r} finds nothing in the Doc {text!r}: it was trained with the tags of the "
    "Penn Treebank, and no word of the Doc has one of them; their tags are {tags}. Put a tagger or "
    "parser that predicts tags of the Penn Treebank in front of {component!r}, or remove the "
    "component. To train srl_labeler with other tags, set role_labels. Only one Doc "
    "gets this warning.",
    "SL802": "The label {label!r} is in no list of labels, and no component of this vocab predicts "
    "it.{hint}",
}
