# cython: boundscheck=False, wraparound=False, cdivision=True
"""What training and search share: states of left-corner derivations, the means of their latent
variables by eqs. 4 and 8 of Titov & Henderson (2007), and distributions of decisions by eq. 5.
"""

from libc.math cimport INFINITY, exp, fabs, log, log1p, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from spacy_structlearn.kernels.doubles cimport add_outer, add_to, exponentials, matvec
from spacy_structlearn.kernels.doubles cimport sigmoids, vecmat
from spacy_structlearn.kernels.hashing cimport mix

cdef enum:
    # Moves
    SHIFT = 0
    PROJECT = 1
    ATTACH = 2
    MODIFY = 3
    N_MOVES = 4

cdef enum:
    # Relations to earlier states
    SELF = 0
    ANCESTOR = 1
    LEFT_CHILD = 2
    RECENT_CHILD = 3
    N_RELATIONS = 4

cdef enum:
    PHI_LIMIT = 15  # of the natural parameters of means
    NEWTON_STEPS = 100
    HALVINGS = 40
    MAX_ROWS = 12  # of inputs that one state reads
    SOLVER_VECTORS = 10
    MOST_STATE_SIZE = 4096
    MOST_SYMBOLS = 16777216


cdef struct isbn_t:
    int n  # latent variables of a state
    int n_labels, n_tags, n_items, n_signatures
    int max_projects  # in a row
    int mean_field
    int[4] reads  # whether each block of inputs is used: a, b, c, d
    double tolerance  # of the natural parameters that the solver finds
    const int32_t *item_offsets  # (n_tags + 1): the items of each tag
    int last, top, leaf, corner  # first rows of the blocks a, b, c, d of inputs
    int n_inputs, n_outputs
    const double *recurrent  # (4, n, n)
    const double *inputs  # (n_inputs, n)
    const double *bias  # (n)
    const double *outputs  # (n_outputs, n): moves, labels, tags, items
    const double *output_bias  # (n_outputs)


cdef struct leaf_t:
    # A word as later states read it; tag -1: no word; signature -1: none, or a known word
    int tag, item, signature


cdef struct state_t:
    # The state after some moves. Each move makes one new node on top of the stack, so that nodes of
    # the tree and states have the same numbers. The final means of a state depend on the move made
    # there, so they are kept under the number of the next state, which `related` refers to.
    int[4] related  # by relation; -1: none
    int below  # the state of the node below the top; -1: none
    int symbol  # of the top: a label, n_labels for ROOT, or the tag of a leaf
    int is_leaf, has_modifier, is_done
    int n_projects  # in a row, up to here
    int n_words  # shifted so far
    int move, label  # what led here; -1 in the first state
    leaf_t leaf, corner  # the last word shifted; the leftmost word below the top


cdef struct block_t:
    # The alternatives of a decision: rows of outputs
    const double *rows  # (size, n)
    const double *biases  # (size)
    int size
    int legal  # a bit for each alternative, at most N_MOVES of them; -1: all are legal
    int first  # row of outputs


cdef struct solver_t:
    # Workspace of the solver: vectors of n, and `scores` of the largest block
    double *force
    double *trial
    double *slopes
    double *wbar
    double *x
    double *direction
    double *residual
    double *product
    double *applied
    double *old
    double *scores


cdef class Network:
    cdef isbn_t net
    cdef const int32_t[::1] offsets
    cdef readonly int64_t n_weights


cdef inline void set_weights(isbn_t *net, const double *weights) noexcept nogil:
    """weights: recurrent, inputs, bias, outputs, output_bias, one after the other."""
    cdef int64_t n = net.n
    net.recurrent = weights
    net.inputs = net.recurrent + N_RELATIONS * n * n
    net.bias = net.inputs + net.n_inputs * n
    net.outputs = net.bias + n
    net.output_bias = net.outputs + net.n_outputs * n


# --- derivations ---------------------------------------------------------------------------------
cdef inline void first_state(const isbn_t *net, state_t *state) noexcept nogil:
    cdef int tau
    memset(state, 0, sizeof(state_t))
    for tau in range(N_RELATIONS):
        state.related[tau] = -1
    state.symbol = net.n_labels
    state.below = state.move = state.label = -1
    state.leaf.tag = state.leaf.item = state.leaf.signature = -1
    state.corner = state.leaf


cdef inline int legal_moves(const isbn_t *net, const state_t *state,
                            const state_t *below) noexcept nogil:
    """Return a bit for each legal move. below: the state of the node below the top, or NULL."""
    cdef int mask = 0
    if net.n_labels == 0:
        return 1 << SHIFT
    if below == NULL:
        return 0 if state.is_done else 1 << SHIFT
    if not state.is_leaf:
        mask |= 1 << SHIFT
    if state.n_projects < net.max_projects:
        mask |= 1 << PROJECT
    if not below.has_modifier:
        mask |= 1 << ATTACH
    if below.symbol != net.n_labels:
        mask |= 1 << MODIFY
    return mask


cdef inline void next_state(const state_t *state, int number, state_t *out, int out_number,
                            const state_t *below, int move, int label, leaf_t leaf,
                            int root) noexcept nogil:
    """Set `out` to the state after a move. label: of a project; leaf: of a shift."""
    cdef state_t s = state[0]
    s.move = move
    s.label = -1
    s.related[SELF] = -1
    s.related[RECENT_CHILD] = out_number
    if move == SHIFT:
        s.below = number
        s.related[ANCESTOR] = out_number
        s.related[LEFT_CHILD] = s.related[RECENT_CHILD] = -1
        s.symbol = leaf.tag
        s.is_leaf = 1
        s.has_modifier = s.n_projects = 0
        s.n_words += 1
        s.leaf = s.corner = leaf
    elif move == PROJECT:
        s.label = label
        s.related[LEFT_CHILD] = out_number
        s.symbol = label
        s.is_leaf = s.has_modifier = 0
        s.n_projects += 1
    else:
        s.below = below.below
        s.related[SELF] = state.related[ANCESTOR]
        s.related[ANCESTOR] = below.related[ANCESTOR]
        s.related[LEFT_CHILD] = out_number if below.corner.tag < 0 else below.related[LEFT_CHILD]
        s.symbol = below.symbol
        s.is_leaf = s.n_projects = 0
        s.has_modifier = below.has_modifier or move == MODIFY
        s.is_done = below.symbol == root
        s.corner = state.corner if below.corner.tag < 0 else below.corner
    out[0] = s


cdef inline int leaf_rows(const isbn_t *net, leaf_t leaf, int first, int *rows) noexcept nogil:
    if leaf.tag < 0:
        return 0
    rows[0] = first + leaf.tag
    rows[1] = first + net.n_tags + leaf.item
    if leaf.signature < 0:
        return 2
    rows[2] = first + net.n_tags + net.n_items + leaf.signature
    return 3


cdef inline int input_rows(const isbn_t *net, const state_t *state, int *rows) noexcept nogil:
    """Set the rows of inputs that a state reads. Returns their number, at most MAX_ROWS."""
    cdef int count = 0
    if net.reads[0] and state.move >= 0:
        rows[0] = net.last + state.move
        count = 1
        if state.move == PROJECT:
            rows[1] = net.last + N_MOVES + state.label
            count = 2
        elif state.move == SHIFT:
            count += leaf_rows(net, state.leaf, net.last + N_MOVES + net.n_labels, rows + 1)
    if net.reads[1]:
        rows[count] = net.top + state.symbol + (net.n_labels + 1 if state.is_leaf else 0)
        count += 1
    if net.reads[2]:
        count += leaf_rows(net, state.leaf, net.leaf, rows + count)
    if net.reads[3]:
        count += leaf_rows(net, state.corner, net.corner, rows + count)
    return count


# --- decisions -----------------------------------------------------------------------------------
cdef inline block_t block_of(const isbn_t *net, int first, int size, int legal) noexcept nogil:
    cdef block_t block
    block.rows = net.outputs + <int64_t> first * net.n
    block.biases = net.output_bias + first
    block.size, block.legal, block.first = size, legal, first
    return block


cdef inline block_t move_block(const isbn_t *net, int legal) noexcept nogil:
    return block_of(net, 0, N_MOVES, legal)


cdef inline block_t label_block(const isbn_t *net) noexcept nogil:
    return block_of(net, N_MOVES, net.n_labels, -1)


cdef inline block_t tag_block(const isbn_t *net) noexcept nogil:
    return block_of(net, N_MOVES + net.n_labels, net.n_tags, -1)


cdef inline block_t item_block(const isbn_t *net, int tag) noexcept nogil:
    cdef int first = net.item_offsets[tag]
    return block_of(net, N_MOVES + net.n_labels + net.n_tags + first,
                    net.item_offsets[tag + 1] - first, -1)


cdef inline int largest_block(const isbn_t *net) noexcept nogil:
    cdef int size = max(N_MOVES, net.n_labels, net.n_tags), tag
    for tag in range(net.n_tags):
        size = max(size, net.item_offsets[tag + 1] - net.item_offsets[tag])
    return size


cdef inline int is_forced(const block_t *block) noexcept nogil:
    """Whether there is only one alternative."""
    if block.legal < 0:
        return block.size < 2
    return (block.legal & (block.legal - 1)) == 0


cdef inline double softmax(const block_t *block, const double *mu, int n,
                           double *p) noexcept nogil:
    """Set p[d] = P(d | mu), eq. 5. Returns the logarithm of the sum."""
    cdef double top = -INFINITY, total = 0.0
    cdef int d, size = block.size, legal = block.legal
    matvec(p, block.rows, mu, size, n, 0)
    for d in range(size):
        p[d] += block.biases[d]
        if legal >= 0 and not legal >> d & 1:
            p[d] = -INFINITY
        if p[d] > top:
            top = p[d]
    for d in range(size):
        p[d] -= top
    exponentials(p, size)
    for d in range(size):
        if legal >= 0 and not legal >> d & 1:
            p[d] = 0.0
        total += p[d]
    for d in range(size):
        p[d] /= total
    return top + log(total)


# --- mean field ----------------------------------------------------------------------------------
cdef inline void set_solver(solver_t *s, double *workspace, int n) noexcept nogil:
    """workspace: SOLVER_VECTORS * n doubles, and as many as the largest block has."""
    cdef double **vectors = &s.force
    cdef int k
    for k in range(SOLVER_VECTORS + 1):
        vectors[k] = workspace + <int64_t> k * n


cdef inline void clamp(double *phi, int n) noexcept nogil:
    cdef int k
    for k in range(n):
        # Written so that a NaN is caught too.
        if not phi[k] < PHI_LIMIT:
            phi[k] = PHI_LIMIT
        if phi[k] < -PHI_LIMIT:
            phi[k] = -PHI_LIMIT


cdef inline void prior_means(const isbn_t *net, const state_t *state, double *phi,
                             double *mu) noexcept nogil:
    """Set phi and mu to the prior means of a state, eta of eq. 4. phi: the recurrent terms."""
    cdef int[MAX_ROWS] rows
    cdef int r, count = input_rows(net, state, rows)
    add_to(phi, net.bias, 1.0, net.n)
    for r in range(count):
        add_to(phi, net.inputs + <int64_t> rows[r] * net.n, 1.0, net.n)
    clamp(phi, net.n)
    sigmoids(mu, phi, net.n)


cdef inline void covariance(const block_t *block, const double *p, const double *v, int n,
                            double *scores, double *out) noexcept nogil:
    """Set out = C v, where C = sum_d p_d W_d W_d' - wbar wbar'. scores: workspace."""
    cdef double mean = 0.0
    cdef int d, size = block.size
    matvec(scores, block.rows, v, size, n, 0)
    for d in range(size):
        mean += p[d] * scores[d]
    for d in range(size):
        scores[d] = p[d] * (scores[d] - mean)
    memset(out, 0, n * sizeof(double))
    vecmat(out, block.rows, scores, size, n)


cdef inline void solve(const block_t *block, const double *p, const double *right, int n,
                       double tolerance, solver_t *s) noexcept nogil:
    """Solve (I + S C S) x = right by conjugate gradients; also set applied = C S x.

    S = diag(slopes), with slopes = sqrt(D). The rank of C is at most the size of the block less
    one, so there are few steps. Uses direction, residual, product and old.
    """
    cdef double rho, rho_old, start, alpha, curvature
    cdef int k, step
    memset(s.x, 0, n * sizeof(double))
    memset(s.applied, 0, n * sizeof(double))
    memcpy(s.residual, right, n * sizeof(double))
    memcpy(s.direction, right, n * sizeof(double))
    matvec(&rho, s.residual, s.residual, 1, n, 0)
    start = rho
    for step in range(2 * n + 10):
        if not rho > tolerance * tolerance * start or rho < 1e-300:
            break
        for k in range(n):
            s.old[k] = s.slopes[k] * s.direction[k]
        covariance(block, p, s.old, n, s.scores, s.product)
        curvature = 0.0
        for k in range(n):
            curvature += s.direction[k] * (s.direction[k] + s.slopes[k] * s.product[k])
        alpha = rho / curvature
        rho_old = rho
        rho = 0.0
        for k in range(n):
            s.x[k] += alpha * s.direction[k]
            s.applied[k] += alpha * s.product[k]
            s.residual[k] -= alpha * (s.direction[k] + s.slopes[k] * s.product[k])
            rho += s.residual[k] * s.residual[k]
        for k in range(n):
            s.direction[k] = s.residual[k] + rho / rho_old * s.direction[k]


cdef inline double bound(const block_t *block, const double *theta, int chosen, const double *phi,
                         const double *mu, int n, double log_sum) noexcept nogil:
    """Return L of eq. 8 with the bias of the decision. log_sum: as `softmax` returned it."""
    cdef double value = block.biases[chosen] - log_sum, softplus
    cdef const double *row = block.rows + <int64_t> chosen * n
    cdef int k
    for k in range(n):
        softplus = (phi[k] if phi[k] > 0 else 0.0) + log1p(exp(-fabs(phi[k])))
        value += softplus - mu[k] * phi[k] + mu[k] * (theta[k] + row[k])
    return value


cdef inline double forces(const block_t *block, const double *theta, int chosen, const double *phi,
                          const double *p, int n, solver_t *s) noexcept nogil:
    """Set force = phi - theta - W_a + wbar, minus the gradient of L.

    Returns its largest entry, without means at a limit that are drawn beyond it.
    """
    cdef const double *row = block.rows + <int64_t> chosen * n
    cdef double largest = 0.0, f
    cdef int k
    memset(s.wbar, 0, n * sizeof(double))
    vecmat(s.wbar, block.rows, p, block.size, n)
    for k in range(n):
        f = phi[k] - theta[k] - row[k] + s.wbar[k]
        if (phi[k] >= PHI_LIMIT and f < 0) or (phi[k] <= -PHI_LIMIT and f > 0):
            f = 0.0
        s.force[k] = f
        if fabs(f) > largest:
            largest = fabs(f)
    return largest


cdef inline void update_means(const isbn_t *net, const block_t *block, const double *theta,
                              int chosen, double *phi, double *mu, double *p, double log_sum,
                              solver_t *s) noexcept nogil:
    """Set phi and mu to the means after a decision: the maximum of L (eq. 8) by Newton's method.

    theta: (n), natural parameters of the means before; phi may be the same array. p: the
    distribution at these means, replaced by that at the new ones. log_sum: of it.
    """
    cdef int n = net.n, k, step, halving, is_fixed, has_value
    cdef double residual, size_of_step, value, before, accuracy, new_sum
    cdef double *old_phi = s.direction
    cdef double *delta = s.x
    memmove(phi, theta, n * sizeof(double))
    if is_forced(block):
        return
    memcpy(s.trial, theta, n * sizeof(double))
    theta = s.trial
    residual = forces(block, theta, chosen, phi, p, n, s)
    step = 0
    while step < NEWTON_STEPS and not residual <= net.tolerance:
        for k in range(n):
            is_fixed = fabs(phi[k]) >= PHI_LIMIT and s.force[k] == 0.0
            s.slopes[k] = 0.0 if is_fixed else sqrt(mu[k] * (1.0 - mu[k]))
            s.wbar[k] = s.slopes[k] * s.force[k]
        accuracy = residual if residual < 0.01 else 0.01
        solve(block, p, s.wbar, n, 1e-8 if accuracy < 1e-8 else accuracy, s)
        for k in range(n):
            delta[k] = 0.0 if s.slopes[k] == 0.0 else s.force[k] - s.applied[k]
        memcpy(old_phi, phi, n * sizeof(double))
        memcpy(s.old, mu, n * sizeof(double))
        size_of_step, value, before = 1.0, 0.0, residual
        has_value = halving = 0
        while True:
            for k in range(n):
                phi[k] = old_phi[k] - size_of_step * delta[k]
            clamp(phi, n)
            sigmoids(mu, phi, n)
            new_sum = softmax(block, mu, n, p)
            residual = forces(block, theta, chosen, phi, p, n, s)
            # Close to the optimum the residual falls by itself, and L need not be computed. Farther
            # off it may fall although L falls too: it leaves out means that are held at a limit.
            if before < 1.0 and residual <= 0.5 * before:
                break
            if not has_value:
                value = bound(block, theta, chosen, old_phi, s.old, n, log_sum)
                has_value = 1
            if (bound(block, theta, chosen, phi, mu, n, new_sum) >= value
                    or halving == HALVINGS):
                break
            size_of_step *= 0.5
            halving += 1
        log_sum = new_sum
        if halving == HALVINGS:
            break
        step += 1


cdef inline void sigmoids_backward(const double *phi, const double *mu, const double *g, double *h,
                                   int n) noexcept nogil:
    """Add the gradient of F through mu = sigmoid(phi) to h; 0 at the limits. g: (n), dF/dmu."""
    cdef int k
    for k in range(n):
        if fabs(phi[k]) < PHI_LIMIT:
            h[k] += mu[k] * (1.0 - mu[k]) * g[k]
        else:
            h[k] = 0.0


cdef inline void update_backward(const block_t *block, int chosen, const double *phi,
                                 const double *mu, const double *p, const double *g, double *h,
                                 int n, double *d_rows, double *d_biases,
                                 solver_t *s) noexcept nogil:
    """Go back through `update_means`.

    p: the distribution at the new means. g: (n), dF/dmu of the new means. h: (n), dF/dphi of them,
    replaced by dF/dtheta. The gradients of the block are added to d_rows and d_biases.
    """
    cdef int k, d, is_free, size = block.size
    cdef double mean = 0.0
    if is_forced(block):
        sigmoids_backward(phi, mu, g, h, n)
        return
    for k in range(n):
        is_free = fabs(phi[k]) < PHI_LIMIT
        s.slopes[k] = sqrt(mu[k] * (1.0 - mu[k])) if is_free else 0.0
        if not is_free:
            h[k] = 0.0
    # (I + D C) a = h + D g; with a = h + S y it is (I + S C S) y = S (g - C h), S = D^1/2
    covariance(block, p, h, n, s.scores, s.product)
    for k in range(n):
        s.wbar[k] = s.slopes[k] * (g[k] - s.product[k])
    solve(block, p, s.wbar, n, 1e-12, s)
    for k in range(n):
        h[k] += s.slopes[k] * s.x[k]
    # dW_a += a; dW_d -= p_d a + p_d ((W_d - wbar) a) mu
    matvec(s.scores, block.rows, h, size, n, 0)
    for d in range(size):
        mean += p[d] * s.scores[d]
    for d in range(size):
        s.scores[d] = -p[d] * (s.scores[d] - mean)
        d_biases[d] += s.scores[d]
    add_outer(d_rows, s.scores, mu, size, n)
    for d in range(size):
        s.scores[d] = -p[d]
    s.scores[chosen] += 1.0
    add_outer(d_rows, s.scores, h, size, n)


cdef inline void dropout_mask(double *mask, int n, double rate, uint64_t seed, uint64_t sentence,
                              uint64_t step) noexcept nogil:
    """Set mask[k] to 0 or 1 / (1 - rate), which depends on the seed and the place alone."""
    cdef uint64_t x = mix(mix(mix(seed) + sentence) + step)
    cdef int k
    for k in range(n):
        mask[k] = 1.0 / (1.0 - rate)
        if <double> (mix(x + <uint64_t> k) >> 11) * (1.0 / 9007199254740992.0) < rate:
            mask[k] = 0.0
