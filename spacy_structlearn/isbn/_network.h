/* The core of the sigmoid belief network kernels, float64: states of left-corner derivations and how
   they follow from one another, means of latent variables by eqs. 4 and 8 of Titov & Henderson
   (2007), distributions of decisions by eq. 5. What trains and what searches both build on it.

   Vectors have four lanes by the vector extension of GCC and Clang, plain loops elsewhere. Where the
   linker can choose (GCC on x86-64 Linux) each function is built twice, for any processor and for
   one with AVX2 and FMA: the wheel stays portable. */

#ifndef STRUCTLEARN_ISBN_NETWORK_H
#define STRUCTLEARN_ISBN_NETWORK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#if __GNUC__ >= 12
#define MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define MULTIVERSION __attribute__((target_clones("default", "avx2")))
#endif
#else
#define MULTIVERSION
#endif

#if defined(__GNUC__)
#define LANES 4
typedef double lanes_t __attribute__((vector_size(32), aligned(8), may_alias));
#define LOAD(p) (*(const lanes_t *)(p))
#define STORE(p, v) (*(lanes_t *)(p) = (v))
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

#define SHIFT 0
#define PROJECT 1
#define ATTACH 2
#define MODIFY 3
#define N_MOVES 4

#define SELF 0
#define ANCESTOR 1
#define LEFT_CHILD 2
#define RECENT_CHILD 3
#define N_RELATIONS 4

#define PHI_LIMIT 15.0     /* of the natural parameters of means */
#define NEWTON_STEPS 100
#define HALVINGS 40
#define MAX_ROWS 12        /* of inputs that one state reads */

typedef struct {
    int n;                      /* latent variables of a state */
    int n_labels, n_tags, n_items, n_signatures;
    int max_projects;           /* in a row */
    int mean_field;
    int reads[4];               /* which blocks of inputs are used: a, b, c, d */
    double tolerance;           /* of the natural parameters that the solver finds */
    const int *item_offsets;    /* (n_tags + 1): the items of each tag */
    int last, top, leaf, corner;    /* first rows of the blocks a, b, c, d of inputs */
    int n_inputs, n_outputs;
    const double *recurrent;    /* (4, n, n) */
    const double *inputs;       /* (n_inputs, n) */
    const double *bias;         /* (n) */
    const double *outputs;      /* (n_outputs, n): moves, labels, tags, items */
    const double *output_bias;  /* (n_outputs) */
} isbn_t;

/* A leaf as later states read it; tag -1: there is none. signature -1: none, or a known word. */
typedef struct {
    int tag, item, signature;
} leaf_t;

/* The state after some moves. Each move makes one new node on top of the stack, so that nodes of the
   tree and states have the same numbers. The final means of a state depend on the move that is made
   there; so they are kept under the number of the state that follows, and `related` are such
   numbers, -1 for none. */
typedef struct {
    int related[N_RELATIONS];
    int below;              /* the state of the node below the top, -1 for none */
    int symbol;             /* of the top: a label, n_labels for ROOT, or the tag of a leaf */
    int is_leaf;
    int has_modifier;
    int n_projects;         /* in a row, up to here */
    int n_words;            /* shifted so far */
    int move, label;        /* what led here; -1 for the first state */
    int is_done;
    leaf_t leaf, corner;    /* last shifted; leftmost below the top */
} state_t;

static UNUSED void set_sizes(isbn_t *net)
{
    int leaves = net->n_tags + net->n_items + net->n_signatures;
    net->last = 0;
    net->top = N_MOVES + net->n_labels + leaves;
    net->leaf = net->top + net->n_labels + 1 + net->n_tags;
    net->corner = net->leaf + leaves;
    net->n_inputs = net->corner + leaves;
    net->n_outputs = N_MOVES + net->n_labels + net->n_tags + net->n_items;
}

/* weights: recurrent, inputs, bias, outputs, output_bias, one after the other */
static UNUSED void set_weights(isbn_t *net, const double *weights)
{
    int64_t n = net->n;
    net->recurrent = weights;
    net->inputs = net->recurrent + N_RELATIONS * n * n;
    net->bias = net->inputs + net->n_inputs * n;
    net->outputs = net->bias + n;
    net->output_bias = net->outputs + net->n_outputs * n;
}

/* --- derivations ------------------------------------------------------------------------------- */

static UNUSED void first_state(const isbn_t *net, state_t *state)
{
    int tau;
    for (tau = 0; tau < N_RELATIONS; tau++) state->related[tau] = -1;
    state->below = -1;
    state->symbol = net->n_labels;
    state->is_leaf = state->has_modifier = state->n_projects = state->n_words = 0;
    state->move = state->label = -1;
    state->is_done = 0;
    state->leaf.tag = state->leaf.item = state->leaf.signature = -1;
    state->corner = state->leaf;
}

/* Bits of the moves that are legal. below: the state of the node below the top, NULL for none. */
static UNUSED int legal_moves(const isbn_t *net, const state_t *state, const state_t *below)
{
    int mask = 0;
    if (net->n_labels == 0) return 1 << SHIFT;
    if (below == NULL) return state->is_done ? 0 : 1 << SHIFT;
    if (!state->is_leaf) mask |= 1 << SHIFT;
    if (state->n_projects < net->max_projects) mask |= 1 << PROJECT;
    if (!below->has_modifier) mask |= 1 << ATTACH;
    if (below->symbol != net->n_labels) mask |= 1 << MODIFY;
    return mask;
}

/* The state `number` that follows `state`, which is number `from`. label: of a project; leaf: of a
   shift; below: as in legal_moves. */
static UNUSED void next_state(const state_t *state, int from, state_t *next, int number,
                              const state_t *below, int move, int label, leaf_t leaf, int root)
{
    state_t s = *state;
    s.move = move;
    s.label = -1;
    s.related[SELF] = -1;
    s.related[RECENT_CHILD] = number;
    if (move == SHIFT) {
        s.below = from;
        s.related[ANCESTOR] = number;
        s.related[LEFT_CHILD] = s.related[RECENT_CHILD] = -1;
        s.symbol = leaf.tag;
        s.is_leaf = 1;
        s.has_modifier = s.n_projects = 0;
        s.n_words++;
        s.leaf = s.corner = leaf;
    } else if (move == PROJECT) {
        s.label = label;
        s.related[LEFT_CHILD] = number;
        s.symbol = label;
        s.is_leaf = s.has_modifier = 0;
        s.n_projects++;
    } else {
        s.below = below->below;
        s.related[SELF] = state->related[ANCESTOR];
        s.related[ANCESTOR] = below->related[ANCESTOR];
        s.related[LEFT_CHILD] = below->corner.tag < 0 ? number : below->related[LEFT_CHILD];
        s.symbol = below->symbol;
        s.is_leaf = s.n_projects = 0;
        s.has_modifier = below->has_modifier || move == MODIFY;
        s.is_done = below->symbol == root;
        s.corner = below->corner.tag < 0 ? state->corner : below->corner;
    }
    *next = s;
}

static int leaf_rows(const isbn_t *net, leaf_t leaf, int first, int *rows)
{
    int count = 0;
    if (leaf.tag < 0) return 0;
    rows[count++] = first + leaf.tag;
    rows[count++] = first + net->n_tags + leaf.item;
    if (leaf.signature >= 0)
        rows[count++] = first + net->n_tags + net->n_items + leaf.signature;
    return count;
}

/* The rows of inputs that a state reads. RETURNS: how many, at most MAX_ROWS. */
static UNUSED int input_rows(const isbn_t *net, const state_t *state, int *rows)
{
    int count = 0;
    if (net->reads[0] && state->move >= 0) {
        rows[count++] = net->last + state->move;
        if (state->move == PROJECT) rows[count++] = net->last + N_MOVES + state->label;
        if (state->move == SHIFT)
            count += leaf_rows(net, state->leaf, net->last + N_MOVES + net->n_labels, rows + count);
    }
    if (net->reads[1])
        rows[count++] = net->top + state->symbol + (state->is_leaf ? net->n_labels + 1 : 0);
    if (net->reads[2]) count += leaf_rows(net, state->leaf, net->leaf, rows + count);
    if (net->reads[3]) count += leaf_rows(net, state->corner, net->corner, rows + count);
    return count;
}

/* --- vectors ----------------------------------------------------------------------------------- */

/* out[r] (+)= sum_k m[r, k] x[k], m of shape (rows, n) */
MULTIVERSION static UNUSED void matvec(double *out, const double *m, const double *x, int rows,
                                       int n, int add)
{
    int r, k;
    for (r = 0; r < rows; r++, m += n) {
        double sum = 0.0;
        k = 0;
#ifdef LANES
        {
            lanes_t a = {0}, b = {0};
            for (; k + 8 <= n; k += 8) {
                a += LOAD(m + k) * LOAD(x + k);
                b += LOAD(m + k + 4) * LOAD(x + k + 4);
            }
            for (; k + 4 <= n; k += 4) a += LOAD(m + k) * LOAD(x + k);
            a += b;
            sum = (a[0] + a[1]) + (a[2] + a[3]);
        }
#endif
        for (; k < n; k++) sum += m[k] * x[k];
        out[r] = add ? out[r] + sum : sum;
    }
}

/* out[k] += sum_r w[r] m[r, k], m of shape (rows, n) */
MULTIVERSION static UNUSED void vecmat(double *out, const double *m, const double *w, int rows,
                                       int n)
{
    int r, k = 0;
#ifdef LANES
    for (; k + 8 <= n; k += 8) {
        lanes_t a = LOAD(out + k), b = LOAD(out + k + 4);
        for (r = 0; r < rows; r++) {
            a += w[r] * LOAD(m + (int64_t)r * n + k);
            b += w[r] * LOAD(m + (int64_t)r * n + k + 4);
        }
        STORE(out + k, a);
        STORE(out + k + 4, b);
    }
    for (; k + 4 <= n; k += 4) {
        lanes_t a = LOAD(out + k);
        for (r = 0; r < rows; r++) a += w[r] * LOAD(m + (int64_t)r * n + k);
        STORE(out + k, a);
    }
#endif
    for (; k < n; k++)
        for (r = 0; r < rows; r++) out[k] += w[r] * m[(int64_t)r * n + k];
}

/* m[r, k] += w[r] x[k], m of shape (rows, n) */
MULTIVERSION static UNUSED void add_outer(double *m, const double *w, const double *x, int rows,
                                          int n)
{
    int r, k;
    for (r = 0; r < rows; r++, m += n) {
        double factor = w[r];
        if (factor == 0.0) continue;
        for (k = 0; k < n; k++) m[k] += factor * x[k];
    }
}

MULTIVERSION static UNUSED void add_to(double *out, const double *x, double factor, int n)
{
    int k;
    for (k = 0; k < n; k++) out[k] += factor * x[k];
}

MULTIVERSION static UNUSED double inner(const double *x, const double *y, int n)
{
    double sum = 0.0;
    matvec(&sum, x, y, 1, n, 0);
    return sum;
}

/* x[k] = exp(x[k]), to the last digits but one; below -700: as at -700. Not above 700. */
MULTIVERSION static UNUSED void exponentials(double *x, int n)
{
    int k;
    for (k = 0; k < n; k++) {
        double v = x[k] < -700.0 ? -700.0 : x[k];
        /* v = e ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2**52 rounds to a whole number */
        double shifted = v * 1.4426950408889634 + 6755399441055744.0;
        double e = shifted - 6755399441055744.0;
        double r = (v - e * 6.93147180369123816490e-01) - e * 1.90821492927058770002e-10;
        double p = 1.0 / 479001600.0;
        uint64_t bits;
        double power;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r + 1.0;
        p = p * r + 1.0;
        memcpy(&bits, &shifted, 8);
        bits = (bits + 1023) << 52;
        memcpy(&power, &bits, 8);
        x[k] = p * power;
    }
}

/* mu = sigma(phi), phi between the limits */
MULTIVERSION static UNUSED void sigmoids(double *mu, const double *phi, int n)
{
    int k;
    for (k = 0; k < n; k++) mu[k] = -phi[k];
    exponentials(mu, n);
    for (k = 0; k < n; k++) mu[k] = 1.0 / (1.0 + mu[k]);
}

static UNUSED void clamp(double *phi, int n)
{
    int k;
    for (k = 0; k < n; k++) {
        /* written so that a NaN is caught too */
        if (!(phi[k] < PHI_LIMIT)) phi[k] = PHI_LIMIT;
        if (phi[k] < -PHI_LIMIT) phi[k] = -PHI_LIMIT;
    }
}

/* --- decisions --------------------------------------------------------------------------------- */

/* A block of alternatives: rows of outputs. legal: a bit for each, used where there are at most
   N_MOVES; -1 for all. */
typedef struct {
    const double *rows;     /* (size, n) */
    const double *biases;   /* (size) */
    int size;
    int legal;
    int first;              /* row of outputs */
} block_t;

static UNUSED block_t block_of(const isbn_t *net, int first, int size, int legal)
{
    block_t block;
    block.rows = net->outputs + (int64_t)first * net->n;
    block.biases = net->output_bias + first;
    block.size = size;
    block.legal = legal;
    block.first = first;
    return block;
}

static UNUSED block_t move_block(const isbn_t *net, int legal)
{
    return block_of(net, 0, N_MOVES, legal);
}

static UNUSED block_t label_block(const isbn_t *net)
{
    return block_of(net, N_MOVES, net->n_labels, -1);
}

static UNUSED block_t tag_block(const isbn_t *net)
{
    return block_of(net, N_MOVES + net->n_labels, net->n_tags, -1);
}

static UNUSED block_t item_block(const isbn_t *net, int tag)
{
    int first = net->item_offsets[tag];
    return block_of(net, N_MOVES + net->n_labels + net->n_tags + first,
                    net->item_offsets[tag + 1] - first, -1);
}

/* Whether there is nothing to decide. */
static UNUSED int is_forced(const block_t *block)
{
    if (block->legal < 0) return block->size < 2;
    return (block->legal & (block->legal - 1)) == 0;
}

/* p[d] = P(d | mu), eq. 5. RETURNS: the logarithm of the sum. */
static UNUSED double softmax(const block_t *block, const double *mu, int n, double *p)
{
    double top = -INFINITY, sum = 0.0;
    int d, size = block->size;
    matvec(p, block->rows, mu, size, n, 0);
    for (d = 0; d < size; d++) p[d] += block->biases[d];
    if (block->legal >= 0)
        for (d = 0; d < size; d++)
            if (!(block->legal >> d & 1)) p[d] = -INFINITY;
    for (d = 0; d < size; d++)
        if (p[d] > top) top = p[d];
    for (d = 0; d < size; d++) p[d] -= top;
    exponentials(p, size);
    if (block->legal >= 0)
        for (d = 0; d < size; d++)
            if (!(block->legal >> d & 1)) p[d] = 0.0;
    for (d = 0; d < size; d++) sum += p[d];
    for (d = 0; d < size; d++) p[d] /= sum;
    return top + log(sum);
}

/* --- mean field -------------------------------------------------------------------------------- */

/* Room for the solver: vectors of n, and of the largest block. */
typedef struct {
    double *force, *trial, *slopes, *wbar, *x, *direction, *residual, *product, *applied, *old;
    double *scores;         /* (largest) */
} solver_t;

#define SOLVER_VECTORS 10

/* room: SOLVER_VECTORS * n + largest doubles */
static UNUSED void set_solver(solver_t *s, double *room, int n)
{
    double **vectors[SOLVER_VECTORS];
    int v;
    vectors[0] = &s->force; vectors[1] = &s->trial; vectors[2] = &s->slopes;
    vectors[3] = &s->wbar; vectors[4] = &s->x; vectors[5] = &s->direction;
    vectors[6] = &s->residual; vectors[7] = &s->product; vectors[8] = &s->applied;
    vectors[9] = &s->old;
    for (v = 0; v < SOLVER_VECTORS; v++, room += n) *vectors[v] = room;
    s->scores = room;
}

/* out = C v, with C = sum_d p_d W_d W_d' - wbar wbar'; scores: room for the block */
static UNUSED void covariance(const block_t *block, const double *p, const double *v, int n,
                              double *scores, double *out)
{
    double mean = 0.0;
    int d, size = block->size;
    matvec(scores, block->rows, v, size, n, 0);
    for (d = 0; d < size; d++) mean += p[d] * scores[d];
    for (d = 0; d < size; d++) scores[d] = p[d] * (scores[d] - mean);
    memset(out, 0, n * sizeof(double));
    vecmat(out, block->rows, scores, size, n);
}

/* Solve (I + S C S) x = right by conjugate gradients, S = diag(slopes) with slopes = sqrt(D);
   applied = C S x besides. C has the rank of the block, less one, so steps are few.
   Uses direction, residual, product. */
static UNUSED void solve(const block_t *block, const double *p, const double *right, int n,
                         double tolerance, solver_t *s)
{
    double rho, rho_old, start;
    int k, step;
    memset(s->x, 0, n * sizeof(double));
    memset(s->applied, 0, n * sizeof(double));
    memcpy(s->residual, right, n * sizeof(double));
    memcpy(s->direction, right, n * sizeof(double));
    rho = start = inner(s->residual, s->residual, n);
    for (step = 0; step < 2 * n + 10; step++) {
        double alpha, curvature = 0.0;
        if (!(rho > tolerance * tolerance * start) || rho < 1e-300) break;
        for (k = 0; k < n; k++) s->old[k] = s->slopes[k] * s->direction[k];
        covariance(block, p, s->old, n, s->scores, s->product);
        for (k = 0; k < n; k++)
            curvature += s->direction[k] * (s->direction[k] + s->slopes[k] * s->product[k]);
        alpha = rho / curvature;
        rho_old = rho;
        rho = 0.0;
        for (k = 0; k < n; k++) {
            s->x[k] += alpha * s->direction[k];
            s->applied[k] += alpha * s->product[k];
            s->residual[k] -= alpha * (s->direction[k] + s->slopes[k] * s->product[k]);
            rho += s->residual[k] * s->residual[k];
        }
        for (k = 0; k < n; k++)
            s->direction[k] = s->residual[k] + rho / rho_old * s->direction[k];
    }
}

/* L of eq. 8, with the bias of the decision: log_sum is the logarithm of the sum over the block */
static UNUSED double bound(const block_t *block, const double *theta, int chosen, const double *phi,
                           const double *mu, int n, double log_sum)
{
    double value = block->biases[chosen] - log_sum;
    const double *row = block->rows + (int64_t)chosen * n;
    int k;
    for (k = 0; k < n; k++) {
        double softplus = (phi[k] > 0 ? phi[k] : 0.0) + log1p(exp(-fabs(phi[k])));
        value += softplus - mu[k] * phi[k] + mu[k] * (theta[k] + row[k]);
    }
    return value;
}

/* force = phi - theta - W_a + wbar, minus the gradient of L; RETURNS: its largest entry, those left
   out whose phi is at a limit and drawn beyond */
static UNUSED double forces(const block_t *block, const double *theta, int chosen,
                            const double *phi, const double *p, int n, solver_t *s)
{
    const double *row = block->rows + (int64_t)chosen * n;
    double largest = 0.0;
    int k;
    memset(s->wbar, 0, n * sizeof(double));
    vecmat(s->wbar, block->rows, p, block->size, n);
    for (k = 0; k < n; k++) {
        double f = phi[k] - theta[k] - row[k] + s->wbar[k];
        if ((phi[k] >= PHI_LIMIT && f < 0) || (phi[k] <= -PHI_LIMIT && f > 0)) f = 0.0;
        s->force[k] = f;
        if (fabs(f) > largest) largest = fabs(f);
    }
    return largest;
}

/* The means after a decision was seen: the maximum of L (eq. 8) by Newton's method.

   theta (n): natural parameters of the means before. p: the distribution over the block at these
   means, replaced by that at the new ones. log_sum: of it. OUT: phi, mu (n).
   RETURNS: number of steps. phi may be theta, where that need not be kept. */
static UNUSED int update_means(const isbn_t *net, const block_t *block, const double *theta,
                               int chosen, double *phi, double *mu, double *p, double log_sum,
                               solver_t *s)
{
    int n = net->n, k, step, halving;
    double residual;
    memmove(phi, theta, n * sizeof(double));
    if (is_forced(block)) return 0;
    memcpy(s->trial, theta, n * sizeof(double));
    theta = s->trial;
    residual = forces(block, theta, chosen, phi, p, n, s);
    for (step = 0; step < NEWTON_STEPS; step++) {
        double size_of_step = 1.0, value = 0.0, before = residual, accuracy;
        double *old_phi = s->direction, *delta = s->x;
        int known = 0;
        if (residual <= net->tolerance) break;
        for (k = 0; k < n; k++) {
            int fixed = fabs(phi[k]) >= PHI_LIMIT && s->force[k] == 0.0;
            s->slopes[k] = fixed ? 0.0 : sqrt(mu[k] * (1.0 - mu[k]));
            s->wbar[k] = s->slopes[k] * s->force[k];
        }
        accuracy = residual < 0.01 ? residual : 0.01;
        solve(block, p, s->wbar, n, accuracy < 1e-8 ? 1e-8 : accuracy, s);
        for (k = 0; k < n; k++)
            delta[k] = s->slopes[k] == 0.0 ? 0.0 : s->force[k] - s->applied[k];
        memcpy(old_phi, phi, n * sizeof(double));
        memcpy(s->old, mu, n * sizeof(double));
        for (halving = 0;; halving++) {
            double fresh_sum;
            for (k = 0; k < n; k++) phi[k] = old_phi[k] - size_of_step * delta[k];
            clamp(phi, n);
            sigmoids(mu, phi, n);
            fresh_sum = softmax(block, mu, n, p);
            residual = forces(block, theta, chosen, phi, p, n, s);
            /* Close to the optimum the residual falls by itself, and L need not be computed. Farther
               off it may fall where L does: it leaves out means that are held at a limit. */
            if (before < 1.0 && residual <= 0.5 * before) {
                log_sum = fresh_sum;
                break;
            }
            if (!known) {
                value = bound(block, theta, chosen, old_phi, s->old, n, log_sum);
                known = 1;
            }
            if (bound(block, theta, chosen, phi, mu, n, fresh_sum) >= value || halving == HALVINGS) {
                log_sum = fresh_sum;
                break;
            }
            size_of_step *= 0.5;
        }
        if (halving == HALVINGS) break;
    }
    return step;
}

/* Back through update_means. g (n): dF/dmu of the new means; h (n): dF/dphi of them. p: the
   distribution at the new means. OUT: h becomes dF/dtheta.
   d_rows, d_biases: of the block. */
static UNUSED void update_backward(const block_t *block, int chosen, const double *phi,
                                   const double *mu, const double *p, const double *g, double *h,
                                   int n, double *d_rows, double *d_biases, solver_t *s)
{
    int k, d, size = block->size;
    double mean = 0.0;
    if (is_forced(block)) {
        for (k = 0; k < n; k++)
            if (fabs(phi[k]) < PHI_LIMIT) h[k] += mu[k] * (1.0 - mu[k]) * g[k];
            else h[k] = 0.0;
        return;
    }
    for (k = 0; k < n; k++) {
        int free = fabs(phi[k]) < PHI_LIMIT;
        s->slopes[k] = free ? sqrt(mu[k] * (1.0 - mu[k])) : 0.0;
        if (!free) h[k] = 0.0;
    }
    /* (I + D C) a = h + D g; with a = h + S y it is (I + S C S) y = S (g - C h), S = D^1/2 */
    covariance(block, p, h, n, s->scores, s->product);
    for (k = 0; k < n; k++) s->wbar[k] = s->slopes[k] * (g[k] - s->product[k]);
    solve(block, p, s->wbar, n, 1e-12, s);
    for (k = 0; k < n; k++) h[k] += s->slopes[k] * s->x[k];
    /* dW_a += a; dW_d -= p_d a + p_d ((W_d - wbar) a) mu */
    matvec(s->scores, block->rows, h, size, n, 0);
    for (d = 0; d < size; d++) mean += p[d] * s->scores[d];
    for (d = 0; d < size; d++) s->scores[d] = -p[d] * (s->scores[d] - mean);
    add_outer(d_rows, s->scores, mu, size, n);
    for (d = 0; d < size; d++) d_biases[d] += s->scores[d];
    for (d = 0; d < size; d++) s->scores[d] = -p[d];
    s->scores[chosen] += 1.0;
    add_outer(d_rows, s->scores, h, size, n);
}

/* --- states ------------------------------------------------------------------------------------ */

/* phi = mu = the prior means of a state: eta (eq. 4) but for the recurrent terms, which are in
   `phi` already */
static UNUSED void prior_means(const isbn_t *net, const state_t *state, double *phi, double *mu)
{
    int rows[MAX_ROWS], count = input_rows(net, state, rows), r, n = net->n;
    add_to(phi, net->bias, 1.0, n);
    for (r = 0; r < count; r++) add_to(phi, net->inputs + (int64_t)rows[r] * n, 1.0, n);
    clamp(phi, n);
    sigmoids(mu, phi, n);
}

static UNUSED int largest_block(const isbn_t *net)
{
    int size = N_MOVES, t;
    if (net->n_labels > size) size = net->n_labels;
    if (net->n_tags > size) size = net->n_tags;
    for (t = 0; t < net->n_tags; t++) {
        int items = net->item_offsets[t + 1] - net->item_offsets[t];
        if (items > size) size = items;
    }
    return size;
}

/* --- dropout ----------------------------------------------------------------------------------- */

static UNUSED uint64_t mixed(uint64_t x)
{
    uint64_t z = x + 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

/* mask[k] = 0 or 1 / (1 - rate), a function of seed and place alone (splitmix64) */
static UNUSED void dropout_mask(double *mask, int n, double rate, uint64_t seed, uint64_t sentence,
                                uint64_t step)
{
    uint64_t x = mixed(mixed(mixed(seed) + sentence) + step);
    int k;
    for (k = 0; k < n; k++) {
        uint64_t z = mixed(x + k);
        mask[k] = (double)(z >> 11) * (1.0 / 9007199254740992.0) < rate ? 0.0 : 1.0 / (1.0 - rate);
    }
}

#endif
