# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of lexical columns: affixes and flags of words as symbols; see `words`."""

from cpython.unicode cimport (
    PyUnicode_READ_CHAR,
    Py_UNICODE_ISALNUM,
    Py_UNICODE_ISDECIMAL,
    Py_UNICODE_ISLOWER,
    Py_UNICODE_ISUPPER,
)
from libc.stdint cimport int32_t, uint64_t

from spacy_structlearn.kernels.checks cimport check
from spacy_structlearn.kernels.hashing cimport mix

DEF MAX_LENGTH = 16


def affixes(list words, const int32_t[::1] lengths, uint64_t[:, ::1] out):
    """Symbols of beginnings and ends of words, into `out`, uint64 (n_words, n_columns).

    lengths: int32 (n_columns), at most 16 characters: of a beginning, or, below 0, of an end. The
    symbol of a word that is not longer than that is 0.
    """
    cdef Py_ssize_t n = len(words), i, j, k, size
    cdef uint64_t[MAX_LENGTH + 1] first
    cdef uint64_t[MAX_LENGTH + 1] last
    cdef uint64_t begin = 1, end = 2
    cdef int32_t longest = 0, length
    cdef str word
    check(out.shape[0] == n and out.shape[1] == lengths.shape[0], "out has a wrong shape")
    for j in range(lengths.shape[0]):
        check(-MAX_LENGTH <= lengths[j] <= MAX_LENGTH and lengths[j], "affixes have 1 to 16 characters")
        longest = max(longest, abs(lengths[j]))
    first[0], last[0] = mix(begin), mix(end)
    for i in range(n):
        word = words[i]
        size = len(word)
        for k in range(min(<Py_ssize_t>longest, size)):
            first[k + 1] = mix(first[k] ^ <uint64_t>PyUnicode_READ_CHAR(word, k))
            last[k + 1] = mix(last[k] ^ <uint64_t>PyUnicode_READ_CHAR(word, size - 1 - k))
        for j in range(lengths.shape[0]):
            length = lengths[j]
            if abs(length) >= size:
                out[i, j] = 0
            else:
                out[i, j] = first[length] if length > 0 else last[-length]


def flags(list words, uint64_t[::1] out):
    """What characters each word has, as bits of a symbol, into `out`, uint64 (n_words); see `words`."""
    cdef Py_ssize_t n = len(words), i, k, size
    cdef Py_ssize_t upper, lower, digits, others
    cdef Py_UCS4 c
    cdef uint64_t bits
    cdef str word
    check(out.shape[0] == n, "out must be as long as words")
    for i in range(n):
        word = words[i]
        size = len(word)
        upper = lower = digits = others = 0
        bits = 0
        for k in range(size):
            c = PyUnicode_READ_CHAR(word, k)
            if Py_UNICODE_ISUPPER(c):
                upper += 1
                bits |= 4 if k == 0 else 16
            elif Py_UNICODE_ISLOWER(c):
                lower += 1
            elif Py_UNICODE_ISDECIMAL(c):
                digits += 1
                if k == size - 1:
                    bits |= 512
            elif not Py_UNICODE_ISALNUM(c):
                others += 1
                if c == u"-":
                    bits |= 2
                elif c == u"." and k < size - 1:
                    bits |= 64
                elif c == u"@":
                    bits |= 128
                elif c == u"/":
                    bits |= 256
                elif c == u"'" or c == u"\u2019":
                    bits |= 2048
        if digits:
            bits |= 1
        if upper > 1 and not lower:
            bits |= 8
        if others == size:
            bits |= 32
        if lower:
            bits |= 1024
        out[i] = bits
