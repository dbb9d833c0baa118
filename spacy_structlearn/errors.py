"""Every error message of the package, with a stable code, so that one can be searched for.

A message names the place (file and line, component, attribute) and says how to mend it. Codes are
never reused. SL0xx: components, configuration, models on disk; SL1xx: trees and corpus files;
SL2xx: sequences and optimisation; SL3xx: evaluation; SL4xx: grammars; SL5xx: classification;
SL6xx: incremental sigmoid belief networks.
"""


class StructlearnError(ValueError):
    """Raised for bad input. `code` is the stable code, e.g. "SL101"."""

    def __init__(self, code: str, **fields: object):
        self.code = code
        self.fields = fields
        super().__init__(f"[{code}] " + MESSAGES[code].format(**fields))

    def __reduce__(self):
        # Exceptions travel between processes (nlp.pipe with n_process > 1): rebuild from the
        # code and the fields, which BaseException's own protocol would not pass.
        return _rebuild, (type(self), self.code, self.fields)


class NonConstituentException(StructlearnError):
    """Raised where a constituent is read from a span that is none; the name is benepar's."""


def _rebuild(kind: type[StructlearnError], code: str, fields: dict) -> StructlearnError:
    return kind(code, **fields)


MESSAGES = {
    # --- SL0xx: components, configuration, models on disk -------------------------------------
    "SL001": (
        "{component!r} reads {attribute}, and the Doc {text!r} has none: put a component that sets "
        "it earlier in the pipeline and leave it enabled; in training, use a reader that gives "
        "the predicted Docs their tags"
    ),
    "SL002": (
        "{component!r} has not been trained: load a trained pipeline, or call nlp.initialize() "
        "with examples and then train it"
    ),
    "SL003": (
        "{component!r}: {attribute!r} in a feature template is no token attribute of spaCy; use "
        "names such as ORTH, LOWER, NORM, SHAPE, PREFIX, SUFFIX, TAG"
    ),
    "SL005": (
        "{component!r}: no training example has {annotation} in its reference Doc; check the "
        "reader of the training corpus"
    ),
    "SL006": (
        "{component!r}: cannot add the label {label!r}, because the labels are fixed when the "
        "component is initialized; add it before, or initialize again"
    ),
    "SL007": (
        "doc.noun_chunks: the Doc {text!r} has no NP chunks; run a pipeline with np_chunker first"
    ),
    "SL008": (
        "{component!r} is no component of spacy_structlearn, so it cannot be fitted straight "
        "through: list it in [training] frozen_components, or use `spacy train`"
    ),
    "SL009": (
        "{argument!r} is no override of the config; write --section.name value, for example "
        "--paths.train train.spacy"
    ),
    "SL010": "no such file: {path}",
    "SL011": (
        "{path}, line {line}: {found} columns where 3 are expected (word, tag, chunk tag; an "
        "empty line after each sentence)"
    ),
    "SL012": (
        "{other} does not fit {path}: they differ at sentence {number} (both must have the same "
        "sentences, with the same tokens)"
    ),
    "SL013": (
        "{path} is no DocBin, or it is damaged ({problem}); write it again with DocBin.to_disk, or "
        "`spacy convert`"
    ),
    "SL014": (
        "{path} is there already and is no pipeline, so it is not replaced; name another output "
        "directory, or remove it yourself"
    ),
    "SL015": (
        "{path} has no section [training]; begin with one of the configs in "
        "spacy_structlearn/pipeline/configs"
    ),
    "SL060": (
        "{path}: its first line is of no format that is known here; if it is one of {known}, name "
        "it by --reader"
    ),
    "SL061": (
        "{path} names the document {name!r}, which {source} does not have; its documents are "
        "called, for example, {few}"
    ),
    "SL062": (
        "{component!r} cannot be trained with the reader {reader!r}, which does not read what it "
        "learns; choose one of: {known}"
    ),
    "SL063": "{path} holds no documents; check that this is the right file",
    "SL064": (
        '{path}, line {line}: {problem}; every line must be a JSON object with a string "text"'
    ),
    "SL065": (
        "{path}, text {number}: {length} characters or more, and the pipeline takes {most}; cut it "
        "into smaller texts"
    ),
    "SL066": "spaCy could not package {path}: {problem}",
    "SL067": (
        "no wheel could be built of {path}: {problem}; this needs pip and setuptools in the "
        "environment of structlearn"
    ),
    "SL068": (
        "{path} was begun with other settings: {setting} was {found!r} and is {value!r}; name "
        "another output folder, or remove this one; another model alone is taken with --force"
    ),
    "SL069": "{folder} has no files to read in it, or only hidden ones",
    "SL071": (
        "{path} is no pipeline: it has no config.cfg and meta.json; name the directory that "
        "`structlearn train` wrote"
    ),
    "SL072": (
        "{place}: {deaths} processes that were to parse it have died, the last one ({death}) with "
        "nothing else to do; what is complete is kept, so the same command goes on: take this text "
        "out of the input, or let the processes have more memory"
    ),
    "SL073": (
        "of the {of} documents of {path} {held_out} would be held out; both parts need one or more"
    ),
    "SL074": (
        '{path} has no frames in doc.spans["srl"] whose predicates have tags, so it does not tell '
        "which tags predicates have; `structlearn convert --props` makes a DocBin that has both"
    ),
    "SL075": "{path} is {what}, not a text; `structlearn apply` parses it",
    "SL076": (
        "no such file: {path}; if it is a text, give it on standard input: "
        "echo {path} | structlearn parse -"
    ),
    "SL078": (
        "{path}, which says how the files beside it were made, is damaged ({problem}); remove the "
        "folder, or name another one"
    ),
    "SL079": "Ray: {problem}",
    "SL050": "These bytes are no {kind} of spacy-structlearn: they do not begin as one does. Give "
    "the file or the bytes that to_disk or to_bytes wrote.",
    "SL051": "This {kind} is damaged (cut short or changed since it was written). Copy or download "
    "it again.",
    "SL052": "Expected a {kind}, but these bytes hold a {found}. Check which file is loaded where.",
    "SL053": "This {kind} has format version {found}; this installation reads: {known}. Upgrade "
    "spacy-structlearn, or train the model again.",
    "SL054": "This {kind} is not as spacy-structlearn writes it: {problem}. Write it again with "
    "to_disk or to_bytes.",
    "SL055": "Cannot store {where}: {problem}. Allowed are numeric NumPy arrays, str, int (64 "
    "bits), float, bool, None, and lists, tuples and dicts of those.",
    "SL080": (
        "{component!r} cannot load {place}: {problem}. If it is damaged, copy or download the "
        "pipeline again"
    ),
    "SL081": (
        "{place} does not hold the settings of a component ({problem}): copy or download the "
        "pipeline again"
    ),
    "SL082": (
        "{component!r} cannot load {place}: it was not saved by the architecture "
        "{architecture!r}, or it is damaged; load it with the config that it was saved with, or "
        "copy or download the pipeline again"
    ),
    "SL083": (
        "{path} {problem}: copy or download the pipeline again; if it was edited on purpose, "
        "delete {digests}"
    ),
    "SL084": (
        "{path} cannot be loaded: copy or download the pipeline again, and install the packages "
        "that it was made with ({problem})"
    ),
    "SL085": (
        "{path} is not the state of a training, or it is damaged ({problem}): delete it, and "
        "training begins anew"
    ),
    "SL016": (
        "token {index} cannot be known to have the tag {tag!r}: it must be a token other than "
        "white space, and the tag one of the model's: {tags}"
    ),
    "SL017": "the pipeline has no component {component!r}; it has {names}",
    "SL018": (
        "{component!r}: n_best reads one sentence, and the Doc has {number}; take "
        "`sentence.as_doc()`"
    ),
    "SL019": "{component!r} is no component whose features can be listed; try np_chunker",
    "SL020": (
        "the Doc {text!r} has no constituents: run a pipeline with a constituency_parser first "
        "(sentence.as_doc() and Doc.from_array do not copy them: read them from the whole Doc)"
    ),
    "SL021": (
        "{text!r} is no constituent; ask span._.is_constituent first, or take one of the spans in "
        "span.sent._.constituents"
    ),
    "SL022": (
        "{component!r}: the reference Doc {text!r} has constituents and no tags: a grammar is "
        "learned from both; give its tokens a tag_, or read the treebank with a reader of ours"
    ),
    "SL023": "{component!r}: {setting} is {value!r}; it must be {wanted}",
    "SL024": (
        "{component!r}: k_best reads one sentence, and the Doc has {number}; give it one of "
        "doc.sents"
    ),
    "SL025": (
        "{component!r}: k_best was given {number} words and takes {most} at most; give it a part "
        "of the sentence, or raise max_length: memory grows with its square"
    ),
    "SL026": (
        "{component!r} needs {missing}, and the Doc {text!r} has none: put the component that sets "
        "it earlier in the pipeline and leave it enabled; in training, use a reader that gives the "
        'predicted Docs their trees, by spans = ["constituents"]'
    ),
    "SL027": (
        'doc.spans["pp_attachments"] of the Doc {text!r} is not as pp_attacher writes it: each '
        "phrase is followed by four spans labelled verb, noun, prep and object"
    ),
    "SL028": (
        "{path}, line {line}: {text!r} is no quadruple; expected are six columns: number, verb, "
        "noun, preposition, noun, and V or N"
    ),
    "SL029": (
        "{component!r} cannot use a model {model!r}, which has no {missing}: name an architecture "
        "made for this component; its default is one"
    ),
    "SL030": (
        "{component!r} was trained with the variable {variable!r} and cannot make it now: give it "
        "the lemmatizer and the word classes that it was trained with"
    ),
    "SL032": "{component!r} has no label {label!r}; its labels are: {labels}",
    "SL033": (
        'doc.spans["srl"] of the Doc {text!r} is not as srl_labeler writes it: each frame begins '
        "with a span labelled V, its predicate, and frames are in the order of their predicates"
    ),
    "SL034": (
        "{path}, line {line}: sentence {number} has {found} where it has {wanted} in {trees}; both "
        "files must have the same sentences, with the same tokens"
    ),
    "SL035": "{path} is not in UTF-8 ({problem}); convert it, for example with iconv -t utf-8",
    "SL036": (
        "{component!r} cannot use a model of the stages {found}: it needs identification, and "
        "roles as the last; predicates and senses may come before, and there are no others"
    ),
    "SL037": (
        "{component!r} cannot be calibrated: of the arguments that it finds some must be right and "
        "some wrong. Give more examples, with gold frames, whose predicted Docs were parsed and "
        "have the same tokens"
    ),
    "SL038": (
        "{path}, line {line}: {text!r} is not a line of spaces, with a digit per token: 0 nothing "
        "follows it, 1 a blank, 2 a blank line"
    ),
    "SL039": "there are no templates for the stage {stage!r}; there are some for: {known}",
    "SL040": (
        "A network in {architecture} cannot listen to the component {upstream!r}: it is trained by "
        "itself, over all data at once; give it layers of its own, such as spacy.Tok2Vec.v2"
    ),
    "SL044": (
        "{old} was replaced by {new}: {changes}; `structlearn upgrade PATH` converts configs and "
        "pipelines"
    ),
    "SL045": (
        "{setting} is the variable {value}, and it has another unit now ({change}): give its value "
        "in its place, and upgrade again"
    ),
    "SL046": (
        "{setting} is {value!r}, and this setting was taken out: there is only what {only!r} was; "
        "remove it, and train again"
    ),
    "SL043": "{learner}: {name} is {value!r}; it must be {wanted}",
    # --- SL1xx: trees and corpus files --------------------------------------------------------
    "SL101": "{path}, line {line}: a closing bracket without an opening one. Remove it, or look "
    "for a bracket too many earlier in the file.",
    "SL102": "{path}, line {line}: the text ends inside the tree that began on line {began}. Add "
    "the missing closing brackets.",
    "SL103": "{path}, line {line}: {text!r} stands outside of any tree. Every line of a treebank "
    "file is bracketed; remove comments and headers.",
    "SL104": "{path}, line {line}: empty brackets. A tree needs at least one leaf, (TAG word).",
    "SL105": "{path}, line {line}: a bracket holds nothing but {text!r}. If it is a word, its tag "
    "is missing: (TAG word); if it is a phrase, it has no children.",
    "SL106": "{path}, line {line}: {text!r} stands beside something else in its bracket. A word "
    "stands alone with its tag: (TAG word).",
    "SL107": "Expected exactly one tree in the text, found {count}. Use read_trees for several.",
    "SL108": "A tree has either a word (a leaf) or at least one child, but the node {label!r} has "
    "both or neither.",
    "SL109": "These brackets make no tree: {problem}. They must be in pre-order, the first over "
    "all tokens, and each within the one that holds it.",
    "SL110": "The node with label {label!r} and word {word!r} cannot be written: labels and words "
    "must not hold white space, words and tags not be empty, labels not hold brackets.",
    "SL111": "The leaf ({tag} {word}) has no children, so none of them is its head. Ask for the "
    "head child of phrases only.",
    "SL112": "The head rule for {label!r} has the directions {directions}. A rule has at least "
    "one step, and each step goes from the 'left' or from the 'right'.",
    "SL113": "Expected one probability for each of {brackets} brackets, in the order of "
    "tree.spans(); got {found}.",
    "SL114": "Cannot draw trees for the LaTeX package {package!r}; choose one of: {packages}.",
    "SL115": "These variables and parents make no network: {problem}.",
    "SL116": "The font size is {value!r}; it must be more than 0.",
    "SL117": "This frame does not fit on {n} words: {problem}. Count words from 0, ends exclusive; "
    "columns hold only arguments that do not overlap.",
    "SL118": "The Doc {text!r} has no frames to draw: run a pipeline with srl_labeler first.",
    "SL119": "doc._.frames is not registered, so frames cannot be drawn: load a pipeline with "
    "srl_labeler first, or call spacy_structlearn.pipeline.extensions.register().",
    "SL120": "The attachment of the tokens {start} to {end} is {label!r}. It must be 'V', to the "
    "verb, or 'N', to the noun; sites_from_chunks leaves it to be filled in.",
    "SL121": "{path} is no gzip file, or it is damaged ({problem}). Copy or compress it again, or, "
    "if it is text, take the .gz from its name.",
    "SL130": "{path}, line {line}: {problem}. A line has document, sentence number, token number, "
    "word, tag, parse bit, lemma or -, roleset or -, and a column for each predicate.",
    "SL131": "There is no {what} in a tree over {n} tokens. Count tokens from 0, ends exclusive.",
    "SL132": "There is no role feature {name!r}; there are: {known}.",
    "SL133": "Expected log probabilities for {n} candidates, of no role ({n}) and of each role "
    "({n}, number of roles); got {problem}.",
    "SL140": "doc._.{name} is not registered, so it cannot be drawn: load a pipeline of "
    "spacy_structlearn first, or call spacy_structlearn.pipeline.extensions.register().",
    "SL141": "Cannot draw an object of the type {kind}; give a Doc or a Span, such as nlp(text).",
    "SL142": "The Doc {text!r} has no {what} to draw: run a pipeline with {component} first.",
    # --- SL2xx: sequences and optimisation ----------------------------------------------------
    "SL201": "The template {text!r} is malformed. Write column[offset], several joined by |, for "
    "example TAG[-1]|TAG[0], or bias for the predicate that is always true.",
    "SL202": "The template {text!r} is given twice. Remove one.",
    "SL203": "The offsets do not delimit sentences of {n_tokens} tokens: they must begin with 0, "
    "never fall, and end with the number of tokens.",
    "SL204": "Expected columns of shape ({n_tokens}, {n_columns}), one column each for "
    "{columns}; got shape {shape}.",
    "SL205": "This chain model is empty. Train it or load a trained one before using it.",
    "SL206": "The parts of a chain model do not fit together: {problem}.",
    "SL207": "Expected one label id from 0 to {last} for each of {n_tokens} tokens; got {problem}.",
    "SL208": "Weights do not fit into {dtype}. Use float32, or train with a larger l2.",
    "SL209": "{name} must be {wanted}, not {value!r}.",
    "SL210": "The tag {tag!r} is not in the {scheme} scheme. Use O, or a label after one of "
    "{prefixes} and a hyphen.",
    "SL211": "The span {span!r} is empty, outside of the {length} tokens, or without a label, and "
    "cannot be written as tags.",
    "SL212": "The spans {first!r} and {second!r} overlap and cannot both be written as tags. Keep "
    "one.",
    "SL240": "The parts of word classes do not fit together: {problem}.",
    "SL241": "The templates read word classes (CLASS), and there are none: give the architecture "
    "`classes`, a file of word classes, or leave those templates out.",
    "SL216": "Expected the labels allowed, as bool of shape ({n_tokens}, {n_labels}), or one label "
    "id or -1 for each of {n_tokens} tokens; got {problem}.",
    "SL217": "A sentence has no possible label sequence. Allow more labels where some are forced; "
    "give a model that forbids what it has not seen some smoothing.",
    "SL220": "The objective is {value} with a gradient of shape {shape} at the starting point; it "
    "must be finite, with one partial derivative for each of {n} parameters.",
    "SL221": "Expected a vector of {n} parameters; got shape {shape}.",
    "SL225": "Expected counts of shape (examples, features) and one expectation for each feature; "
    "got shapes {counts} and {expectations}.",
    "SL226": "There are no examples to estimate from. Give at least one labelled sentence.",
    "SL227": "The dual needs the counts as a sparse matrix in the CSR format, not {form}; call "
    "scipy.sparse.csr_array on them, or minimise MEstimationObjective by L-BFGS.",
    "SL230": "A second-order HMM reads two columns, words and tags; got an array of shape {shape}.",
    "SL245": "The parts of a base distribution do not fit together: there is {problem}.",
    "SL246": "The base distribution has {problem}. Let every label that can be reached end with "
    "some probability, for example by smoothing.",
    "SL247": "The base distribution and the model do not go together: there are {problem}. Use the "
    "same labels and columns for both.",
    "SL248": "The base distribution does not emit the symbol {symbol} of {columns}, at token {at}. "
    "Close the vocabulary first: put features.UNKNOWN in place of symbols that it does not know.",
    "SL249": "{n} predicates of the model are not in the data. Give the data of which it was "
    "built.",
    "SL255": "Joint pseudolikelihood needs templates that read one place each; {template!r} reads "
    "several, so that a word would depend on other words. Leave it out, or set joint = false.",
    "SL256": "Joint pseudolikelihood sums over all symbols of a column, and the model has no "
    "vocabulary of {column}. Initialize it by the same estimator, or set `vocabularies`.",
    "SL257": "A symbol of {column}, at token {at}, is not in the vocabulary of the model. Replace "
    "it by features.UNKNOWN, as `ChainModel.derive` does.",
    "SL258": "Joint pseudolikelihood takes every column for a variable of its own, and {column} is "
    "a function of the word. Leave its templates out, or set joint = false.",
    "SL250": "A Ray cluster needs Ray: pip install 'spacy-structlearn[ray]'",
    "SL251": "No worker began within {seconds:.0f} seconds: the Ray cluster has no free core. Add "
    "machines to it (`ray status` shows what it has), or end what else it runs.",
    "SL252": "Workers died {deaths} times without a result in between. What ends them, out of "
    "memory for example, is in Ray's logs; cut the data into more shards, or give the cluster more "
    "memory.",
    # --- SL3xx: evaluation --------------------------------------------------------------------
    "SL301": "{gold} gold but {predicted} predicted {what}. Score the same {what} on both sides, "
    "in the same order.",
    "SL302": "Sentence {sentence} has {gold} gold but {predicted} predicted tags. There must be "
    "one tag for each token on both sides.",
    "SL303": "The tag {tag!r} at position {position} is not in the IOB scheme. Use O, or B or I, "
    "each with a type (B-NP) or without.",
    "SL304": "The texts of document {document} differ from character {at} on (white space not "
    "counted): {gold!r} in the gold one, {predicted!r} in the predicted one. Score the same text.",
    "SL305": "The span {span!r} is empty or goes beyond the {length} tokens of its document.",
    "SL306": "Sentence {sentence}: word {place} is {gold!r} in the gold tree and {predicted!r} in "
    "the predicted one. Deleting punctuation by the gold tags needs the same words on both sides.",
    "SL307": "punctuation must be 'own' (the tags of each tree) or 'gold', not {value!r}.",
    "SL308": "{offsets} offsets for a tree with {leaves} leaves. Give (start, end) of each leaf.",
    "SL309": "The bracket {span!r} holds no characters. Give (label, start, end), end exclusive.",
    "SL310": "Expected one probability and one bool for each prediction; got arrays of the shapes "
    "{probabilities} and {right}.",
    "SL311": "Prediction {place} (counted from 0) has the probability {value}. Give numbers from 0 "
    "to 1.",
    "SL312": "Cannot put predictions into {bins} bins; give a whole number of one or more.",
    "SL320": "The argument {argument!r} is none: expected are a label, a start and an end greater "
    "than the start.",
    # --- SL4xx: grammars ----------------------------------------------------------------------
    "SL401": "There is no binarisation {value!r}. Choose one of {known}.",
    "SL402": "Cannot put {number} sets of trees together: there must be one or more, encoded with "
    "the same binarisation and root label.",
    "SL403": "The parts of a latent grammar do not fit together: {problem}.",
    "SL404": "Probabilities cannot be stored as {value!r}. Choose one of {known}.",
    "SL405": "No {kind} function is registered as {name!r}; there are: {known}. Import the package "
    "that registers it before the model is loaded.",
    "SL407": "There are no trees to learn a grammar from. Check the reader of the treebank.",
    "SL420": "There is no grammar to parse with, or it is empty. Train one or load one first.",
    "SL421": "{name} is {value!r}; it must be {wanted}.",
    "SL422": "The grammars have different symbols or rules. Parse together only with grammars that "
    "were trained on the same trees.",
    "SL423": 'Give one tag for each word of each sentence, "" for none.',
    "SL424": "{right} of {number} brackets are right. A temperature needs right ones and wrong "
    "ones.",
    "SL425": "A scorer gave scores of shape {shape} where {wanted} was wanted, or scores that are "
    "NaN or +inf. Give one number, or -inf, for each item of the forests.",
    "SL426": "A network scores the trees of one span grammar. Give the parser that, and no "
    "other grammars beside it.",
    "SL427": "There are tokens of {number} sentences, but {of} sentences.",
    "SL430": "{text!r} is no template of features of a {kind}. Join terms like {examples} by |, or "
    'give "bias".',
    "SL431": "The template {text!r} is given twice. Leave one of the two out.",
    "SL433": "The parts of a span grammar do not fit together: {problem}.",
    "SL434": "A span grammar cannot be trained on {problem}. Give trees, or pairs of tokens "
    "and a tree, two of them or more.",
    "SL435": "{number} of {of} sentences have no tokens, which the network reads. Give pairs of "
    "tokens and a tree.",
    "SL438": "A network was given {found} where {wanted} was wanted. Give a row, and a token, for "
    "each word of each sentence.",
    "SL439": "A network for {wanted} symbols cannot score forests of {found} or more. Train it "
    "with the grammar that it is to be used with.",
    "SL440": "The grammar gives no distribution of trees: {problem}. Take a generative grammar, "
    "learned from trees.",
    "SL441": "{text!r} is no template of features of fragments: {problem}. Begin with RULE, LABEL "
    "or TAG and join, by |, PARENT, GRANDPARENT and SIBLING, or terms like WORD[first].",
    "SL443": "What a product of {members} grammars expects has no closed form. Take one grammar as "
    "the base of M-estimation.",
    # --- SL5xx: classification ----------------------------------------------------------------
    "SL501": "The variables {variables} make no table: {problem}. Give each column a name of its "
    "own.",
    "SL502": "The table is not rectangular: {what} has {found} values where {wanted} are expected. "
    "Give every instance a value for each variable; None where it has none.",
    "SL503": "There is no variable {variable!r}; the table has: {known}.",
    "SL504": "Expected one label, a string, for each of {rows} instances; got {found}.",
    "SL505": "A label's place is not from 0 to {n_labels} - 1. Give the places of the labels in "
    "the list of all labels.",
    "SL506": "Expected a table; {what} is {found}. Give rows, each a list of values, or columns by "
    "their names, each a list of values.",
    "SL507": "The development data must be a pair of rows and labels, not {found}.",
    "SL508": "The labels known beforehand must be strings, not {found}.",
    "SL510": "There is no Bayes net to classify with, or it knows no labels. Fit or load one "
    "first.",
    "SL511": "The structure makes no Bayes net: {problem}. Give each variable that is used the "
    "list of its parents, without the class, and leave the others out.",
    "SL512": "{variables} variables have more than the {most} structures that can be tried. "
    'Take structure "search", fewer variables, or a lower max_parents.',
    "SL514": "The counts cannot be made again on the training and the development data, because "
    "there are no development data. Give dev, or leave recount out.",
    "SL515": "The instances that the Bayes net was trained on are not stored with it. Ask for what "
    "they are given without themselves right after fit, before it is saved or made compact.",
    "SL522": "The log-linear model has no labels to choose from. Train it, or load a trained one.",
    "SL523": "Weights do not fit into {dtype}. Use float32, or train with a larger l2.",
    "SL530": "There is no stage {stage!r}; there are: {known}.",
    "SL531": "The stage {stage!r} holds a {found}, which is no classifier. Name the architecture "
    "spacy_structlearn.LogLinear.v1 or spacy_structlearn.BayesNet.v2 for it.",
    "SL532": "The stage {stage!r} has word classes, and stages have none. Leave its setting "
    "classes out.",
    "SL533": "The order of the stages is {order}. Name each stage that is to be learned once, and "
    "the main one last.",
    "SL540": "Cannot calibrate with {problem}. Give probabilities as rows, one column a source, "
    "and for each row whether it turned out to be true; both must be there.",
    # --- SL60x: derivations and networks of sigmoid belief networks --------------------------
    "SL600": "The symbols of derivations do not fit together: {problem}.",
    "SL601": "There are no trees to find the symbols of derivations in. Check the reader of the "
    "treebank.",
    "SL604": "The parts of a sigmoid belief network do not fit together: {problem}.",
    "SL605": "Weights cannot be stored as {value!r}. Choose one of {known}.",
    # --- SL62x: their training ---------------------------------------------------------------
    "SL621": "A sigmoid belief network cannot be trained on {problem}. Give normalised trees, of "
    "whose tags and labels `initialize` has seen all, and hold fewer of them out.",
    "SL622": "The weights of the sigmoid belief network grew out of all bounds in epoch {epoch}: "
    "set a learn_rate far below {value}, or a lower grad_clip.",
    # --- SL63x: their search ------------------------------------------------------------------
    "SL630": "There is no sigmoid belief network to parse with, or it is empty. Train one or load "
    "one first.",
    "SL631": "{name} of the search is {value!r}; it must be {wanted}.",
    "SL632": 'Give one tag for each word of each sentence, "" for none.',
    # --- SL64x: their means -------------------------------------------------------------------
    "SL640": "No sigmoid belief network can be made with {problem}.",
    "SL641": (
        "Cannot compute with the derivations: there is {problem}; encode the trees with the "
        "symbols of the same model"
    ),
    "SL642": (
        "Derivation {sentence} is not legal at move {move}: encode its tree with the symbols of "
        "the same model, and see that it is complete"
    ),
}
