"""The tables of the README and of other pages, made from training/results/*.json:
`python training/tables.py`.

A table stands between two HTML comments, `<!-- table NAME -->` and `<!-- end -->`, and is replaced
as a whole. With --check nothing is written, and the exit status says whether all are up to date.
A table with a text of its own stands there, below the text, once all its figures are recorded.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from recording import RESULTS, ROOT

sys.path.insert(0, str(Path(__file__).resolve().parent / "reproduce"))
import pb_report
import pk_report

PAGES = (
    ROOT / "README.md",
    RESULTS / "README.md",
    ROOT / "training" / "guides" / "many_machines.md",
)
PEERS = ("benepar", "stanza")
# Rows of each table: text, and its cells: results, key and format of a figure, or a text.
TABLES = {
    "first": {
        "header": [
            "what `nlp(text)` gives",
            "where",
            "English Web Treebank, dev, gold tokens",
            "words per CPU second",
        ],
        "texts": 2,
        "rows": [
            (
                "sentences, with line breaks, lists and headings as they come",
                [
                    "`doc.sents`, `token._.sent_start_prob`",
                    ("raw_text", "sents.paragraphs.f", "F1 {:.1f}, raw text"),
                    ("raw_text", "words_per_cpu_s.sentence_splitter", "{:,.0f}"),
                ],
            ),
            (
                "Penn Treebank tags, those of the tree",
                [
                    "`token.tag_`, `token._.tag_probs`",
                    ("raw_text", "tags.gold_tokens", "accuracy {:.1f}"),
                    ("raw_text", "words_per_cpu_s.chain_tagger", "{:,.0f}"),
                ],
            ),
            (
                "a tree, a probability on every bracket, the k best trees",
                [
                    "`span._.parse_string` and benepar's other names",
                    ("raw_text", "brackets.gold_tokens.f", "F1 {:.1f}"),
                    ("product", "words_per_cpu_s.parse", "{:,.0f}"),
                ],
            ),
            (
                "noun phrase chunks",
                [
                    "`doc._.np_chunks`",
                    ("raw_text", "np_chunks.gold_tokens.f", "F1 {:.1f}"),
                    ("product", "words_per_cpu_s.chunk", "{:,.0f}"),
                ],
            ),
            (
                "verb or noun, for every phrase behind an object",
                [
                    "`doc._.pp_attachments`",
                    ("toutanova2006_pp", "data.shipped.ewt_dev_acc", "accuracy {:.1f}"),
                    ("product", "words_per_cpu_s.pp", "{:,.0f}"),
                ],
            ),
            (
                "who did what to whom, with the verb's sense",
                [
                    "`doc._.frames`",
                    ("raw_text", "srl.gold_tokens.f", "F1 {:.1f}"),
                    ("product", "words_per_cpu_s.srl", "{:,.0f}"),
                ],
            ),
        ],
    },
    "conll2000": {
        "header": ["CoNLL-2000, NP chunks", "test F1", "training, CPU s", "features"],
        "rows": [
            (
                "first-order CRF, 7,936 sentences",
                [
                    ("chunking", "crf1.test_f1", "{:.2f}"),
                    ("chunking", "crf1.train_cpu_s", "{:.0f}"),
                    ("chunking", "crf1.features", "{:,.0f}"),
                ],
            ),
            *(
                (
                    text,
                    [
                        ("chunking", f"{key}.test_f1", "{:.2f}"),
                        ("chunking", f"{key}.train_cpu_s", "{:.0f}"),
                        ("chunking", f"{key}.features", "{:,.0f}"),
                    ],
                )
                for text, key in (
                    ("label pairs, 7,936 sentences", "crf2"),
                    ("averaged perceptron, label pairs, 7,936 sentences", "perceptron"),
                    ("second-order HMM, 7,936 sentences", "hmm"),
                    ("label pairs, all 8,936 sentences", "crf2.full"),
                    ("word classes, shapes, IOBES, all 8,936 sentences", "best.full"),
                    ("all eleven chunk types, first order, all sentences", "all_chunks"),
                )
            ),
        ],
    },
    "peers": {
        "header": ["beside CRFsuite, same features and objective", "ratio"],
        "rows": [
            (
                "CPU time of an iteration: CRFsuite over ours",
                [("chunking", "ratio.cpu_per_iteration.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "CPU time of training to the same loss: CRFsuite over ours",
                [("chunking", "ratio.train_cpu.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "peak memory of training: CRFsuite over ours",
                [("chunking", "ratio.peak_rss.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "tokens a CPU second in prediction: ours over CRFsuite",
                [("chunking", "ratio.tagging.ours_over_crfsuite", "{:.1f}")],
            ),
            (
                "time of a gradient: one thread over two",
                [("chunking", "ratio.threads_2_over_1", "{:.2f}")],
            ),
        ],
    },
    "ewt": {
        "text": """\
The learners by themselves, on the gold tokens and sentences of the same documents:""",
        "header": ["English Web Treebank, dev", "figure"],
        "rows": [
            ("NP chunks, F1: gold tags", [("chunking", "ewt.dev_f1.gold_tags", "{:.2f}")]),
            (
                "NP chunks, F1: tags of the tagger",
                [("chunking", "ewt.dev_f1.predicted_tags", "{:.2f}")],
            ),
            (
                "the same, trained on gold tags instead of jackknifed ones",
                [("chunking", "ewt.dev_f1.no_jackknife", "{:.2f}")],
            ),
            ("parses, F1: no tags given", [("parsing_best", "default.ewt.dev_f1", "{:.2f}")]),
            (
                "PP attachment, accuracy: sites of the gold trees",
                [("toutanova2006_pp", "data.shipped.ewt_dev_acc", "{:.2f}")],
            ),
            (
                "the same, trained on the items of Ratnaparkhi et al. instead",
                [("toutanova2006_pp", "data.ratnaparkhi.ewt_dev_acc", "{:.2f}")],
            ),
        ],
    },
    "raw_text_sentences": {
        "text": """\
Sentences of the documents of the English Web Treebank's dev, as spans of characters, beside other
splitters. A text as it is has blank lines between its paragraphs. Splitters
that do not look at lines need each paragraph by itself. In one line all white space is one blank.
Wrapped text has the blank lines too; pySBD ends a sentence at each line break. Made by
`training/benchmarks/raw_text.py`.""",
        "header": [
            "sentences of raw text, F1",
            "as it is",
            "each paragraph by itself",
            "in one line",
            "wrapped at 72 columns",
        ],
        "rows": [
            (
                "spacy-structlearn",
                [
                    ("raw_text", f"sents.{name}.f", "{:.1f}")
                    for name in ("paragraphs", "each_paragraph", "flat", "wrapped")
                ],
            ),
            *(
                (
                    text,
                    [
                        ("raw_text", f"sents.peers.{name}.{key}", "{:.1f}")
                        for key in ("as_it_is", "paragraphs", "flat", "wrapped")
                    ],
                )
                for text, name in (
                    ("nupunkt", "nupunkt"),
                    ("pySBD", "pysbd"),
                    ("syntok", "syntok"),
                    ("Bling Fire", "blingfire"),
                    ("spaCy's sentencizer", "spacy"),
                )
            ),
        ],
    },
    "raw_text": {
        "text": """\
The whole pipeline on the same documents, made by the same script. From raw text, the text as it
is, the pipeline finds everything by itself, and every layer is judged with the errors of those
before it. With gold sentences it has its own tokens in the treebank's sentences; with gold tokens
it has the treebank's tokens and sentences. Tags are always its own: those in `token.tag_` behind
all components, or, without the parser, behind the tagger. Everyday texts are those of
`tests/everyday`, written for this project and looked at while the splitter was made. A chunk that
begins with the possessive marker of the phrase before it crosses nothing.""",
        "header": ["from text to roles: English Web Treebank, dev", "figure"],
        "rows": [
            (text, [("raw_text", key, form)])
            for text, key, form in (
                ("sentences, F1: raw text", "sents.paragraphs.f", "{:.1f}"),
                ("its standard error, over documents", "sents.paragraphs.se", "{:.1f}"),
                ("sentences, calibration error of their probabilities", "sents.ece", "{:.3f}"),
                ("sentences of everyday texts, F1", "everyday.sents.f", "{:.1f}"),
                ("tokens, F1: raw text", "tokens.f", "{:.1f}"),
                ("tags, accuracy: gold tokens", "tags.gold_tokens", "{:.1f}"),
                ("the same without the parser", "tags.tagger_alone", "{:.1f}"),
                ("tags, accuracy: gold tokens, words not in train", "tags.unknown", "{:.1f}"),
                ("tokens with their tags, F1: raw text", "tags.raw_f", "{:.1f}"),
                ("parses, F1: raw text", "brackets.raw.f", "{:.1f}"),
                ("parses, F1: gold sentences", "brackets.gold_sentences.f", "{:.1f}"),
                ("parses, F1: gold tokens", "brackets.gold_tokens.f", "{:.1f}"),
                ("NP chunks, F1: raw text", "np_chunks.raw.f", "{:.1f}"),
                ("NP chunks, F1: gold tokens", "np_chunks.gold_tokens.f", "{:.1f}"),
                (
                    "PP attachment, accuracy: raw text, sites that were found",
                    "pp_attachment.raw.acc",
                    "{:.1f}",
                ),
                ("semantic roles, F1: raw text", "srl.raw.f", "{:.1f}"),
                ("semantic roles, F1: gold tokens", "srl.gold_tokens.f", "{:.1f}"),
                ("tags that are others in the tree", "tags.disagree", "{:.0f}"),
                ("chunks that cross a bracket", "np_chunks.crossing", "{:.0f}"),
                (
                    "words per CPU second: tokens, sentences, tags and chunks",
                    "words_per_cpu_s.front",
                    "{:,.0f}",
                ),
                ("the same, words not met before", "words_per_cpu_s.front_new_text", "{:,.0f}"),
            )
        ],
    },
    "product": {
        "header": ["what it costs", "spacy-structlearn", "benepar", "stanza"],
        "rows": [
            *(
                (
                    text,
                    [
                        ("product", ours, form),
                        *(("product", f"peers.{name}.{theirs}", form) for name in PEERS),
                    ],
                )
                for text, ours, theirs, form in (
                    ("packages installed", "packages", "packages", "{:.0f}"),
                    ("their size, MB", "install_mb", "install_mb", "{:,.0f}"),
                    (
                        "without those for graphics cards",
                        "install_mb",
                        "without_gpu_mb",
                        "{:,.0f}",
                    ),
                )
            ),
            *(
                (text, [(results, key, form), *("" for _ in PEERS)])
                for text, results, key, form in (
                    ("the English pipeline among them, MB", "product", "package_mb", "{:.1f}"),
                    ("`load()` after `import spacy`, seconds", "product", "load_s", "{:.2f}"),
                    ("`structlearn --help`, seconds", "product", "help_s", "{:.2f}"),
                    ("peak memory, MB", "product", "rss_mb", "{:.0f}"),
                    (
                        "words per CPU second, whole pipeline",
                        "product",
                        "words_per_cpu_s.all",
                        "{:,.0f}",
                    ),
                    *(
                        (f"{what} alone", "product", f"words_per_cpu_s.{key}", "{:,.0f}")
                        for what, key in (
                            ("NP chunks", "chunk"),
                            ("parser", "parse"),
                            ("PP attachment", "pp"),
                            ("semantic roles", "srl"),
                        )
                    ),
                )
            ),
        ],
    },
    "pp": {
        "header": ["PP attachment, test accuracy", "paper", "here"],
        "rows": [
            (text, [paper, ("toutanova2006_pp", f"{key}.test_acc", "{:.2f}")])
            for text, key, paper in (
                ("naive Bayes, 1 d", "nb.1", "81.2"),
                ("hybrid naive Bayes, 9 d", "hybrid_nb.9", "81.5"),
                ("logistic regression", "lr", "82.6"),
                ("Bayes net, structure search, 13 d", "bn.13", "84.6"),
                ("hybrid Bayes net, 1 d", "hybrid_bn.1", "85.0"),
                ("hybrid Bayes net, 13 d", "hybrid_bn.13", "84.8"),
                (
                    "the same, counted again on training and development items",
                    "recount.hybrid_bn",
                    "",
                ),
                ("log-linear model, structure search", "loglinear", "83.8"),
                ("lemmas, word classes, conjunctions stacked on a Bayes net", "best", ""),
            )
        ],
    },
    "smith2007": {
        "header": [
            "CoNLL-2000, test F1",
            "words and tags: paper",
            "here",
            "all predicates: paper",
            "here",
            "training, CPU s",
        ],
        "rows": [
            (
                text,
                [
                    hmm_features,
                    ("smith2007", f"hmm_features.{key}.test_f1", "{:.2f}"),
                    extended,
                    ("smith2007", f"extended.{key}.test_f1", "{:.2f}") if extended else "",
                    ("smith2007", f"cpu_s.{key}.converged", "{:.2f}"),
                ],
            )
            for text, key, hmm_features, extended in (
                ("HMM", "hmm", "87.11", ""),
                ("CRF", "crf", "89.98", "93.86"),
                ("pseudolikelihood", "pl", "80.84", "91.83"),
                ("MEMM", "memm", "87.31", "91.51"),
                ("M-estimation", "m_est", "87.08", "89.64"),
            )
        ]
        + [
            (
                "M-estimation, specialised base",
                [
                    "",
                    "",
                    "",
                    ("smith2007", "beyond.best_m_est.test_f1", "{:.2f}"),
                    ("smith2007", "beyond.best_m_est.cpu_s", "{:.2f}"),
                ],
            )
        ],
    },
    "classifiers": {
        "header": [
            "PP attachment",
            "test accuracy",
            "fit, CPU s",
            "one prediction, µs",
            "in a batch, µs",
            "peak memory, MB",
        ],
        "rows": [
            (
                text,
                [
                    ("toutanova2006_pp", f"benchmark.{key}.{column}", form)
                    for column, form in (
                        ("test_acc", "{:.2f}"),
                        ("fit_s", "{:.2f}"),
                        ("predict_us", "{:,.0f}"),
                        ("predict_us_batch", "{:,.1f}"),
                        ("peak_mb", "{:.0f}"),
                    )
                ],
            )
            for text, key in (
                ("hybrid Bayes net", "ours.bayes_net"),
                ("log-linear model, structure search", "ours.log_linear"),
                ("log-linear model, all conjunctions", "ours.log_linear_conjunctions"),
                ("pgmpy, the same network", "pgmpy"),
                ("scikit-learn CategoricalNB", "sklearn.categorical_nb"),
                ("scikit-learn LogisticRegression", "sklearn.logistic"),
                ("the same, all conjunctions", "sklearn.logistic_conjunctions"),
                ("scikit-learn SVC, quadratic kernel", "sklearn.svc"),
            )
        ],
    },
    # The Berkeley parser's F1 and complete match were measured for this project on the same data
    # (on EWT they are the best of three rounds on dev); its time and memory in one run with ours.
    "parsing": {
        "header": ["constituency parser", "ours", "Berkeley 1.7"],
        "rows": [
            ("WSJ sample, test F1", [("parsing_generative", "wsj.best.test_f1", "{:.1f}"), "85.5"]),
            (
                "WSJ sample, complete match",
                [("parsing_generative", "wsj.best.test_complete", "{:.1f}"), "28.3"],
            ),
            (
                "WSJ sample, mean test F1 of four seeds",
                [("parsing_generative", "wsj.seeds.test_f1.mean", "{:.1f}"), ""],
            ),
            (
                "WSJ sample, test F1 of the product of the four",
                [("parsing_generative", "wsj.product4.test_f1", "{:.1f}"), ""],
            ),
            (
                "WSJ sample, test F1 of the X-bar grammar",
                [("parsing_generative", "wsj.xbar.test_f1", "{:.1f}"), "62.8"],
            ),
            *(
                (
                    text,
                    [
                        ("parsing_generative", f"peer.{part}.{whose}.{key}", form)
                        for whose in ("ours", "berkeley")
                    ],
                )
                for text, part, key, form in (
                    ("training on the WSJ sample, four rounds, CPU s", "train", "cpu_s", "{:.0f}"),
                    ("its peak memory, MB", "train", "peak_rss_mb", "{:.0f}"),
                    ("parsing, CPU ms a sentence", "parse", "ms_per_sentence", "{:.1f}"),
                    ("its peak memory, MB", "parse", "peak_rss_mb", "{:.0f}"),
                )
            ),
            (
                "EWT, dev F1, product of four",
                [("parsing_generative", "ewt.dev_f1", "{:.1f}"), "82.7"],
            ),
            (
                "EWT, complete match, product of four",
                [("parsing_generative", "ewt.dev_exact", "{:.1f}"), "45.8"],
            ),
            ("EWT, tag accuracy", [("parsing_generative", "ewt.tag_accuracy", "{:.1f}"), "93.2"]),
            (
                "EWT, sentences of dev without a parse",
                [("parsing_generative", "ewt.failures", "{:.0f}"), "1 to 3"],
            ),
            (
                "EWT, dev F1 of the first of the four grammars",
                [("parsing_generative", "ewt.single.dev_f1", "{:.1f}"), "82.7"],
            ),
            (
                "its complete match",
                [("parsing_generative", "ewt.single.dev_exact", "{:.1f}"), "45.8"],
            ),
            (
                "EWT, calibration error of the brackets' probabilities",
                [("parsing_generative", "ewt.bracket_ece", "{:.3f}"), ""],
            ),
        ],
    },
    # The peers' figures were measured for this project on the same data, those of time and memory
    # of the Berkeley parser in one run with ours.
    "beyond": {
        "text": """\
What can be learned beside a grammar. It leaves a forest of each sentence, and a log-linear model
chooses among the trees of this: its scores of symbols over spans are linear in features of the
words there (`spacy_structlearn.SpanGrammar.v2`; Hall, Durrett & Klein 2014), or by a network
(`spacy_structlearn.NeuralGrammar.v2`; Durrett & Klein 2015), or both. Grammars of other folds make
the forests from which it learns; four grammars with features of spans are the parser of the
pipeline. Models for EWT's tuning documents have not seen them; dev is parsed by models of all of
train, and nothing was chosen by it. Training, time and size are those on
the WSJ sample. [All of it](parsing_best.md), with decoders, calibration and
tags from a tagger, is made by `training/reproduce/parsing_best.py`.""",
        "header": [
            "F1",
            "WSJ dev",
            "WSJ test",
            "exact match",
            "EWT tune",
            "EWT dev",
            "exact match",
            "training, CPU s",
            "CPU ms a sentence",
            "MB",
        ],
        "rows": [
            *(
                (
                    text,
                    [
                        *(
                            ("parsing_best", f"{step}.wsj.{key}", "{:.1f}")
                            for key in ("dev_f1", "test_f1", "test_exact")
                        ),
                        ("parsing_best", f"{step}.ewt.tune_f1", "{:.1f}"),
                        *(
                            ("parsing_best", f"{step}.ewt.{key}", "{:.1f}") if has_dev else ""
                            for key in ("dev_f1", "dev_exact")
                        ),
                        *(
                            ("parsing_best", f"{step}.wsj.{key}", form)
                            for key, form in (
                                ("train_cpu_s", "{:,.0f}"),
                                ("ms_per_sentence", "{:.1f}"),
                                ("mb", "{:.1f}"),
                            )
                        ),
                    ],
                )
                for step, text, has_dev in (
                    ("generative", "a generative grammar", True),
                    ("lexicon", "with features of words, for tags alone", False),
                    ("span_features", "with features of spans", True),
                    ("neural", "with a network", False),
                    ("neural_features", "with a network and features of spans", False),
                    ("product_generative", "four generative grammars", True),
                    ("product_features", "with features of spans, as the pipeline has it", True),
                    ("product_neural", "with a network and features of spans", False),
                )
            ),
            (
                "Berkeley 1.7",
                [
                    *pb_report.PEERS["Berkeley 1.7"],
                    ("parsing_generative", "peer.train.berkeley.cpu_s", "{:.0f}"),
                    ("parsing_generative", "peer.parse.berkeley.ms_per_sentence", "{:.1f}"),
                    "",
                ],
            ),
            (
                "supar 1.1.4, CRF over a BiLSTM, nothing pretrained",
                [*pb_report.PEERS["supar 1.1.4"], "1,980", "", ""],
            ),
        ],
    },
    "discriminative": {
        "text": """\
Tables 1 and 2 of the paper: all subcategories are split in each round and none merged or smoothed.
The paper has all of the Wall Street Journal, and section 22 of it as dev. Here weights are
corrections of what EM has learned; priors, and how tightly the parser prunes, are chosen on the WSJ
sample's dev; "discriminative" is the best of them. [All of
it](petrov_klein2007.md), with pruning and merging, is made by
`training/reproduce/petrov_klein2007.py`.""",
        "header": [
            "subcategories, dev",
            *(
                f"{corpus}: {kind}"
                for corpus in ("paper", "WSJ sample", "EWT")
                for kind in pk_report.KINDS
            ),
        ],
        "rows": [
            (
                f"{what}, {number}",
                [
                    *(f"{pk_report.TABLE1[number][place + i]:.1f}" for i in range(2)),
                    *(
                        ("petrov_klein2007", f"{corpus}.{kind}.{number}.{key}", "{:.1f}")
                        for corpus in ("wsj", "ewt")
                        for kind in pk_report.KINDS
                    ),
                ],
            )
            for what, key, place in (("F1", "f1", 2), ("exact match", "exact", 0))
            for number in pk_report.NUMBERS
        ],
    },
    "regularization": {
        "text": """\
What the two priors make of the discriminative grammars, here on EWT's dev; features are the weights
other than zero, of the paper's grammars or of our corrections:""",
        "header": [
            "prior, subcategories",
            *(
                f"{what}{whose}"
                for what in ("F1", "features", "iterations")
                for whose in (": paper", "")
            ),
        ],
        "rows": [
            (
                f"{norm.upper()}, {number}",
                [
                    f"{f1:.1f}",
                    ("petrov_klein2007", f"{norm}.{number}.f1", "{:.1f}"),
                    f"{1000 * thousands:,}",
                    ("petrov_klein2007", f"{norm}.{number}.features", "{:,.0f}"),
                    f"{iterations}",
                    ("petrov_klein2007", f"{norm}.{number}.iterations", "{:.0f}"),
                ],
            )
            for norm, rows in pk_report.TABLE2.items()
            for number, (f1, _, thousands, iterations) in rows.items()
        ],
    },
    "titov": {
        "text": """\
Titov & Henderson (2007): incremental sigmoid belief networks, trained on sentences of at most 15
words and scored on such. The paper has the Wall Street Journal; here tags are those of a tagger,
too, on the WSJ sample gold ones. Grammars of the package have learned the same sentences and get
the same tags; the last row takes the best trees of the product and ranks them by the probabilities
of grammars and networks. [All of it](titov_henderson2007.md), with the paper's own
training, gold tags and tags that parsers find, and sequences of random networks, is made by
`training/reproduce/titov_henderson2007.py`.""",
        "header": [
            "sentences of at most 15 words",
            "paper: F1",
            "EWT dev: R",
            "P",
            "F1",
            "exact match",
            "WSJ sample test: F1",
            "training, CPU s",
            "CPU ms a token",
        ],
        "rows": [
            *(
                (
                    text,
                    [
                        paper,
                        *(
                            ("titov_henderson2007", f"ewt15.{key}.{score}", "{:.1f}")
                            for score in ("recall", "precision", "f1", "exact")
                        ),
                        ("titov_henderson2007", f"wsj15.{key}.f1", "{:.1f}"),
                        ("titov_henderson2007", f"{costs}.train_s", "{:,.0f}"),
                        ("titov_henderson2007", f"{costs}.ms_per_token", "{:.2f}"),
                    ],
                )
                for text, key, costs, paper in (
                    ("feed-forward means", "nn", "cpu.nn", "89.1"),
                    ("incremental mean field", "mf", "cpu.mf", "90.0"),
                    *(
                        (text, f"rows.{name}", f"ewt15.rows.{name}", "")
                        for text, name in (
                            ("a generative grammar", "split_merge"),
                            ("four generative grammars", "product4"),
                            ("with features of spans", "span_features"),
                        )
                    ),
                )
            ),
            (
                "four generative grammars, reranked by networks",
                [
                    "",
                    *(
                        ("titov_henderson2007", f"rerank.{score}", "{:.1f}")
                        for score in ("recall", "precision", "f1", "exact")
                    ),
                    "",
                    "",
                    "",
                ],
            ),
        ],
    },
    "m_estimation": {
        "text": """\
Smith, Vail & Lafferty (2007), section 4.1.2: log-linear grammars without inference. Features of
fragments of trees correct a base grammar q0; their weights are M-estimates, for which nothing is
parsed, or by conditional likelihood, with the same features. The paper has no figures for grammars.
[All of it](m_estimated_grammars.md), with F1 over CPU time, fewer sentences and
the choice of templates, is made by `training/reproduce/m_estimated_grammars.py`.""",
        "header": [
            "q0, and features of fragments",
            "WSJ dev: F1",
            "test: F1",
            "beside q0, CPU s",
            "EWT dev: F1",
            "beside q0, CPU s",
        ],
        "rows": [
            (
                text,
                [
                    ("m_estimated_grammars", f"wsj.{key}.dev_f1", "{:.1f}"),
                    ("m_estimated_grammars", f"wsj.{key}.test_f1", "{:.1f}"),
                    *(
                        [("m_estimated_grammars", f"wsj.{key}.cpu_s", "{:,.1f}")]
                        if learned
                        else [""]
                    ),
                    ("m_estimated_grammars", f"ewt.{key}.dev_f1", "{:.1f}"),
                    *(
                        [("m_estimated_grammars", f"ewt.{key}.cpu_s", "{:,.1f}")]
                        if learned
                        else [""]
                    ),
                ],
            )
            for text, key, learned in (
                ("X-bar grammar alone", "xbar.q0", False),
                ("with M-estimates", "xbar.m_est", True),
                ("with one prior for all features", "xbar.m_est_paper", True),
                ("by conditional likelihood", "xbar.discriminative", True),
                ("split-merge grammar alone", "latent.q0", False),
                ("with M-estimates", "latent.m_est", True),
                ("by conditional likelihood", "latent.discriminative", True),
            )
        ],
    },
    "benchmarks": {
        "text": """\
Peers that install from the package index and train without downloads, on the same data, on one
thread, each training and each round of prediction in a process of its own; settings were fixed
beforehand. Scores are those of test: CoNLL-2000, the items of Ratnaparkhi et al., the WSJ sample.
Training is in CPU seconds from sentences in memory to a model on disk, memory is the peak of the
process that trains, and installed is what pip brings beyond Python itself. [All
systems](training/results/benchmarks.md), with their settings, NLTK's parser on short sentences and
what could not be trained, are made by `training/benchmarks/peers.py`.""",
        "header": [
            "beside other packages",
            "F1 or accuracy",
            "training, CPU s",
            "tokens or items a CPU s",
            "memory of training, MB",
            "model, MB",
            "installed, MB",
            "packages",
        ],
        "rows": [
            (
                text,
                [
                    ("benchmarks", f"{key}.{column}", form)
                    for column, form in (
                        ("accuracy" if key.startswith("attachment") else "f1", "{:.1f}"),
                        ("train_cpu_s", "{:,.1f}"),
                        ("per_cpu_s", "{:,.0f}"),
                        ("train_rss_mb", "{:,.0f}"),
                        ("model_mb", "{:,.1f}"),
                        ("install_mb", "{:,.0f}"),
                        ("packages", "{:.0f}"),
                    )
                ],
            )
            for text, key in (
                ("NP chunks: ours, first-order CRF", "chunks.ours_crf"),
                ("ours, averaged perceptron, label pairs", "chunks.ours_perceptron"),
                ("ours, word classes, shapes, IOBES", "chunks.ours_best"),
                ("python-crfsuite, first-order CRF", "chunks.crfsuite_crf"),
                ("python-crfsuite, averaged perceptron, label pairs", "chunks.crfsuite_perceptron"),
                ("spaCy, tok2vec and ner, words and tags", "chunks.spacy_tags"),
                ("scikit-learn, LogisticRegression, greedy", "chunks.sklearn_memm"),
                ("NLTK, ClassifierBasedTagger", "chunks.nltk_classifier"),
                ("PP attachment: ours, hybrid Bayes net", "attachment.ours_bayes_net"),
                ("ours, log-linear model, all conjunctions", "attachment.ours_conjunctions"),
                (
                    "scikit-learn, LogisticRegression, all conjunctions",
                    "attachment.sklearn_conjunctions",
                ),
                ("scikit-learn, SVC, quadratic kernel", "attachment.sklearn_svc"),
                ("pgmpy, Bayes net of frequent words", "attachment.pgmpy"),
                ("NLTK, NaiveBayesClassifier", "attachment.nltk_nb"),
                ("parsing: ours, one split-merge grammar", "parsing.ours_grammar"),
                ("ours, four grammars, features of spans", "parsing.ours_product"),
                ("supar, CRF over a BiLSTM, 16 epochs", "parsing.supar"),
            )
        ],
    },
    "reliability": {
        "text": """\
What was done to it, by the scripts of `training/reliability/`; [training on a
cluster](training/guides/many_machines.md) and [a billion sentences](training/results/scale.md) have
pages of their own.""",
        "header": ["reliability", "figure"],
        "rows": [
            (text, [("reliability", key, form)])
            for text, key, form in (
                (
                    "random inputs of kernels, loaders and readers, under ASan and UBSan",
                    "fuzz.kernels.inputs",
                    "{:,.0f}",
                ),
                ("random documents through every component", "fuzz.pipeline.inputs", "{:,.0f}"),
                ("crashes, hangs, other failures", "fuzz.failures", "{:.0f}"),
                ("damaged files of pipelines that were loaded", "corruption.cases", "{:,.0f}"),
                ("of these not noticed", "corruption.silent", "{:.0f}"),
                ("trainings killed at any moment, and resumed", "kill.resume.kills", "{:.0f}"),
                ("difference from those left in peace", "kill.resume.difference", "{:.0f}"),
                ("sentences applied, a worker killed half-way", "apply.sentences", "{:,.0f}"),
                ("lost or twice", "apply.lost", "{:.0f}"),
                ("memory of a worker by the end, more MB", "apply.rss_growth_mb", "{:.1f}"),
                (
                    "difference between training on a Ray cluster and in threads",
                    "ray.max_abs_difference",
                    "{:.0f}",
                ),
            )
        ],
    },
    "cluster": {
        "text": """\
On two machines of one core each, both of them this one, so that nothing travels over a network;
`training/reliability/cluster.py`:""",
        "header": ["a CRF of CoNLL-2000, two shards", "figure"],
        "rows": [
            (text, [("reliability", f"ray.{key}", form)])
            for text, key, form in (
                ("sentences a second, one actor", "sentences_per_s.1", "{:,.0f}"),
                ("two actors", "sentences_per_s.2", "{:,.0f}"),
                ("one thread of one process", "sentences_per_s.threads.1", "{:,.0f}"),
                ("two threads", "sentences_per_s.threads.2", "{:,.0f}"),
                ("bytes an iteration sends and receives", "bytes_per_iteration", "{:,.0f}"),
                ("the same for each parameter", "bytes_per_parameter", "{:.0f}"),
                (
                    "seconds from the death of an actor to the sum that it was asked for",
                    "recovery_s",
                    "{:.1f}",
                ),
            )
        ],
    },
    "srl": {
        "header": ["semantic roles", "gold trees", "gold tokens", "raw text"],
        "rows": [
            (
                text,
                [
                    ("srl", f"end_to_end.{trees}.{key}", "{:.1f}")
                    for trees in ("gold_trees", "gold_tokens", "raw")
                ],
            )
            for text, key in (
                ("arguments, F1", "f1"),
                ("precision", "precision"),
                ("recall", "recall"),
                ("identified, whatever the label: F1", "identification_f1"),
                ("of these, the right label", "label_acc"),
                ("predicates, F1", "predicate_f1"),
                ("their senses, accuracy", "sense_acc"),
                ("ARG0, F1", "ARG0.f1"),
                ("ARG1, F1", "ARG1.f1"),
                ("ARG2, F1", "ARG2.f1"),
                ("ARGM-TMP, F1", "ARGM-TMP.f1"),
                ("ARGM-LOC, F1", "ARGM-LOC.f1"),
            )
        ],
    },
    "srl_core": {
        "header": ["roles of core arguments, accuracy", "paper, WSJ", "EWT dev", "WSJ sample test"],
        "rows": [
            (
                text,
                [
                    paper,
                    *(("srl", f"{part}{key}.test_acc", "{:.1f}") for part in ("", "wsj.")),
                ],
            )
            for text, key, paper in (
                ("naive Bayes, 1 d", "core.nb.1", "83.3"),
                ("naive Bayes, 15 d", "core.nb.15", "85.2"),
                ("hybrid naive Bayes, 15 d", "core.hybrid_nb.15", "86.5"),
                ("logistic regression", "core.lr", "91.1"),
                ("hybrid Bayes net, structure search", "core.hybrid_bn.multi", "93.7"),
                ("the same with 3 parents, by hill climbing", "core.hybrid_bn.best", ""),
                ("log-linear model, structure search", "core.loglinear", "93.9"),
                ("log-linear model, 20 more features", "extra.local", "96.0"),
                ("the same, among the verb's other arguments", "extra.loglinear", ""),
                ("the same, with the gold roleset", "extra.gold_roleset", ""),
            )
        ],
    },
}


def figure(results: str, key: str) -> Any:
    """One figure of training/results/RESULTS.json."""
    return reduce(lambda table, part: table[part], key.split("."), _results(results))


def _results(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf8"))


def table(name: str) -> str:
    """One table as Markdown."""
    header = TABLES[name]["header"]
    texts = TABLES[name].get("texts", 1)  # columns of texts, not of figures
    lines = [header, ["---"] * texts + ["---:"] * (len(header) - texts)]
    for text, cells in TABLES[name]["rows"]:
        lines.append([text, *map(_cell, cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def is_measured(name: str) -> bool:
    """Whether all figures of a table are recorded."""
    try:
        table(name)
    except (FileNotFoundError, KeyError):
        return False
    return True


def block(name: str) -> str:
    """What stands between the two comments of a table."""
    text = TABLES[name].get("text")
    if text is None:
        return f"{table(name)}\n"
    return f"{text}\n\n{table(name)}\n" if is_measured(name) else ""


def _cell(cell: str | tuple[str, str, str]) -> str:
    if isinstance(cell, str):
        return cell
    results, key, form = cell
    return form.format(figure(results, key))


def fill(text: str) -> str:
    """`text` with every table in it made anew."""
    pattern = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{block(found[2])}{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    for page in PAGES:
        text = page.read_text(encoding="utf8")
        filled = fill(text)
        if not args.check:
            page.write_text(filled, encoding="utf8")
        elif filled != text:
            sys.exit(f"{page.relative_to(ROOT)}: run python training/tables.py")


if __name__ == "__main__":
    main()
