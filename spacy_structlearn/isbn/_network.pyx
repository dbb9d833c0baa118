# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Log-likelihoods of derivations and their gradients in sigmoid belief networks.

Titov & Henderson (2007): the means of a state's latent variables before its first decision are
eq. 4, the distribution of a decision is eq. 5, the likelihood eq. 6. In the feed-forward
approximation the means do not change during the elementary decisions of a move. In the mean field
approximation they are updated after each decision by maximising eq. 8, and gradients go through the
maximum by implicit differentiation (their section 5.3). The equations are in `_network.pxd`.
"""

from libc.math cimport NAN, log
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from spacy_structlearn.kernels.doubles cimport add_outer, add_to, matvec, vecmat

import numpy as np

from ..errors import StructlearnError

cdef enum:
    MOST_DECISIONS = 3  # elementary ones of a move: shift, tag, word
    STAGES = 4  # of the means of a state: before each decision, and after the last


cdef struct sentence_t:
    # One derivation, as views of the arrays of many
    const int8_t *moves
    const int32_t *labels
    const int32_t *tags
    const int32_t *items
    const int32_t *signatures
    int n_moves, n_words
    uint64_t number


cdef struct decision_t:
    block_t block
    int chosen
    int64_t before, after  # places in `probs`: distributions before and after the update


cdef struct step_t:
    int n_decisions
    decision_t decisions[MOST_DECISIONS]


# What forward leaves for backward, of one derivation of m moves
cdef struct work_t:
    state_t *states  # (m + 1)
    step_t *steps  # (m + 1)
    double *phi  # (m + 1, STAGES, n)
    double *mu  # (m + 1, STAGES, n)
    double *read  # (m + 1, n): final means as later states read them, by the number of the next one
    double *mask  # (m + 1, n): of dropout
    double *d_read  # (m + 1, n)
    double *g  # (n)
    double *h  # (n)
    double *probs
    solver_t solver
    double dropout
    uint64_t seed


cdef int64_t n_probs_of(const isbn_t *net, const sentence_t *s) noexcept nogil:
    """Return the number of `probs` of a derivation."""
    cdef int64_t total = 0
    cdef int t, word = 0
    for t in range(s.n_moves):
        total += N_MOVES
        if s.moves[t] == PROJECT:
            total += net.n_labels
        elif s.moves[t] == SHIFT and word < s.n_words:
            total += net.n_tags
            total += net.item_offsets[s.tags[word] + 1] - net.item_offsets[s.tags[word]]
            word += 1
    return 2 * total


cdef int advance(const isbn_t *net, const sentence_t *s, int t, work_t *w) noexcept nogil:
    """Compute state t + 1 and the block of each decision. Returns 0 if the move is illegal."""
    cdef state_t *state = w.states + t
    cdef const state_t *below = NULL
    cdef step_t *step = w.steps + t
    cdef int move = s.moves[t], label = -1, word = state.n_words, legal
    cdef leaf_t leaf = leaf_t(-1, -1, -1)
    if state.below >= 0:
        below = w.states + state.below
    legal = legal_moves(net, state, below)
    if not legal >> move & 1:
        return 0
    step.n_decisions = 1
    step.decisions[0].block = move_block(net, legal)
    step.decisions[0].chosen = move
    if move == PROJECT:
        label = s.labels[t]
        if label < 0:
            return 0
        step.n_decisions = 2
        step.decisions[1].block = label_block(net)
        step.decisions[1].chosen = label
    elif move == SHIFT:
        if word >= s.n_words:
            return 0
        leaf = leaf_t(s.tags[word], s.items[word], s.signatures[word])
        step.n_decisions = 3
        step.decisions[1].block = tag_block(net)
        step.decisions[1].chosen = leaf.tag
        step.decisions[2].block = item_block(net, leaf.tag)
        step.decisions[2].chosen = leaf.item - net.item_offsets[leaf.tag]
    next_state(state, t, w.states + t + 1, t + 1, below, move, label, leaf, net.n_labels)
    return 1


cdef double forward(const isbn_t *net, const sentence_t *s, work_t *w, int *wrong) noexcept nogil:
    """Return the log-likelihood of a derivation. wrong: the number of an illegal move, or -1."""
    cdef int n = net.n, t, k, tau, related
    cdef int64_t used = 0
    cdef double total = 0.0, log_sum
    cdef double *phi
    cdef double *mu
    cdef double *p
    cdef step_t *step
    cdef decision_t *decision
    cdef state_t *state
    wrong[0] = -1
    first_state(net, w.states)
    for t in range(s.n_moves):
        state = w.states + t
        step = w.steps + t
        if not advance(net, s, t, w):
            wrong[0] = t
            return NAN
        phi = w.phi + <int64_t> t * STAGES * n
        mu = w.mu + <int64_t> t * STAGES * n
        memset(phi, 0, n * sizeof(double))
        for tau in range(N_RELATIONS):
            related = state.related[tau]
            if related >= 0:
                matvec(phi, net.recurrent + <int64_t> tau * n * n, w.read + <int64_t> related * n,
                       n, n, 1)
        prior_means(net, state, phi, mu)
        for k in range(step.n_decisions):
            decision = step.decisions + k
            p = w.probs + used
            decision.before = used
            used += decision.block.size
            log_sum = softmax(&decision.block, mu, n, p)
            total += log(p[decision.chosen])
            if net.mean_field:
                decision.after = used
                used += decision.block.size
                memcpy(w.probs + decision.after, p, decision.block.size * sizeof(double))
                memcpy(mu + n, mu, n * sizeof(double))
                update_means(net, &decision.block, phi, decision.chosen, phi + n, mu + n,
                             w.probs + decision.after, log_sum, &w.solver)
                phi += n
                mu += n
        memcpy(w.read + <int64_t> (t + 1) * n, mu, n * sizeof(double))
        if w.dropout > 0:
            p = w.mask + <int64_t> (t + 1) * n
            dropout_mask(p, n, w.dropout, w.seed, s.number, t)
            for k in range(n):
                w.read[<int64_t> (t + 1) * n + k] *= p[k]
    state = w.states + s.n_moves
    if state.n_words != s.n_words or (net.n_labels and not state.is_done):
        wrong[0] = s.n_moves
    return total


cdef void backward(const isbn_t *net, const sentence_t *s, work_t *w, double scale,
                   double *gradient) noexcept nogil:
    """Add scale times the gradient of the log-likelihood to `gradient`."""
    cdef int n = net.n, t, k, d, tau, related, r, count, size
    cdef int64_t wide = n
    cdef double *d_recurrent = gradient
    cdef double *d_inputs = d_recurrent + N_RELATIONS * wide * wide
    cdef double *d_bias = d_inputs + net.n_inputs * wide
    cdef double *d_outputs = d_bias + wide
    cdef double *d_output_bias = d_outputs + net.n_outputs * wide
    cdef double *g = w.g
    cdef double *h = w.h
    cdef double *phi
    cdef double *mu
    cdef double *p
    cdef double *scores
    cdef step_t *step
    cdef decision_t *decision
    cdef state_t *state
    cdef int[MAX_ROWS] rows
    memset(w.d_read, 0, (s.n_moves + 1) * wide * sizeof(double))
    for t in range(s.n_moves - 1, -1, -1):
        state = w.states + t
        step = w.steps + t
        memcpy(g, w.d_read + (t + 1) * wide, n * sizeof(double))
        if w.dropout > 0:
            for k in range(n):
                g[k] *= w.mask[(t + 1) * wide + k]
        memset(h, 0, n * sizeof(double))
        count = step.n_decisions if net.mean_field else 0
        phi = w.phi + (<int64_t> t * STAGES + count) * n
        mu = w.mu + (<int64_t> t * STAGES + count) * n
        for k in range(step.n_decisions - 1, -1, -1):
            decision = step.decisions + k
            size = decision.block.size
            if net.mean_field:
                update_backward(&decision.block, decision.chosen, phi, mu,
                                w.probs + decision.after, g, h, n,
                                d_outputs + decision.block.first * wide,
                                d_output_bias + decision.block.first, &w.solver)
                memset(g, 0, n * sizeof(double))
                phi -= n
                mu -= n
            if is_forced(&decision.block):
                continue
            # d log q(a) / d score_d = [d = a] - q_d; the distribution is not needed any more.
            scores = w.probs + decision.before
            for d in range(size):
                scores[d] = -scale * scores[d]
            scores[decision.chosen] += scale
            add_outer(d_outputs + decision.block.first * wide, scores, mu, size, n)
            add_to(d_output_bias + decision.block.first, scores, 1.0, size)
            vecmat(g, decision.block.rows, scores, size, n)
        sigmoids_backward(phi, mu, g, h, n)
        add_to(d_bias, h, 1.0, n)
        count = input_rows(net, state, rows)
        for r in range(count):
            add_to(d_inputs + rows[r] * wide, h, 1.0, n)
        for tau in range(N_RELATIONS):
            related = state.related[tau]
            if related >= 0:
                add_outer(d_recurrent + tau * wide * wide, h, w.read + related * wide, n, n)
                vecmat(w.d_read + related * wide, net.recurrent + tau * wide * wide, h, n, n)


cdef object view(sentence_t *out, Network network, const double[::1] weights,
                 const int64_t[::1] offsets, const int64_t[::1] word_offsets,
                 const int8_t[::1] moves, const int32_t[::1] labels, const int32_t[::1] tags,
                 const int32_t[::1] items, const int32_t[::1] signatures,
                 const int64_t[::1] sentences):
    """Set `out` to all sentences as one. Raises SL641 if an index of some is out of range."""
    cdef int64_t i, k, number, n_sentences = offsets.shape[0] - 1, n_words = tags.shape[0]
    cdef const isbn_t *net = &network.net
    cdef const char *problem = NULL
    if (weights.shape[0] != network.n_weights or n_sentences < 0
            or word_offsets.shape[0] != offsets.shape[0] or labels.shape[0] != moves.shape[0]
            or not items.shape[0] == signatures.shape[0] == n_words < 2**31
            or moves.shape[0] >= 2**31):
        problem = "arrays of different sizes"
    else:
        for i in range(sentences.shape[0]):
            number = sentences[i]
            if not 0 <= number < n_sentences:
                problem = "a sentence that is not there"
                break
            if not (0 <= offsets[number] <= offsets[number + 1] <= moves.shape[0]
                    and 0 <= word_offsets[number] <= word_offsets[number + 1] <= n_words):
                problem = "offsets out of range"
                break
            for k in range(offsets[number], offsets[number + 1]):
                if not (0 <= moves[k] < N_MOVES and -1 <= labels[k] < net.n_labels):
                    problem = "a move or label out of range"
            for k in range(word_offsets[number], word_offsets[number + 1]):
                if not (0 <= tags[k] < net.n_tags
                        and net.item_offsets[tags[k]] <= items[k] < net.item_offsets[tags[k] + 1]
                        and -1 <= signatures[k] < net.n_signatures):
                    problem = "a tag, item or signature out of range"
    if problem != NULL:
        raise StructlearnError("SL641", problem=problem.decode())
    # An empty view has no first element to point to.
    memset(out, 0, sizeof(sentence_t))
    if moves.shape[0]:
        out.moves, out.labels = &moves[0], &labels[0]
    if n_words:
        out.tags, out.items, out.signatures = &tags[0], &items[0], &signatures[0]


cdef sentence_t sentence(sentence_t s, const int64_t[::1] offsets,
                         const int64_t[::1] word_offsets, int64_t number) noexcept nogil:
    """Return one sentence of all."""
    cdef int64_t first = offsets[number], word = word_offsets[number]
    s.n_moves = <int> (offsets[number + 1] - first)
    s.n_words = <int> (word_offsets[number + 1] - word)
    s.number = <uint64_t> number
    s.moves, s.labels = s.moves + first, s.labels + first
    s.tags, s.items, s.signatures = s.tags + word, s.items + word, s.signatures + word
    return s


cdef class Network:
    """The shape of a network. The order of its weights is that of `model.ISBN`.

    state_size: n, the number of latent variables of a state.
    n_labels, n_tags, item_offsets, n_signatures, max_projects: see `DerivationSymbols`. Without
        labels, only shifts are legal.
    features: the blocks of inputs that are used, some of "abcd".
    mean_field: whether means are updated after each decision.
    tolerance: accuracy of the natural parameters of these means.

    Raises StructlearnError if a size is out of range.
    """

    def __init__(
        self,
        int64_t state_size,
        int64_t n_labels,
        int64_t n_tags,
        item_offsets,
        int64_t n_signatures=0,
        int64_t max_projects=0,
        str features="abcd",
        bint mean_field=False,
        double tolerance=1e-8,
    ):
        cdef int k, leaves
        cdef isbn_t net
        offsets = np.array(item_offsets, dtype=np.int64)
        if not 1 <= state_size <= MOST_STATE_SIZE:
            raise StructlearnError("SL640", problem=f"a state size of {state_size}")
        if min(n_labels, n_tags, n_signatures, max_projects) < 0 or (
            offsets.shape != (n_tags + 1,) or offsets[0] != 0 or (np.diff(offsets) < 0).any()
        ):
            raise StructlearnError("SL640", problem="negative numbers of symbols")
        if max(n_labels, n_tags, n_signatures, max_projects, offsets[n_tags]) > MOST_SYMBOLS:
            raise StructlearnError("SL640", problem="more than 2^24 symbols")
        memset(&net, 0, sizeof(isbn_t))
        net.n = <int> state_size
        net.n_labels, net.n_tags = <int> n_labels, <int> n_tags
        net.n_items, net.n_signatures = <int> offsets[n_tags], <int> n_signatures
        net.max_projects = <int> max_projects
        net.mean_field = mean_field
        net.tolerance = tolerance
        for k in range(4):
            net.reads[k] = "abcd"[k] in features
        leaves = net.n_tags + net.n_items + net.n_signatures
        net.last = 0
        net.top = N_MOVES + net.n_labels + leaves
        net.leaf = net.top + net.n_labels + 1 + net.n_tags
        net.corner = net.leaf + leaves
        net.n_inputs = net.corner + leaves
        net.n_outputs = N_MOVES + net.n_labels + net.n_tags + net.n_items
        self.offsets = offsets.astype(np.int32)
        net.item_offsets = &self.offsets[0]
        self.net = net
        self.n_weights = (N_RELATIONS * net.n + net.n_inputs + net.n_outputs + 1) * <int64_t> net.n
        self.n_weights += net.n_outputs

    def log_likelihoods(self, const double[::1] weights, const int64_t[::1] offsets,
                        const int64_t[::1] word_offsets, const int8_t[::1] moves,
                        const int32_t[::1] labels, const int32_t[::1] tags,
                        const int32_t[::1] items, const int32_t[::1] signatures,
                        const int64_t[::1] sentences, double[::1] gradient=None,
                        double dropout=0.0, uint64_t seed=0, double scale=1.0):
        """Return log P of k derivations, eq. 6, in nats, as float64 (k).

        weights: float64 (n_weights).
        offsets, word_offsets, moves, labels, tags, items, signatures: see `LeftCornerDerivations`.
        sentences: int64 (k), the numbers of the sentences.
        gradient: float64 (n_weights), or None. `scale` times the gradient of the sum of the
            log-likelihoods is added to it, in part if an error is raised.
        dropout: the share of the final means that later states read as 0; the others are scaled up.
        seed: it and the number of the sentence determine which means these are.

        The GIL is released. Raises StructlearnError if an index is out of range or a move is not
        legal.
        """
        cdef isbn_t net = self.net
        cdef sentence_t every, s
        cdef work_t w
        cdef int wrong = -1
        cdef int64_t i, n = net.n, m = 1, n_probs = 0
        cdef double[::1] out = np.empty(sentences.shape[0])
        view(&every, self, weights, offsets, word_offsets, moves, labels, tags, items, signatures,
             sentences)
        if gradient is not None and gradient.shape[0] != self.n_weights:
            raise StructlearnError("SL641", problem="a gradient of the wrong size")
        if not 0 <= dropout < 1:
            raise StructlearnError("SL641", problem=f"a dropout of {dropout}")
        for i in range(sentences.shape[0]):
            s = sentence(every, offsets, word_offsets, sentences[i])
            m = max(m, s.n_moves + 1)
            n_probs = max(n_probs, n_probs_of(&net, &s))
        cdef char[::1] states = np.empty(m * sizeof(state_t), dtype=np.int8)
        cdef char[::1] steps = np.empty(m * sizeof(step_t), dtype=np.int8)
        cdef double[::1] memory = np.empty(
            (2 * STAGES + 3) * m * n + (2 + SOLVER_VECTORS) * n + n_probs + largest_block(&net)
        )
        w.states, w.steps = <state_t *> &states[0], <step_t *> &steps[0]
        w.phi = &memory[0]
        w.mu = w.phi + m * STAGES * n
        w.read = w.mu + m * STAGES * n
        w.mask = w.read + m * n
        w.d_read = w.mask + m * n
        w.g = w.d_read + m * n
        w.h = w.g + n
        w.probs = w.h + n
        set_solver(&w.solver, w.probs + n_probs, net.n)
        w.dropout, w.seed = dropout, seed
        set_weights(&net, &weights[0])
        with nogil:
            for i in range(sentences.shape[0]):
                s = sentence(every, offsets, word_offsets, sentences[i])
                out[i] = forward(&net, &s, &w, &wrong)
                if wrong >= 0:
                    break
                if gradient is not None:
                    backward(&net, &s, &w, scale, &gradient[0])
        if wrong >= 0:
            raise StructlearnError("SL642", sentence=s.number, move=wrong)
        return np.asarray(out)
