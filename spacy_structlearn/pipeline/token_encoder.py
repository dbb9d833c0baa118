"""Vectors of tokens in context, by a pretrained encoder, for the components behind it.

The encoder reads each sentence once. Its vectors are kept for a Doc as long as the Doc lives, and
components with the setting `encoder` read them. The encoder stays as it is: those components learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..encoder.session import BATCH_PIECES, Encoder
from ..errors import StructlearnError
from ..learning.settings import MAX_PARTS, Settings, document, setting
from .architectures import forward
from .doc_arrays import distinct_words, read_tokens, set_vectors
from .storage.component import StoredComponent, let_be_stored


@dataclass(frozen=True, kw_only=True)
class TokenEncoderSettings(Settings):
    """Give tokens vectors in context, which other components read."""

    name: ClassVar[str] = "token_encoder"
    set_tensor: bool = setting(
        False,
        help="Write the vectors to `doc.tensor`, too, which is saved with the Doc and sent between "
        "processes. They are larger than all else in a Doc.",
    )
    threads: int = setting(
        1, ge=1, le=MAX_PARTS, help="Number of threads of onnxruntime. Use 1 with `n_process`."
    )
    batch_pieces: int = setting(
        BATCH_PIECES,
        ge=1,
        help="Number of word pieces that are read at once, in sentences of similar length. It "
        "does not change the vectors.",
    )


class TokenEncoder(StoredComponent):
    """Gives each Doc a vector for each token. White space has zeros.

    A Doc without sentence boundaries is one sentence. Long sentences are read in windows.
    """

    settings_kind = TokenEncoderSettings
    cfg_types: ClassVar[dict[str, Any]] = {}
    set_tensor: bool
    threads: int
    batch_pieces: int

    def __init__(self, vocab: Vocab, name: str = "token_encoder", **settings: Any):
        """Create a component without an encoder. Pipelines do this: see `Language.add_pipe`."""
        self.vocab, self.name = vocab, name
        self.cfg: dict[str, Any] = {}
        self.model: Model = Model("token_encoder", forward, attrs={"parameters": Encoder()})
        let_be_stored(self.model)
        for key, value in asdict(TokenEncoderSettings(**settings)).items():
            setattr(self, key, value)

    @property
    def is_trainable(self) -> bool:
        """Whether `nlp.update` trains it: never."""
        return False

    def initialize(self, get_examples: Callable, *, nlp: Language | None = None) -> None:
        """Do nothing: the encoder stays as it is."""

    def update(self, examples: Iterable[Example], **options: Any) -> dict[str, float]:
        """Do nothing, and return the losses."""
        return options.get("losses") or {}

    def predict(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        """Return the vectors of the tokens of each Doc, float32 (n, width).

        Raises StructlearnError if there is no encoder, or no onnxruntime to run it.
        """
        encoder = self.parameters
        if encoder.is_empty:
            raise StructlearnError("SL194", component=self.name)
        tokens = read_tokens(docs, ["ORTH"], self.name)
        texts, numbers = distinct_words(docs, tokens.columns[:, 0])
        words = [texts[number] for number in numbers.tolist()]
        sentences = [words[begin:end] for begin, end in pairwise(tokens.offsets.tolist())]
        found = encoder.vectors(sentences, batch_pieces=self.batch_pieces, threads=self.threads)
        table = np.zeros((int(tokens.firsts[-1]), encoder.width), dtype=np.float32)
        table[tokens.indices] = np.concatenate([table[:0], *found])
        return [table[begin:end].copy() for begin, end in pairwise(tokens.firsts.tolist())]

    def set_annotations(self, docs: Iterable[Doc], vectors: Iterable[NDArray]) -> None:
        """Keep the vectors for each Doc."""
        for doc, own in zip(docs, vectors, strict=True):
            set_vectors(doc, own)
            if self.set_tensor:
                doc.tensor = own

    def _loaded(self, place: object, exclude: Iterable[str]) -> None:
        """Check nothing: there are no labels."""


@Language.factory(
    TokenEncoderSettings.name,
    assigns=["doc.tensor"],
    requires=["token.is_sent_start"],
    default_config=asdict(TokenEncoderSettings()),
)
def make_token_encoder(
    nlp: Language, name: str, set_tensor: bool, threads: int, batch_pieces: int
) -> TokenEncoder:
    """Make the component."""
    return TokenEncoder(
        nlp.vocab, name, set_tensor=set_tensor, threads=threads, batch_pieces=batch_pieces
    )


TokenEncoder.__doc__ = document(TokenEncoderSettings, str(TokenEncoder.__doc__))
make_token_encoder.__doc__ = document(TokenEncoderSettings)
make_token_encoder.component = TokenEncoder
